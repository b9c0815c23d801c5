package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// neighboured is how many of the best candidates of each arm have their neighbours: more than
	// become sources.
	neighboured = 20
	// mostSearched limits the terms of one search; of a longer question the heaviest are searched.
	mostSearched = 64
	// reserved is the part of the remaining time, at least leastReserved, that a search keeps for the
	// engine when it waits for the vector of the question.
	reserved      = 3
	leastReserved = 30 * time.Millisecond
)

// errMixed says that an engine returned candidates that nobody asked for.
var errMixed = errors.New("the answer of the engine is inconsistent")

// Retrieve searches the bases of q, which must be bases of the Engine, as one: the Server returns
// candidates by words and by vector in one round trip, and they are ranked as an embedded base ranks
// its hits, see knowledge.Rank. Candidates that do not pass q.Filter are dropped, whatever the
// Server did with it.
func (e *Engine) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	start := time.Now()
	s := e.begin(&q)
	res, err := s.run(ctx)
	res.Took = time.Since(start)
	for _, id := range s.ids {
		if e.options.Searched != nil {
			e.options.Searched(id, s.reason(&res, err, id))
		}
	}
	return res, err
}

// A searching is one search.
type searching struct {
	e     *Engine
	q     *retrieval.Query
	known *knownState // when it began
	ids   []string
	bases []baseState
	terms []bm25.Term

	request  Search
	degraded error // why there is no vector of the question
	found    *Found
	corpus   knowledge.Corpus
	list     []knowledge.Candidate
}

func (e *Engine) begin(q *retrieval.Query) *searching {
	s := &searching{e: e, q: q, known: e.state(), ids: idsOf(q.Bases)}
	for _, id := range s.ids {
		s.bases = append(s.bases, s.known.of(id))
	}
	return s
}

// refs returns the refs of the bases as they were searched.
func (s *searching) refs() []retrieval.Ref {
	refs := make([]retrieval.Ref, len(s.bases))
	for i := range s.bases {
		refs[i] = s.bases[i].ref(s.e.options.Version)
	}
	return refs
}

func (s *searching) run(ctx context.Context) (retrieval.Result, error) {
	res := retrieval.Result{Bases: s.refs(), Cache: retrieval.CacheOff}
	var err error
	if s.terms, err = s.e.vocabulary(s.bases).Terms(ctx, s.q, s.e.options.Analysed); err == nil && len(s.terms) == 0 {
		res.Reason = retrieval.ReasonNoQueryTerms
		return res, nil
	}
	if err == nil {
		err = s.ask(ctx)
	}
	if err != nil {
		return s.failed(res, err)
	}
	res.Bases = s.refs()
	if !slices.ContainsFunc(s.bases, func(b baseState) bool { return b.Generation != "" }) {
		res.Reason = retrieval.ReasonIndexing
		return res, fmt.Errorf("search knowledge %s: nothing was written to the engine yet: %w", strings.Join(s.ids, ", "), retrieval.ErrUnavailable)
	}
	ranking, err := knowledge.Rank(ctx, s.q, s.terms, &s.corpus, s.list, s.request.Vector != nil)
	if err != nil {
		return s.failed(res, err)
	}
	s.fill(&res, &ranking)
	return res, nil
}

// failed returns the result of a search that failed.
func (s *searching) failed(res retrieval.Result, err error) (retrieval.Result, error) {
	res.Reason = retrieval.ReasonError
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		res.Reason = retrieval.ReasonTimeout
	}
	return res, fmt.Errorf("search knowledge %s: %w: %w", strings.Join(s.ids, ", "), retrieval.ErrUnavailable, err)
}

// ask searches the Server, and prepares the candidates for Rank. A filter of a request that the Server
// cannot evaluate is no failure of the Server, which others may go on asking. Nor is a base in trouble.
func (s *searching) ask(ctx context.Context) error {
	for i := range s.bases {
		if why := s.bases[i].Trouble; why != "" {
			return errors.New(why)
		}
	}
	for _, base := range s.ids {
		if err := s.e.options.Server.Filterable(base, s.q.Filter); err != nil {
			return err
		}
	}
	s.request = Search{
		Bases: s.ids, Question: s.q.Text, Terms: searchTerms(s.terms), Depth: max(s.q.Settings.NumCandidates, knowledge.ArmDepth),
		Neighbours: neighboured, Filter: s.q.Filter, Tenant: s.q.Tenant,
	}
	if s.embedded() {
		s.request.Vector, s.degraded = s.e.vector(ctx, s.q)
		if s.degraded != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	err := s.e.call(ctx, func(ctx context.Context) (err error) {
		s.found, err = s.e.options.Server.Search(ctx, &s.request)
		return err
	})
	if err != nil {
		return err
	}
	return s.take()
}

// embedded reports whether the bases have vectors of the space in which questions are embedded.
func (s *searching) embedded() bool {
	if s.e.options.Questions == nil {
		return false
	}
	for i := range s.bases {
		b := &s.bases[i]
		space, ok := s.e.options.Space(b.Base)
		if !ok || b.Space == "" {
			continue
		}
		if b.Space != space.String() {
			s.e.health.Cannot(fmt.Sprintf("knowledge %s has vectors of %s, but questions are embedded by %s; it is searched by words only", b.Base, b.Space, space))
			continue
		}
		return true
	}
	return false
}

// vector returns the vector of the question, of unit length. It fails if it is not there early
// enough for a search.
func (e *Engine) vector(ctx context.Context, q *retrieval.Query) ([]float32, error) {
	if by, known := retrieval.AnswerBy(ctx); known {
		left := time.Until(by)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, by.Add(-max(left/reserved, leastReserved)))
		defer cancel()
	}
	v, err := knowledge.QuestionVector(ctx, e.options.Questions, q)
	if err != nil {
		return nil, err
	}
	return unit(v)
}

// unit returns a vector of unit length.
func unit(v []float32) ([]float32, error) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if length == 0 || math.IsInf(length, 0) || math.IsNaN(length) {
		return nil, fmt.Errorf("%w: its length is %v", retrieval.ErrBadVectors, length)
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / length)
	}
	return out, nil
}

// searchTerms returns the distinct terms with their greatest weight, sorted by text.
func searchTerms(terms []bm25.Term) []Term {
	var list []Term
	for _, t := range terms { // sorted by text
		if t.Weight <= 0 {
			continue
		}
		if n := len(list); n > 0 && list[n-1].Text == t.Text {
			list[n-1].Weight = max(list[n-1].Weight, t.Weight)
			continue
		}
		list = append(list, Term{t.Text, t.Weight})
	}
	if len(list) > mostSearched {
		slices.SortStableFunc(list, func(a, b Term) int { return cmp.Compare(b.Weight, a.Weight) })
		list = list[:mostSearched]
		slices.SortFunc(list, func(a, b Term) int { return cmp.Compare(a.Text, b.Text) })
	}
	return list
}

// take checks what was found, adopts the states, and converts the candidates.
func (s *searching) take() error {
	f := s.found
	if len(f.States) != len(s.ids) {
		return errMixed
	}
	for i := range f.States {
		if f.States[i].Base != s.ids[i] {
			return errMixed
		}
	}
	s.takeStates()
	s.filter()
	for i := range s.bases {
		s.corpus.Bases = append(s.corpus.Bases, s.bases[i].remote())
	}
	var err error
	if len(s.ids) == 1 && s.e.sampled(s.ids[0]) {
		err = s.estimate()
	} else {
		err = s.count()
	}
	s.convert()
	if s.q.Filter != nil {
		s.terms = knowledge.Found(s.terms, s.has)
	}
	return err
}

// takeStates adopts the states of the answer. Those of a table that others write are read without a
// tenant: with row-level security each tenant sees another one.
func (s *searching) takeStates() {
	if mapped := len(s.ids) == 1 && s.e.sampled(s.ids[0]); mapped && s.bases[0].Generation != "" {
		return
	}
	s.e.adopt(s.found.States, s.known)
	for i := range s.bases {
		s.bases[i].State = s.found.States[i]
	}
}

// has reports whether a candidate has a term.
func (s *searching) has(text string) bool {
	return slices.ContainsFunc(s.found.Candidates, func(c Candidate) bool { return Count(c.Packed, text) > 0 })
}

// filter drops candidates that do not pass the filter, or are of no base.
func (s *searching) filter() {
	all := len(s.found.Candidates)
	s.found.Candidates = slices.DeleteFunc(s.found.Candidates, func(c Candidate) bool {
		return c.Base < 0 || c.Base >= len(s.ids) || math.IsNaN(c.Cosine) || math.IsInf(c.Cosine, 0) || !passes(s.q.Filter, c.Attributes)
	})
	if len(s.found.Candidates) < all {
		s.e.health.Cannot("the engine returned candidates that do not pass the filter; they were dropped")
	}
}

// passes reports whether a document with the given attributes passes a filter.
func passes(f *filter.Filter, attributes string) bool {
	if f == nil {
		return true
	}
	decoded, err := chunk.DecodeAttributes(attributes)
	return err == nil && f.Match(decoded)
}

// count makes the corpus of the statistics that the Server has.
func (s *searching) count() error {
	f := s.found
	if len(f.Counts) != len(s.request.Terms) {
		return errMixed
	}
	s.corpus.Corpus = corpusOf(f.States...)
	for i, t := range s.request.Terms {
		c := bm25.CorpusTerm{Text: t.Text, In: make([]bool, len(s.ids))}
		if len(f.Counts[i]) != len(s.ids) {
			return errMixed
		}
		for j, n := range f.Counts[i] {
			c.Texts, c.Total, c.In[j] = c.Texts+max(0, n.Texts), c.Total+uint64(max(0, n.Total)), n.Texts > 0 //nolint:gosec // not negative
		}
		s.corpus.Terms = append(s.corpus.Terms, c)
	}
	return nil
}

// convert makes the candidates for Rank.
func (s *searching) convert() {
	f := s.found
	s.list = make([]knowledge.Candidate, len(f.Candidates))
	freqs := make([]int, len(f.Candidates)*len(s.request.Terms))
	for i := range f.Candidates {
		c := &f.Candidates[i]
		own := freqs[:len(s.request.Terms):len(s.request.Terms)]
		freqs = freqs[len(own):]
		for j, t := range s.request.Terms {
			own[j] = Count(c.Packed, t.Text)
		}
		s.list[i] = knowledge.Candidate{
			Base: c.Base, Doc: c.Doc, Ordinal: c.Ordinal, Chunks: c.Chunks, Lengths: uint64(max(0, c.AllLengths)), //nolint:gosec // not negative
			Length: max(0, c.Length), Freqs: own, Cosine: c.Cosine, ByVector: c.ByVector,
		}
	}
}

// fill stores the ranked candidates in a result.
func (s *searching) fill(res *retrieval.Result, r *knowledge.Ranking) {
	res.Floor, res.Least = r.Floor, r.Least
	res.Sources = make([]retrieval.Source, len(r.Hits))
	for i, h := range r.Hits {
		c := &s.found.Candidates[h.Candidate]
		src := &res.Sources[i]
		*src = s.e.source(s.ids[c.Base], &c.Chunk, s.q.Encoding)
		src.Score, src.Arm, src.ByArm = h.Score, h.Arm, h.ByArm
		s.e.urls.note(src.Knowledge, src.Doc, c.Attributes)
	}
	if s.degraded != nil {
		res.Degraded, res.EmbedFailure = retrieval.StageEmbed, retrieval.EmbedReasonOf(s.degraded)
	}
	missing := slices.ContainsFunc(s.bases, func(b baseState) bool { return b.Generation == "" })
	switch {
	case missing:
		res.Partial, res.Reason = true, retrieval.ReasonIndexing
		res.Bases = slices.DeleteFunc(res.Bases, func(ref retrieval.Ref) bool { return ref.Generation == "" })
	case len(res.Sources) == 0:
		res.Reason = retrieval.ReasonNoMatch
	}
	res.Retrieved, res.Unique = len(res.Sources), len(res.Sources)
}

// reason returns the outcome of a search for one of its bases.
func (s *searching) reason(res *retrieval.Result, err error, id string) retrieval.Reason {
	switch i := slices.Index(s.ids, id); {
	case err != nil || res.Reason == retrieval.ReasonNoQueryTerms:
		return res.Reason
	case s.bases[i].Generation == "":
		return retrieval.ReasonIndexing
	case !slices.ContainsFunc(res.Sources, func(src retrieval.Source) bool { return src.Knowledge == id }):
		return retrieval.ReasonNoMatch
	}
	return retrieval.ReasonNone
}
