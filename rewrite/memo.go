package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A fitResult is the result of fitting: the JSON to insert and the ledger entries. Requests with
// the same key share it, so it is never changed.
type fitResult struct {
	adds       bool                // something is added
	insertions [maxPlaces]EditText // JSON to insert at each place, nil if nothing

	components []ComponentEntry
	sources    []SourceEntry // entries of the sources that retrieval selected
	excluded   retrieval.ExcludedList
	selected   int // number of sources added

	used, rules, text, overflow int
	exact                       bool

	neighbours      *PresentTexts // texts of neighbouring chunks added in this or an earlier attempt; nil if none
	requestSpecific bool          // depends on texts in the request's own messages, so it must not be cached
}

// A fitKey holds everything that a fitResult depends on. Source lists are compared by identity,
// the address of the first source: a retrieval.Result is never changed, and a cached entry keeps
// it alive, so no other list can get its address.
type fitKey struct {
	first  *retrieval.Source
	n      int
	notice bool

	policy       string // the policy's digest
	encoding     string
	budget       int
	ratio        float64 // billed tokens per counted token
	formatIsText bool
	cites        bool
	split        bool // the rules stand apart from the sources
	firstID      int  // see sourceList
	query        string

	places int // number of frames in use
	frames [maxPlaces]chat.Frame
}

// A memo caches the last result for each key. Hits are mostly the rounds of a tool loop and
// questions that many users ask. patterns caches what is built from the texts of a search result.
// A popular question takes 4 µs with both, 32 without fits and 23 without patterns (BenchmarkWarm
// of the engine).
type memo struct {
	fits     retrieval.Recent[memoEntry]
	patterns retrieval.Recent[sourcePatterns]
	blocks   retrieval.Recent[renderedSource] // see renderings
}

type memoEntry struct {
	key    fitKey
	fitted fitResult
}

type sourcePatterns struct {
	first *retrieval.Source
	*PresentTexts
}

// hash covers only the fields that usually differ between requests, because hashing all takes
// longer.
func (k *fitKey) hash() uint64 {
	h := retrieval.Hash(k.first) + uint64(k.budget)
	for _, s := range [...]string{k.policy, k.query, k.frames[0].Before, k.frames[0].After, k.frames[1].Before} {
		h = h*31 + retrieval.HashText(s)
	}
	return h
}

// worthCaching reports whether the same Result may be seen again, so that caching what is derived
// from it is worthwhile. A cache miss is of this request alone; caching it would keep some 25 KB in
// memory for each new question.
func worthCaching(found *retrieval.Result) bool { return found.Cache != retrieval.CacheMiss }

// patternsOf returns the PresentTexts for the sources of found, which must not be empty. They are
// valid as long as the job. Like a fitKey, it compares lists of sources by identity.
func (m *memo) patternsOf(j *job, found *retrieval.Result) *PresentTexts {
	sources := found.Sources
	hash := retrieval.Hash(&sources[0])
	if s := m.patterns.At(hash); s != nil && s.first == &sources[0] && s.Len() == len(sources) {
		return s.PresentTexts
	}
	text := func(i int) string { return sources[i].Text }
	if !worthCaching(found) {
		j.patterns.Set(len(sources), text)
		return j.patterns
	}
	n := newTexts(len(sources), text)
	m.patterns.Put(hash, &sourcePatterns{&sources[0], n})
	return n
}

// maxRemembered is the largest fitKey to cache, in bytes of its texts: otherwise a request with a
// long text without line breaks would stay in memory.
const maxRemembered = 16 << 10

func (k *fitKey) size() int {
	n := len(k.query)
	for i := range k.frames {
		n += len(k.frames[i].Before) + len(k.frames[i].After)
	}
	return n
}

// fit returns the result for this request, from the cache if possible.
func (j *job) fit(m *memo, found *retrieval.Result, sources []retrieval.Source, notice bool) *fitResult {
	j.findPlaces()
	// Not cached: components from the request (no digest), searches with sources that the
	// messages already contain, and results without sources, which have no identity.
	if !worthCaching(found) || j.policy.Digest == "" || len(sources) == 0 || len(sources) != len(found.Sources) {
		return j.fitAnew(m, found, sources, notice)
	}
	k := fitKey{
		first: &sources[0], n: len(sources), notice: notice, policy: j.policy.Digest,
		encoding: j.model.Encoding, budget: j.budget(), ratio: j.model.Ratio(),
		formatIsText: j.req.TextFormat, cites: j.cites, split: j.wanted == PlaceSplit, firstID: j.firstID, query: j.safeQuery(), places: j.places.n,
	}
	for i := range j.places.n {
		k.frames[i] = j.places.at[i].Frame
	}
	hash, remembered := uint64(0), k.size() <= maxRemembered
	if remembered {
		hash = k.hash()
		if e := m.fits.At(hash); e != nil && e.key == k && (e.fitted.neighbours == nil || e.fitted.neighbours.FindIn(&j.presence) == nil) {
			j.fitCached = true
			return &e.fitted
		}
	}
	f := j.fitAnew(m, found, sources, notice)
	if remembered && !f.requestSpecific {
		m.fits.Put(hash, &memoEntry{k, *f})
	}
	return f
}

// fitAnew computes a result that is valid as long as the job.
func (j *job) fitAnew(m *memo, found *retrieval.Result, sources []retrieval.Source, notice bool) *fitResult {
	j.makePlan(m, sources, notice).result(&j.fitted)
	return j.leftOut(found, &j.fitted)
}

// leftOut adds to f the sources that were left out before fitting.
func (j *job) leftOut(found *retrieval.Result, f *fitResult) *fitResult {
	f.sources = append(f.sources, j.skipped...)
	f.excluded = found.Excluded
	return f
}

// model looks up a model by name, narrows its window to the policy's and to the one observed at
// the upstream, and adds the calibration of the upstream's billing.
func (rw *Rewriter) model(p *Policy, name string) model.Model {
	m := rw.Models.Model(name)
	m.NoSystem = m.NoSystem || p.NoSystem
	if p.Window > 0 && (m.Window == 0 || p.Window < m.Window) {
		m.Window = p.Window
	}
	if rw.Calibration != nil {
		k := model.CalibrationKey{Tenant: p.Tenant, Upstream: p.Upstream, Row: m.Row, Name: name}
		m.Calibration = rw.Calibration.Correction(k)
		if served := rw.Calibration.Window(k); served > 0 && (m.Window == 0 || served < m.Window) {
			m.Window = served
		}
		if m.Window > 0 {
			m.Calibration = m.Calibration.Within(m.Window / 4)
		}
	}
	return m
}

// The first requests of a process, then one in sampleEvery, are compared with what the upstream
// bills for them.
const (
	firstSamples = 32
	sampleEvery  = 16
)

// Sample reports whether the answer to this request should be passed to Learn.
func (rw *Rewriter) Sample() bool {
	n := rw.samples.Add(1)
	return n <= firstSamples || n%sampleEvery == 0
}

// Calibrated is the result of Learn.
type Calibrated struct {
	Row     string                 // row of the model table
	Counted int                    // tokens counted for the whole request; 0 if nothing was learned
	Value   model.CalibrationValue // the correction now in force
	Absurd  bool                   // the billed number is impossible for that count and was ignored
	Model   string                 // as named in the request
	Window  int                    // observed at the upstream; 0 if unknown
}

// Learn counts a request as sent to an upstream and compares the count with the tokens billed for
// it. Requests with images or other files are ignored: they say nothing about how text is
// counted.
func (rw *Rewriter) Learn(tenant, upstream string, api chat.API, body []byte, billed int) (Calibrated, error) {
	req, err := api.Parse(body)
	if err != nil {
		return Calibrated{}, err
	}
	m := rw.Models.Model(req.Model)
	c := rw.costs.Count(req, m.Counting(), 0)
	if rw.Calibration == nil || c.Images > 0 {
		return Calibrated{Row: m.Row}, nil
	}
	k := model.CalibrationKey{Tenant: tenant, Upstream: upstream, Row: m.Row, Name: req.Model}
	taken := rw.Calibration.Observe(k, c.Sum(), billed)
	return Calibrated{Row: m.Row, Counted: c.Sum(), Value: rw.Calibration.Correction(k), Absurd: !taken, Model: req.Model, Window: rw.Calibration.Window(k)}, nil
}
