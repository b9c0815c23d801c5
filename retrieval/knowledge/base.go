package knowledge

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

// maxRepeats is how often a repeated term of a question counts at most. A repetition or two is
// emphasis; in a long pasted text it means nothing.
const maxRepeats = 2

// A Base is one knowledge base. It exists before it is indexed: until the first Swap its
// generation is "" and it answers with retrieval.ReasonIndexing.
type Base struct {
	id      string
	content atomic.Pointer[Content]
}

// New returns a base that is not indexed yet.
func New(id string) *Base { return &Base{id: id} }

// Swap makes c the content that later searches use; nil marks the base as not indexed. Searches in
// progress finish on the content they started with.
func (b *Base) Swap(c *Content) { b.content.Store(c) }

// Content returns the current content; nil before the first Swap.
func (b *Base) Content() *Content { return b.content.Load() }

// ID returns the base's id.
func (b *Base) ID() string { return b.id }

// Ref returns the base's id and generation.
func (b *Base) Ref() retrieval.Ref { return b.ref(b.content.Load()) }

func (b *Base) ref(c *Content) retrieval.Ref { return holder{b.id, c}.ref() }

// Retrieve returns the best q.Settings.NumCandidates chunks for q.Text, best first, and the floor
// below which they are noise. It applies no threshold.
//
// With q.Filter it returns the best of the chunks that pass. The others are never returned and
// affect no score. The floor uses the noise of the whole base but is computed from the best hits
// that pass; otherwise it would reveal something about the others.
//
// If the folder of the base was not read completely, the result is partial, with ReasonIndexing.
//
// It searches by words only; a Group also searches vectors.
func (b *Base) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	h := holder{b.id, b.content.Load()}
	if h.content == nil {
		return noneIndexed([]retrieval.Ref{h.ref()})
	}
	e := alone(h)
	var res retrieval.Result
	err := withSources(&res, e.find(ctx, &q, termsOf(&q, nil, nil), nil, &res))
	return res, err
}

// noneIndexed returns the result for bases none of which is indexed yet.
func noneIndexed(bases []retrieval.Ref) (retrieval.Result, error) {
	return retrieval.Result{Bases: bases, Reason: retrieval.ReasonIndexing, Cache: retrieval.CacheOff},
		fmt.Errorf("search knowledge %s: indexing: %w", named(bases), retrieval.ErrUnavailable)
}

// fewTerms is the number of terms that fit into stack buffers; most questions have fewer.
const fewTerms = 16

// termsOf returns the terms to search for, sorted by text: those of the question, and those of
// previous turns at their weights. It uses room if that is large enough.
func termsOf(q *retrieval.Query, analysed *analysis.Recent, room []bm25.Term) []bm25.Term {
	var found [fewTerms]analysis.Term
	terms := room[:0]
	add := func(text string, weight float64) {
		for _, t := range analysed.Question(found[:0], text) {
			terms = append(terms, bm25.Term{Text: t.Text, Weight: weight, Whole: t.Whole})
		}
	}
	add(q.Text, 1)
	for _, turn := range q.Previous {
		if turn.Weight > 0 {
			add(turn.Text, turn.Weight)
		}
	}
	slices.SortStableFunc(terms, bm25.ByText)
	kept := terms[:0]
	for _, t := range terms {
		if n := len(kept); n < maxRepeats || kept[n-maxRepeats].Text != t.Text {
			kept = append(kept, t)
		}
	}
	return kept
}
