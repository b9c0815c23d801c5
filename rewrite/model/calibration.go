package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	ringSize = 64 // samples kept per key
	// minSamples is the number of samples that a correction needs.
	minSamples = 8
	maxNames   = 512
	// maxName is the length, in bytes, of the longest name that gets samples of its own.
	maxName = 128
)

// A CalibrationKey identifies what is calibrated. Upstream and Row (of the model table) have few
// values. Name is the model as requests name it; "" pools the names of a row that have no samples
// of their own. Each tenant is calibrated by its own answers only, so that one tenant cannot
// narrow another one's window.
type CalibrationKey struct{ Tenant, Upstream, Row, Name string }

func (k CalibrationKey) compare(other CalibrationKey) int {
	return cmp.Or(cmp.Compare(k.Upstream, other.Upstream), cmp.Compare(k.Row, other.Row), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Tenant, other.Tenant))
}

// A CalibrationEntry is the state of a key.
type CalibrationEntry struct {
	CalibrationKey
	Value   CalibrationValue // zero with fewer than 8 samples
	Samples int              // number of samples it is based on, at most 64
}

// A Tracker keeps the newest samples of each key. It is safe for concurrent use.
//
// Names come from clients, so at most 512 have samples of their own. Samples of other names, and
// of names longer than 128 bytes, are pooled by tenant, upstream and row.
type Tracker struct {
	mu    sync.Mutex // held while a key is added
	table atomic.Pointer[table]
}

// A table is immutable; to add a key, it is replaced by a larger copy.
type table struct {
	tracks map[CalibrationKey]*track
	names  int
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	t := &Tracker{}
	t.table.Store(&table{})
	return t
}

// find returns the track of k, nil if there is none, and the key under which it is stored: k, or
// k without its name if names are pooled.
func (t *table) find(k CalibrationKey) (*track, CalibrationKey) {
	if len(k.Name) <= maxName {
		if known := t.tracks[k]; known != nil || t.names < maxNames {
			return known, k
		}
	}
	k.Name = ""
	return t.tracks[k], k
}

// add returns the track of k and creates it if there is none.
func (t *Tracker) add(k CalibrationKey) *track {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.table.Load()
	known, k := old.find(k)
	if known != nil {
		return known
	}
	// The name may be a part of a request's body; a clone does not keep that in memory.
	k.Name = strings.Clone(k.Name)
	now := &table{tracks: maps.Clone(old.tracks), names: old.names}
	if now.tracks == nil {
		now.tracks = map[CalibrationKey]*track{}
	}
	if k.Name != "" {
		now.names++
	}
	known = &track{}
	now.tracks[k] = known
	t.table.Store(now)
	return known
}

// Observe records an answer: the tokens counted for the whole request, and those billed as
// usage.prompt_tokens. It returns false for impossible samples, which it only uses to detect the
// window that the upstream serves: nothing counted or billed, more than 100 million billed, more
// billed than eight times the count plus 4096, or less than an eighth of the count.
func (t *Tracker) Observe(k CalibrationKey, counted, billed int) bool {
	s := sample{counted, billed}
	if s.absurd() && !s.cut() {
		return false
	}
	known, _ := t.table.Load().find(k)
	if known == nil {
		known = t.add(k)
	}
	known.observe(s)
	return !s.absurd()
}

// Window returns the context window observed at the upstream of k, which truncates longer
// prompts; 0 is unknown. Each process learns it from its own answers. It takes no lock and does
// not allocate.
func (t *Tracker) Window(k CalibrationKey) int {
	known, _ := t.table.Load().find(k)
	return known.servedWindow()
}

// Correction returns the current correction for k. It takes no lock and does not allocate.
func (t *Tracker) Correction(k CalibrationKey) CalibrationValue {
	known, _ := t.table.Load().find(k)
	return known.inForce()
}

// All returns the state of every key, sorted by upstream, row, name and tenant.
func (t *Tracker) All() []CalibrationEntry {
	tracks := t.table.Load().tracks
	all := make([]CalibrationEntry, 0, len(tracks))
	for k, known := range tracks {
		all = append(all, CalibrationEntry{CalibrationKey: k, Value: known.inForce(), Samples: known.samples()})
	}
	slices.SortFunc(all, func(a, b CalibrationEntry) int { return a.compare(b.CalibrationKey) })
	return all
}

// Merge combines the samples of k, a key from All, with shared, the bytes written for it by other
// processes (nil if none). It returns the bytes to write back, and whether they differ from
// shared: the shared samples followed by this process's new ones, the newest 64 of them. From
// then on they are this process's samples, too. Replicas that merge in turn converge to the same
// samples and the same correction.
//
// A store may lose a write, and writes may cross. So older samples of this process that shared
// lacks are put in front. Bytes in another format are ignored.
func (t *Tracker) Merge(k CalibrationKey, shared []byte) (merged []byte, changed bool) {
	known := t.table.Load().tracks[k]
	if known == nil {
		return nil, false
	}
	return known.merge(shared)
}

// Unwritten reports that the result of the last Merge of k could not be written. Its new samples
// count as new again, so that the next Merge offers them again. Otherwise a store that is
// temporarily read-only would lose them for the other processes.
func (t *Tracker) Unwritten(k CalibrationKey) {
	if known := t.table.Load().tracks[k]; known != nil {
		known.unwritten()
	}
}
