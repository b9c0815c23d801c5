package rewrite

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/rewrite/calibration"
)

// A fitted is what goes into a request, ready to be inserted, and the account of
// it. Requests with the same key share it: nobody changes it.
type fitted struct {
	block, sources []byte // JSON to insert at their places; nil: nothing

	components []ComponentEntry
	ledger     []SourceEntry // what was retrieved, excluded ones included
	selected   int           // sources that are in
	bases      map[string]int

	used, rules, text, overflow int
	exact                       bool

	beside *patterns // texts of the neighbours that it, or a fit before it, was made with; nil without any
	own    bool      // what the request's own messages hold has a part in it
}

// A fitKey is everything that a fitted depends on. Sources are known by identity: a
// Result is never changed, and what is remembered keeps it alive.
type fitKey struct {
	first  *retrieval.Source
	n      int
	notice bool

	policy       string // its digest
	encoding     string
	budget       int
	ratio        float64 // of an estimated model
	formatIsText bool
	query        string

	split          bool
	block, sources frame
}

// A memo remembers what was fitted last for a key: mostly the
// rounds of a tool loop and the questions that everybody asks. It is a small
// table without locks, in which a newcomer takes the place of what was there.
// Likewise it remembers the patterns that the texts of a search result make.
type memo struct {
	slots    [256]atomic.Pointer[remembered]
	patterns [256]atomic.Pointer[sourcePatterns]
}

type remembered struct {
	key    fitKey
	fitted *fitted
}

type sourcePatterns struct {
	first *retrieval.Source
	*patterns
}

// memoSeed spreads keys over the tables; it is made once and never changes.
var memoSeed = maphash.MakeSeed()

// slot hashes what mostly tells requests apart, which is cheaper than all of it.
func (m *memo) slot(k *fitKey) *atomic.Pointer[remembered] {
	h := maphash.Comparable(memoSeed, k.first) + uint64(k.budget)
	for _, s := range [...]string{k.policy, k.query, k.block.before, k.block.after, k.sources.before} {
		h = h*31 + maphash.String(memoSeed, s)
	}
	return &m.slots[h%uint64(len(m.slots))]
}

// get returns what was fitted for a request like this one, nil if that is gone.
func (m *memo) get(k *fitKey) *fitted {
	if r := m.slot(k).Load(); r != nil && r.key == *k {
		return r.fitted
	}
	return nil
}

func (m *memo) put(k *fitKey, f *fitted) { m.slot(k).Store(&remembered{*k, f}) }

// patternsOf returns the patterns of the texts of sources, of which there is one at
// least. Answers are told apart by identity, as by a fitKey.
func (m *memo) patternsOf(sources []retrieval.Source) *patterns {
	slot := &m.patterns[maphash.Comparable(memoSeed, &sources[0])%uint64(len(m.patterns))]
	if s := slot.Load(); s != nil && s.first == &sources[0] && len(s.list) == len(sources) {
		return s.patterns
	}
	n := newPatterns(len(sources), func(i int) string { return sources[i].Text })
	slot.Store(&sourcePatterns{&sources[0], n})
	return n
}

// maxRemembered is how many bytes of a request are kept to know it by: a long
// text without a line break would stay in memory whole.
const maxRemembered = 16 << 10

func (k *fitKey) size() int {
	return len(k.query) + len(k.block.before) + len(k.block.after) + len(k.sources.before) + len(k.sources.after)
}

// fit fits sources and components, or remembers to have done so.
func (j *job) fit(m *memo, found *retrieval.Result, sources []retrieval.Source, notice bool) *fitted {
	k := fitKey{
		n: len(sources), notice: notice, policy: j.policy.Digest,
		encoding: j.model.Encoding, budget: j.budget(), ratio: j.model.ratio(),
		formatIsText: j.req.formatIsText, query: j.safeQuery(),
		split: j.placement == PlaceSplit, block: j.block.frame, sources: j.sources.frame,
	}
	if len(sources) > 0 {
		k.first = &sources[0]
	}
	// What a request added is its own, and so is what it holds already; an
	// answer without sources has no identity.
	whole := k.policy != "" && k.first != nil && len(sources) == len(found.Sources) && k.size() <= maxRemembered
	if whole {
		if f := m.get(&k); f != nil && (f.beside == nil || f.beside.in(&j.presence) == nil) {
			return f
		}
	}
	f := j.newAssembly(sources, notice).fitted()
	f.ledger = append(f.ledger, j.left...)
	for _, x := range found.Excluded {
		f.ledger = append(f.ledger, outEntry(x.Source, x.Detail))
	}
	if whole && !f.own {
		m.put(&k, f)
	}
	return f
}

// fitted does the work and closes the account.
func (a *assembly) fitted() *fitted {
	out := &fitted{bases: map[string]int{}}
	in := (len(a.fitter.slots) > 0 || a.apart) && a.assemble()
	out.components = make([]ComponentEntry, len(a.fitter.slots))
	demand := 0
	for i, s := range a.fitter.slots {
		out.components[i] = s.entry
		demand += s.entry.Demand
	}
	if demand > 0 || a.apart {
		demand += a.fixed()
	}
	demand = a.model.billed(demand)
	out.overflow, out.ledger, out.exact = max(0, demand-a.budget), a.fitter.ledger, a.exact
	out.own = a.fitter.kept
	if texts := a.fitter.beside; len(texts) > 0 {
		out.beside = newPatterns(len(texts), func(i int) string { return texts[i] })
	}
	if !in {
		return out
	}
	for _, p := range a.pieces {
		if p.isSources {
			out.sources = p.at.insert(p.parts)
		} else {
			out.block = p.at.insert(p.parts)
		}
	}
	out.used = a.used
	a.divide(out)
	return out
}

// divide tells what the used tokens are: rules, texts, and by that the rest.
func (a *assembly) divide(out *fitted) {
	f := &a.fitter
	if a.apart {
		out.rules += f.count(a.rules)
	}
	for _, s := range f.slots {
		out.text += s.text
		if s.parts != nil && s.isSources {
			out.rules += f.count(f.rules)
		}
		if slices.Contains(s.parts, f.closing) { // no text of a source ends with a line feed
			out.rules += f.count(f.closing)
		}
	}
	for _, e := range out.ledger {
		if e.Fate != Out {
			out.selected++
			out.bases[e.Knowledge]++
			out.text += f.blocks[e.ID-1].text
		}
	}
}

func outEntry(s retrieval.Source, reason string) SourceEntry {
	e := newEntry(s)
	e.Fate, e.Reason = Out, reason
	return e
}

// account fills the ledger.
func (j *job) account(res *Result, f *fitted) {
	l := &res.Ledger
	*l = Ledger{
		Model: j.req.Model, Encoding: j.model.Encoding, Exactness: j.exactness(f),
		Budget: max(j.budget(), 0), Window: j.window, Filter: j.policy.Filter, Notes: j.policy.Notes, AppTags: j.req.appTags(),
		TotalChunksRetrieved: res.Retrieval.Retrieved, UniqueChunksAfterDedup: res.Retrieval.Unique,
	}
	if j.model.Calibration != (calibration.Value{}) {
		v := j.model.Calibration
		l.Calibration = &v
	}
	if f == nil { // in JSON a list without elements is a list, not null
		l.Components, l.Sources, l.ChunkSources = []ComponentEntry{}, []SourceEntry{}, map[string]int{}
	} else {
		l.Components, l.Sources, l.Overflow = f.components, f.ledger, f.overflow
		l.ChunksSelected, l.ChunkSources = f.selected, f.bases
		l.Used, l.EstimatedTokens, l.Rules, l.Text = f.used, f.used, f.rules, f.text
		l.Tags = max(0, f.used-f.rules-f.text)
	}
	if res.Outcome == Injected {
		l.Placement = j.placement
	}
	if l.Edits = res.Edits; l.Edits == nil {
		l.Edits = []Edit{}
	}
}

func (j *job) exactness(f *fitted) Exactness {
	switch {
	case j.model.Estimated:
		return Estimated
	case f == nil || f.exact:
		return Exact
	}
	return Bound
}
