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

// maxRepeats is how often a term of a question counts at most: a repetition or two is
// emphasis, but in a long pasted text it means nothing.
const maxRepeats = 2

// A Base is one knowledge base. It exists before its index does: until the first
// Swap its generation is "" and it answers with retrieval.ReasonIndexing.
type Base struct {
	id      string
	content atomic.Pointer[Content]
}

// New returns a base that is still to be indexed.
func New(id string) *Base { return &Base{id: id} }

// Swap lets the base answer from c from now on; nil makes it one that is still to be
// indexed. Searches under way end on what they started with.
func (b *Base) Swap(c *Content) { b.content.Store(c) }

// Content returns what the base answers from; nil before the first Swap.
func (b *Base) Content() *Content { return b.content.Load() }

// ID returns the base's id.
func (b *Base) ID() string { return b.id }

// Ref returns the base's id and generation.
func (b *Base) Ref() retrieval.Ref { return b.ref(b.content.Load()) }

func (b *Base) ref(c *Content) retrieval.Ref { return holder{b.id, c}.ref() }

// Retrieve returns the best q.Settings.NumCandidates chunks for q.Text, best
// first, and the floor below which they are noise; no threshold is applied here.
//
// With q.Filter they are the best of the chunks that it lets pass; the others never come,
// nor change a score. The floor uses the noise of the whole base but compares it with the
// best hit that passes: else the floor would reveal something about the others.
//
// A base whose folder was not read to its end answers in part, with ReasonIndexing.
//
// It searches by words alone; a Group searches vectors too.
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

// noneIndexed is the answer of bases all of which are still to be indexed.
func noneIndexed(bases []retrieval.Ref) (retrieval.Result, error) {
	return retrieval.Result{Bases: bases, Reason: retrieval.ReasonIndexing, Cache: retrieval.CacheOff},
		fmt.Errorf("search knowledge %s: indexing: %w", named(bases), retrieval.ErrUnavailable)
}

// fewTerms is how many terms most questions have at most.
const fewTerms = 16

// termsOf returns the terms to search for, in the order of their texts: those of the question,
// and of the turns before it at their weights. They lie in room if that is enough.
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
