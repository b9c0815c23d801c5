// Package experiment compares two policies on real traffic. It assigns units, such as
// conversations, to one of them, sums up outcomes by unit, and tests for differences in a way that
// stays valid however often somebody looks. It knows neither HTTP nor how policies are configured.
package experiment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// An Arm is one of the two policies that are compared.
type Arm string

// The arms.
const (
	A Arm = "a" // the policy that has the experiment
	B Arm = "b" // the policy that it names
)

// A Unit is what is assigned to an arm as a whole.
type Unit string

// The units.
const (
	Conversation Unit = "conversation"
	Tenant       Unit = "tenant"
	UserHeader   Unit = "user_header" // the user whom a header of the request names
)

// DefaultRequests is the default of Settings.Requests.
const DefaultRequests = 4000

// Settings describe an experiment.
type Settings struct {
	Name     string
	Share    float64 // of the units that get policy B, above 0 and below 1
	Unit     Unit
	Header   string    // with UserHeader: its name
	Until    time.Time // when all units get policy A again; zero: never
	Goal     Measure   // the measure that matters most
	Requests int       // planned number of requests, for which the test is most sensitive

	// Names of the policies, and hashes of their settings without those of tenants.
	PolicyA, HashA string
	PolicyB, HashB string
}

// Over reports whether the experiment has ended.
func (s *Settings) Over(now time.Time) bool { return !s.Until.IsZero() && !now.Before(s.Until) }

// Assign returns the arm of a unit of a tenant. It depends on nothing else, so that restarts and
// replicas agree.
func (s *Settings) Assign(tenant string, unit Key) Arm {
	h := sum(s.Name, string(s.Unit), tenant, string(binary.BigEndian.AppendUint64(nil, uint64(unit))))
	if float64(h)/math.MaxUint64 < s.Share {
		return B
	}
	return A
}

// A Key identifies a unit, or a part of a conversation, by a hash.
type Key uint64

// String returns the key in hex.
func (k Key) String() string { return fmt.Sprintf("%016x", uint64(k)) }

// KeyOf returns the key of a list of texts, the first of which says what the others are.
func KeyOf(texts ...string) Key { return sum(texts...) }

// sum returns the first 64 bits of the SHA-256 of texts with their lengths.
func sum(texts ...string) Key {
	h := sha256.New()
	var size [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:])
		h.Write([]byte(text))
	}
	var out [sha256.Size]byte
	return Key(binary.BigEndian.Uint64(h.Sum(out[:0])))
}
