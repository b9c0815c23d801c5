package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

// mostExplained is the most distinct terms that a search uses, see bm25.Index.Search.
const mostExplained = 64

// Explain returns how the result of Retrieve for a query comes about. It reveals nothing about
// documents that q.Filter hides, except that term weights are those of the whole bases, as in a
// search. It runs one search per term, so it is meant for people, not for requests.
func (g *Group) Explain(ctx context.Context, q retrieval.Query) (told retrieval.Explained, err error) {
	terms := termsOf(&q, g.Analysed, nil)
	u, holders := g.union(idsOf(q.Bases))
	if len(holders) == 0 || len(terms) == 0 {
		return retrieval.Explained{}, nil
	}
	e := alone(holders[0])
	if u != nil {
		if e, err = u.extent(); err != nil {
			return retrieval.Explained{}, fmt.Errorf("explain: %w", err)
		}
		u.await(ctx, g.Wait)
		e.floor = u.nearest()
	}
	asked := g.ask(ctx, &q, &e)
	if err := e.content.Guard(func() error { return e.explain(ctx, q, terms, asked, &told) }); err != nil {
		return retrieval.Explained{}, fmt.Errorf("explain: %w", err)
	}
	return told, nil
}

func (e extent) explain(ctx context.Context, q retrieval.Query, terms []bm25.Term, asked *pendingVector, told *retrieval.Explained) error {
	allowed, err := e.content.allowed(ctx, q.Filter)
	if err != nil {
		return err
	}
	x := e.content.index
	if terms, err = e.alternatives(ctx, terms, allowed); err != nil {
		return err
	}
	terms = x.WeighIdentifiers(terms, nil)
	found, _, err := e.look(ctx, terms, asked, q.Settings.NumCandidates, allowed, nil)
	if err != nil {
		return err
	}
	return e.explainFound(ctx, terms, &found, allowed, told)
}

// explainFound explains the hits of a search for terms.
func (e extent) explainFound(ctx context.Context, terms []bm25.Term, found *found, allowed []bm25.Bitmap, told *retrieval.Explained) error {
	x := e.content.index
	var searched []searchedTerm
	for _, t := range measure(x, terms, nil).terms {
		term := retrieval.ExplainedTerm{Text: t.text}
		if t.known {
			term.Score = t.weight * t.counts
		}
		alone := slices.DeleteFunc(slices.Clone(terms), func(other bm25.Term) bool { return !t.stands(&other) })
		shown := slices.DeleteFunc(slices.Clone(alone), func(other bm25.Term) bool { return other.Of != "" && !x.Contains(other.Text, allowed) })
		if len(shown) > 0 && (t.of != "" || shown[len(shown)-1].Text != shown[0].Text) {
			term.Typed, term.Text = word(&shown[0]), joined(shown)
		}
		searched = append(searched, searchedTerm{term, alone})
	}
	slices.SortStableFunc(searched, func(a, b searchedTerm) int { return weightier(a.ExplainedTerm, b.ExplainedTerm) })
	for _, s := range searched {
		told.Terms = append(told.Terms, s.ExplainedTerm)
	}
	told.Floor = found.floor
	var byWords []bm25.Hit
	for i, h := range found.hits {
		if found.by(i).words > 0 {
			byWords = append(byWords, h)
		}
	}
	shares, err := sharesOf(ctx, x, searched[:min(len(searched), mostExplained)], byWords)
	if err != nil {
		return err
	}
	for i, h := range found.hits {
		by := found.by(i)
		base, doc, chunk, err := e.identify(h.Ref)
		if err != nil {
			return err
		}
		found := retrieval.ExplainedHit{
			Knowledge: base, Doc: doc, Chunk: chunk, Terms: shares[h.Ref], Document: by.words,
			Arm: by.arm, Words: by.words, Cosine: by.cosine, Weight: by.weight,
		}
		for _, t := range found.Terms {
			found.Document -= t.Score
		}
		if math.Abs(found.Document) <= 1e-9*by.words { // rounded sums
			found.Document = 0
		}
		slices.SortStableFunc(found.Terms, weightier)
		told.Hits = append(told.Hits, found)
	}
	return nil
}

// identify returns the base of a text, its document and its place there.
func (e extent) identify(ref bm25.Ref) (base, doc string, chunk int, err error) {
	if e.part != nil {
		c := e.part.candidate(ref)
		return e.part.bases[c.Base].ID, c.Doc, c.Ordinal, nil
	}
	source, err := e.content.source(ref)
	return e.of(ref).id, source.Doc, source.Chunk, err
}

// joined returns what is searched for a word, which comes first if texts have it.
func joined(alternatives []bm25.Term) string {
	var texts []string
	alternatives = slices.Clone(alternatives)
	slices.SortStableFunc(alternatives, func(a, b bm25.Term) int { return cmp.Compare(min(len(a.Of), 1), min(len(b.Of), 1)) })
	for i := range alternatives {
		text := alternatives[i].Text
		if alternatives[i].Kind == bm25.Correction {
			text = meant(word(&alternatives[i]), text)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// A searchedTerm is a term with what is searched for it: its repetitions, or its alternatives.
type searchedTerm struct {
	retrieval.ExplainedTerm
	alone []bm25.Term
}

// sharesOf returns what each term adds to the score of each hit. Scores of terms add up, so this
// is the score of the hit for that term alone.
func sharesOf(ctx context.Context, x *bm25.Index, terms []searchedTerm, hits []bm25.Hit) (map[bm25.Ref][]retrieval.ExplainedTerm, error) {
	var found []bm25.Bitmap
	for _, h := range hits {
		found = append(found, make([]bm25.Bitmap, max(0, h.Segment+1-len(found)))...)
		found[h.Segment].Add(h.Text)
	}
	shares := make(map[bm25.Ref][]retrieval.ExplainedTerm, len(hits))
	for _, t := range terms {
		having, err := x.Search(ctx, t.alone, len(hits), found, nil)
		if err != nil {
			return nil, err
		}
		for _, h := range having {
			shares[h.Ref] = append(shares[h.Ref], retrieval.ExplainedTerm{Text: t.Text, Typed: t.Typed, Score: h.Score})
		}
	}
	return shares, nil
}

// weightier orders terms by score, highest first.
func weightier(a, b retrieval.ExplainedTerm) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Text, b.Text))
}
