package rewrite

import (
	"sidenote/retrieval"
	"sidenote/retrieval/followup"
	"sidenote/rewrite/chat"
)

// A fitResult is the outcome of fitting: the JSON to insert and its entries for the
// ledger. Requests with the same key share it, so it is never changed.
type fitResult struct {
	adds       bool                // something goes in
	insertions [maxPlaces]EditText // JSON to insert at each place, nil for nothing

	components []ComponentEntry
	sources    []SourceEntry // what was retrieved and selected
	fallen     retrieval.ExcludedList
	selected   int // sources that are in

	used, rules, text, overflow int
	exact                       bool

	neighbours      *PresentTexts // texts of the neighbours added in this fit or an attempt before it; nil without any
	requestSpecific bool          // it depends on texts in the request's own messages
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

	places int // of frames
	frames [maxPlaces]chat.Frame
}

// A memo remembers the last result for each key. Hits are mostly the rounds of a tool
// loop and questions that many users ask. A second table holds the patterns made from
// the texts of a search result. A popular question takes 4 µs with both, 32 without the
// first and 23 without the second (BenchmarkWarm of the engine). The third has questions that
// stand alone, or not; reading one takes 1 to 5 µs
// (BenchmarkDepends).
type memo struct {
	fits      retrieval.Recent[memoEntry]
	patterns  retrieval.Recent[sourcePatterns]
	questions retrieval.Recent[questionRead]
	blocks    retrieval.Recent[renderedSource] // see renderings
	fixed     retrieval.Recent[fixedTexts]
}

type questionRead struct {
	text    string
	depends bool
}

// depends is followup.Depends. Long questions are read as fast as they are looked up.
func (m *memo) depends(question string) bool {
	if len(question) > followup.MaxBytes {
		return followup.Depends(question)
	}
	hash := retrieval.HashText(question)
	if q := m.questions.At(hash); q != nil && q.text == question {
		return q.depends
	}
	q := &questionRead{question, followup.Depends(question)}
	m.questions.Put(hash, q)
	return q.depends
}

type memoEntry struct {
	key    fitKey
	fitted fitResult
}

type sourcePatterns struct {
	first *retrieval.Source
	*PresentTexts
}

// hash takes only the fields that usually differ between requests, because hashing all
// takes longer.
func (k *fitKey) hash() uint64 {
	h := retrieval.Hash(k.first) + uint64(k.budget)
	for _, s := range [...]string{k.policy, k.query, k.frames[0].Before, k.frames[0].After, k.frames[1].Before} {
		h = h*31 + retrieval.HashText(s)
	}
	return h
}

// returns tells whether a Result may come again, so that what is made of it is worth
// remembering: one that a cache did not have is of this request alone. It would keep some 25 KB
// in memory for each new question, and the collector going through them.
func returns(found *retrieval.Result) bool { return found.Cache != retrieval.CacheMiss }

// patternsOf returns the patterns of the texts of the sources of found, which are not empty, as long
// as the job lives. Like a fitKey, it compares lists of sources by identity.
func (m *memo) patternsOf(j *job, found *retrieval.Result) *PresentTexts {
	sources := found.Sources
	hash := retrieval.Hash(&sources[0])
	if s := m.patterns.At(hash); s != nil && s.first == &sources[0] && s.Len() == len(sources) {
		return s.PresentTexts
	}
	text := func(i int) string { return sources[i].Text }
	if !returns(found) {
		j.patterns.Set(len(sources), text)
		return j.patterns
	}
	n := newTexts(len(sources), text)
	m.patterns.Put(hash, &sourcePatterns{&sources[0], n})
	return n
}

// maxRemembered is the largest fitKey that is remembered, in bytes of its texts: a long
// text of a request without a line break would otherwise stay in memory.
const maxRemembered = 16 << 10

func (k *fitKey) size() int {
	n := len(k.query)
	for i := range k.frames {
		n += len(k.frames[i].Before) + len(k.frames[i].After)
	}
	return n
}

// fit returns the result for this request, from the memo if there is one.
func (j *job) fit(m *memo, found *retrieval.Result, sources []retrieval.Source, notice bool) *fitResult {
	j.findPlaces()
	// Not remembered: components that the request brought (no digest), sources that its
	// messages hold already, and results without sources, which have no identity.
	if !returns(found) || j.policy.Digest == "" || len(sources) == 0 || len(sources) != len(found.Sources) {
		return j.fitAnew(m, found, sources, notice)
	}
	k := fitKey{
		first: &sources[0], n: len(sources), notice: notice, policy: j.policy.Digest,
		encoding: j.model.Encoding, budget: j.budget(), ratio: j.model.Ratio(),
		formatIsText: j.req.TextFormat, query: j.safeQuery(), places: j.places.n,
	}
	for i := range j.places.n {
		k.frames[i] = j.places.at[i].Frame
	}
	hash, remembered := uint64(0), k.size() <= maxRemembered
	if remembered {
		hash = k.hash()
		if e := m.fits.At(hash); e != nil && e.key == k && (e.fitted.neighbours == nil || e.fitted.neighbours.FindIn(&j.presence) == nil) {
			j.fitKept = true
			return &e.fitted
		}
	}
	f := j.fitAnew(m, found, sources, notice)
	if remembered && !f.requestSpecific {
		m.fits.Put(hash, &memoEntry{k, *f})
	}
	return f
}

// fitAnew returns a result that lives as long as the job.
func (j *job) fitAnew(m *memo, found *retrieval.Result, sources []retrieval.Source, notice bool) *fitResult {
	j.makePlan(m, sources, notice).result(&j.fitted)
	return j.leftOut(found, &j.fitted)
}

// leftOut adds to f the sources that were left out before.
func (j *job) leftOut(found *retrieval.Result, f *fitResult) *fitResult {
	f.sources = append(f.sources, j.skipped...)
	f.fallen = found.Fallen
	return f
}
