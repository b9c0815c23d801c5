// Package calibration learns how far our counts of whole requests are from what
// upstreams bill for them, for each upstream and model, from the answers that say
// so. A few wild answers do not move it, and what it says is steady: texts are
// fitted by it, and ones that change miss the prompt caches of upstreams.
//
// It knows nothing of requests, and of no store: Merge only makes the bytes that
// processes share.
package calibration

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	ringSize = 64 // samples of one key
	// minSamples is how many it takes to say something.
	minSamples = 8
	maxNames   = 512
	// maxName is the longest name that has samples of its own, in bytes.
	maxName = 128
)

// A Key names what is calibrated. Upstream and Row, the row of the model table, are
// few; Name is as requests name the model, and "" stands for the names of a row
// that have no samples of their own. Each tenant is calibrated by its own answers:
// what one sends must not narrow the window of another.
type Key struct{ Tenant, Upstream, Row, Name string }

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Upstream, other.Upstream), cmp.Compare(k.Row, other.Row), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Tenant, other.Tenant))
}

// An Entry is what is known of a key.
type Entry struct {
	Key
	Value   Value // zero as long as there are fewer than 8 samples
	Samples int   // answers that it rests on, at most 64
}

// A Tracker holds the newest samples of each key. It is safe for concurrent use.
//
// Names come from clients, so at most 512 have samples of their own. What is
// observed of others, and of names longer than 128 bytes, is taken together by
// tenant, upstream and row.
type Tracker struct {
	mu    sync.Mutex // held to add a key
	table atomic.Pointer[table]
}

// A table never changes: a key more makes another one.
type table struct {
	tracks map[Key]*track
	names  int
}

// New returns a Tracker that knows nothing.
func New() *Tracker {
	t := &Tracker{}
	t.table.Store(&table{})
	return t
}

// find returns what is known of k, and the key by which it is, or would be.
func (t *table) find(k Key) (*track, Key) {
	if len(k.Name) <= maxName {
		if known := t.tracks[k]; known != nil || t.names < maxNames {
			return known, k
		}
	}
	k.Name = ""
	return t.tracks[k], k
}

// add returns the track of k, made if there is none.
func (t *Tracker) add(k Key) *track {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.table.Load()
	known, k := old.find(k)
	if known != nil {
		return known
	}
	// What a name is part of, such as a request, need not stay in memory for it.
	k.Name = strings.Clone(k.Name)
	now := &table{tracks: maps.Clone(old.tracks), names: old.names}
	if now.tracks == nil {
		now.tracks = map[Key]*track{}
	}
	if k.Name != "" {
		now.names++
	}
	known = &track{}
	now.tracks[k] = known
	t.table.Store(now)
	return known
}

// Observe takes an answer: tokens counted of the whole request, and billed by
// usage.prompt_tokens. It is false for what cannot be and was ignored: nothing
// counted or billed, more than 100 million billed, more than eight times as much as
// counted and 4096, or less than an eighth.
func (t *Tracker) Observe(k Key, counted, billed int) bool {
	s := sample{counted, billed}
	if s.absurd() {
		return false
	}
	known, _ := t.table.Load().find(k)
	if known == nil {
		known = t.add(k)
	}
	known.observe(s)
	return true
}

// Of returns the correction for k that is in force. It neither waits nor allocates.
func (t *Tracker) Of(k Key) Value {
	known, _ := t.table.Load().find(k)
	return known.inForce()
}

// All returns what is known of every key, sorted by upstream, row, name and tenant.
func (t *Tracker) All() []Entry {
	tracks := t.table.Load().tracks
	all := make([]Entry, 0, len(tracks))
	for k, known := range tracks {
		all = append(all, Entry{Key: k, Value: known.inForce(), Samples: known.samples()})
	}
	slices.SortFunc(all, func(a, b Entry) int { return a.compare(b.Key) })
	return all
}

// Active returns the keys that this process has observed, sorted: those to share.
func (t *Tracker) Active() []Key {
	return slices.SortedFunc(maps.Keys(t.table.Load().tracks), Key.compare)
}

// Merge joins the samples of a key, one of Active, with what others wrote about it;
// nil is nothing. merged is what to write back, if changed: the shared samples, then
// those of this process that are new, the newest 64 of them. From then on they are
// this process's samples, too. Replicas that merge in turn come to hold the same
// samples and the same Value.
//
// Where shared holds fewer than it should, for a store may forget and writes may
// cross, what this process remembers of before stands in front. What is not of this
// form is ignored.
func (t *Tracker) Merge(k Key, shared []byte) (merged []byte, changed bool) {
	known := t.table.Load().tracks[k]
	if known == nil {
		return nil, false
	}
	return known.merge(shared)
}

// Unwritten tells that what the last Merge of k returned could not be written: what
// was new then is new again, lest a store that can only be read holds all back.
func (t *Tracker) Unwritten(k Key) {
	if known := t.table.Load().tracks[k]; known != nil {
		known.unwritten()
	}
}
