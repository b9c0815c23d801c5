package rewrite

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// A fitResult is the outcome of fitting: the JSON to insert and its entries for the
// ledger. Requests with the same key share it, so it is never changed.
type fitResult struct {
	block, sources []byte // JSON to insert at each place; nil for nothing

	components []ComponentEntry
	ledger     []SourceEntry // what was retrieved, excluded ones included
	selected   int           // sources that are in
	bases      map[string]int

	used, rules, text, overflow int
	exact                       bool

	neighbours      *patterns // texts of the neighbours added in this fit or an attempt before it; nil without any
	requestSpecific bool      // it depends on texts in the request's own messages
}

// A fitKey holds everything that a fitResult depends on. Sources are compared by identity,
// by the address of the first: a Result is never changed, and an entry of the memo
// keeps it alive, so that no other can take its address.
type fitKey struct {
	first  *retrieval.Source
	n      int
	notice bool

	policy       string // its digest
	encoding     string
	budget       int
	ratio        float64 // billed tokens for each counted one
	formatIsText bool
	query        string

	split          bool
	block, sources chat.Frame
}

// A memo remembers the last result for each key. Hits are mostly the rounds of a tool
// loop and questions that many users ask. It is a small table without locks, in which a
// new entry replaces the one in its slot. A second table holds the patterns made from
// the texts of a search result.
type memo struct {
	slots    [256]atomic.Pointer[memoEntry]
	patterns [256]atomic.Pointer[sourcePatterns]
}

type memoEntry struct {
	key    fitKey
	fitted *fitResult
}

type sourcePatterns struct {
	first *retrieval.Source
	*patterns
}

// memoSeed seeds the hashes of both tables. It never changes in a process.
var memoSeed = maphash.MakeSeed()

// slot hashes only the fields that usually differ between requests, because hashing all
// takes longer.
func (m *memo) slot(k *fitKey) *atomic.Pointer[memoEntry] {
	h := maphash.Comparable(memoSeed, k.first) + uint64(k.budget)
	for _, s := range [...]string{k.policy, k.query, k.block.Before, k.block.After, k.sources.Before} {
		h = h*31 + maphash.String(memoSeed, s)
	}
	return &m.slots[h%uint64(len(m.slots))]
}

// get returns the result for an equal key, nil if it is not there.
func (m *memo) get(k *fitKey) *fitResult {
	if r := m.slot(k).Load(); r != nil && r.key == *k {
		return r.fitted
	}
	return nil
}

func (m *memo) put(k *fitKey, f *fitResult) { m.slot(k).Store(&memoEntry{*k, f}) }

// patternsOf returns the patterns of the texts of sources, which are not empty. Like a
// fitKey, it compares lists of sources by identity.
func (m *memo) patternsOf(sources []retrieval.Source) *patterns {
	slot := &m.patterns[maphash.Comparable(memoSeed, &sources[0])%uint64(len(m.patterns))]
	if s := slot.Load(); s != nil && s.first == &sources[0] && len(s.list) == len(sources) {
		return s.patterns
	}
	n := newPatterns(len(sources), func(i int) string { return sources[i].Text })
	slot.Store(&sourcePatterns{&sources[0], n})
	return n
}

// maxRemembered is the largest fitKey that is remembered, in bytes of its texts: a long
// text of a request without a line break would otherwise stay in memory.
const maxRemembered = 16 << 10

func (k *fitKey) size() int {
	return len(k.query) + len(k.block.Before) + len(k.block.After) + len(k.sources.Before) + len(k.sources.After)
}

// fit returns the result for this request, from the memo if there is one.
func (j *job) fit(m *memo, found *retrieval.Result, sources []retrieval.Source, notice bool) *fitResult {
	k := fitKey{
		n: len(sources), notice: notice, policy: j.policy.Digest,
		encoding: j.model.Encoding, budget: j.budget(), ratio: j.model.ratio(),
		formatIsText: j.req.TextFormat, query: j.safeQuery(),
		split: j.placement == PlaceSplit, block: j.block.Frame, sources: j.sources.Frame,
	}
	if len(sources) > 0 {
		k.first = &sources[0]
	}
	// Not remembered: components that the request brought (no digest), sources that its
	// messages hold already, and results without sources, which have no identity.
	whole := k.policy != "" && k.first != nil && len(sources) == len(found.Sources) && k.size() <= maxRemembered
	if whole {
		if f := m.get(&k); f != nil && (f.neighbours == nil || f.neighbours.findIn(&j.presence) == nil) {
			return f
		}
	}
	f := j.newAssembly(sources, notice).result()
	f.ledger = append(f.ledger, j.skipped...)
	for _, x := range found.Excluded {
		f.ledger = append(f.ledger, outEntry(x.Source, x.Detail))
	}
	if whole && !f.requestSpecific {
		m.put(&k, f)
	}
	return f
}

// result assembles the texts and fills in the result.
func (a *assembly) result() *fitResult {
	out := &fitResult{bases: map[string]int{}}
	in := (len(a.fitter.slots) > 0 || a.rulesInBlock) && a.assemble()
	out.components = make([]ComponentEntry, len(a.fitter.slots))
	demand := 0
	for i, s := range a.fitter.slots {
		out.components[i] = s.entry
		demand += s.entry.Demand
	}
	if demand > 0 || a.rulesInBlock {
		demand += a.fixed()
	}
	demand = a.model.billed(demand)
	out.overflow, out.ledger, out.exact = max(0, demand-a.budget), a.fitter.ledger, a.exact
	out.requestSpecific = a.fitter.skippedPresent
	if texts := a.fitter.neighbourTexts; len(texts) > 0 {
		out.neighbours = newPatterns(len(texts), func(i int) string { return texts[i] })
	}
	if !in {
		return out
	}
	for _, p := range a.pieces {
		if p.isSources {
			out.sources = p.at.JSON(p.parts)
		} else {
			out.block = p.at.JSON(p.parts)
		}
	}
	out.used = a.used
	a.divide(out)
	return out
}

// divide splits the used tokens into rules and texts; the rest are tags.
func (a *assembly) divide(out *fitResult) {
	f := &a.fitter
	if a.rulesInBlock {
		out.rules += f.count(a.rules)
	}
	for _, s := range f.slots {
		out.text += s.text
		if s.parts != nil && s.isSources {
			out.rules += f.count(f.rules)
		}
		if slices.Contains(s.parts, f.closing) { // never equal to a source's text, which ends without a line feed
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
