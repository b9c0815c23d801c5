package knowledge

import (
	"cmp"
	"context"
	"math"
	"slices"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

// A floor tells an answer from noise: chunks that share a word or two with a
// question about something else. The least score of a question's answers is
//
//	noise · scale · demand
//
// scale is of the question alone: what it could score at most grows with the sum S of its
// terms' idf, and what noise does score grows more slowly, as S^0.7. Where texts repeat its
// terms more or less than others, both scores are as much higher or lower.
//
// demand is of what the best hits have of the question: a text that shares a single word
// with it, or only words of conversation, has to score more.
//
// noise is of the base: what random questions get, the best scores of questions made of
// terms from anywhere in the base, which belong to no one text together. In a base of few
// chunks they do, and the measure is capped.
//
// The constants are those of the values tried that turn away most questions about something
// else and take no more than 3 % of the right answers of three collections (TestFloor of
// cmd/sidenote), and hardly any of the questions to bases of few chunks.
type floor struct {
	noise   float64
	cosines cosineFloor
}

const (
	floorExponent = 0.7
	// noiseQueries is how many random questions measure a base's noise.
	noiseQueries = 400
	noiseTerms   = 8 // about as many as a question has
	// noiseRank picks the noise from what random questions get.
	noiseRank = noiseQueries * 81 / 100
	// noisePart is the part of it that counts.
	noisePart = 0.95
	// longQuestion is the number of terms of a question that are measured, the rarest ones.
	longQuestion = 24
	// unknown is how much of its weight a term counts that the base does not have: it tells of
	// another topic, or is misspelt, or another word for the same.
	unknown = 0.5
	// fewTexts is the number of texts below which idf cannot tell a rare term from a common
	// one; the floor is lowered, so that a text with any term of the question passes.
	fewTexts = 8
	// enough is how many words of a question a hit needs to share, where the question has as
	// many: a single one in common is likely to be chance.
	enough = 1.5
	// witnesses is how many of the best hits may show that there is an answer: the best may
	// owe its score to words of conversation.
	witnesses = 3
	// leastShared keeps the demand finite where a hit shares next to nothing.
	leastShared = 0.05
	// rest is the part of the floor that the others need once the best hit is above it: when
	// one chunk answers, the next in rank are likely to be about the same.
	rest = 0.7
)

// calibrate measures the noise of x.
func calibrate(ctx context.Context, x *bm25.Index) (floor, error) {
	c, err := calibrateSince(ctx, x, nil, nil)
	if err != nil {
		return floor{}, err
	}
	return c.floor, nil
}

// floorOf returns the floor of a base of some texts from what random questions get.
func floorOf(noise []float64, n int) floor {
	if len(noise) == 0 {
		return floor{}
	}
	slices.Sort(noise)
	// Up to some thousand texts the cap is what counts: it was fitted to bases of 14 to 120
	// chunks of manuals.
	texts := float64(n)
	most := 0.34 * math.Pow(texts, 0.2) * min(1, texts/fewTexts)
	return floor{noise: min(most, noisePart*noise[len(noise)*noiseRank/noiseQueries])}
}

// of returns the least score of a question's answers, in the scores of x. Where none of the
// best hits is an answer, all are below it.
func (f floor) of(x *bm25.Index, terms []bm25.Term, hits []bm25.Hit) float64 {
	var few [fewTerms]measuredTerm
	q := measure(x, terms, few[:0])
	least := f.noise * q.scale()
	if len(hits) == 0 {
		return least
	}
	q.weigh()
	for _, h := range hits[:min(len(hits), witnesses)] {
		if own := least * q.demand(x, h.Ref); h.Score >= own {
			return own * rest
		}
	}
	return least * q.demand(x, hits[0].Ref)
}

// A measured is a question as the floor sees it: its different terms, by their text, with
// what they mean in an index.
type measured struct {
	terms  []measuredTerm
	needed float64 // of their topics in a text that answers, see weigh
}

type measuredTerm struct {
	text   string
	weight float64 // of all its occurrences
	idf    float64
	counts float64 // what it counts in scores; like idf, beside weight
	topic  float64 // how much of the question it is, see weigh
	known  bool    // whether any text has it
	whole  bool    // an identifier
}

// measure returns the measured terms in room if that is enough.
func measure(x *bm25.Index, terms []bm25.Term, room []measuredTerm) measured {
	if !slices.IsSortedFunc(terms, bm25.ByText) {
		terms = slices.Clone(terms)
		slices.SortStableFunc(terms, bm25.ByText)
	}
	q := measured{terms: room[:0]}
	for _, t := range terms {
		if n := len(q.terms); n > 0 && q.terms[n-1].text == t.Text {
			q.terms[n-1].weight += t.Weight
			continue
		}
		means := x.Meaning(t.Text)
		q.terms = append(q.terms, measuredTerm{
			text: t.Text, weight: t.Weight, whole: t.Whole != "" && t.Whole == t.Text,
			idf: means.IDF, counts: means.Weight, known: means.Known,
		})
	}
	return q
}

// scale returns what the scores of a question are measured by. Of a long text that
// somebody pasted only the rarest terms count: nothing could answer all of it.
func (q measured) scale() float64 {
	type part struct{ idf, counts float64 }
	var few [fewTerms]part
	parts := few[:0]
	for i := range q.terms {
		t := &q.terms[i]
		w := t.weight
		if !t.known {
			w *= unknown
		}
		parts = append(parts, part{w * t.idf, w * t.counts})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.idf, b.idf), cmp.Compare(a.counts, b.counts)) })
	var sum part
	for _, p := range parts[max(0, len(parts)-longQuestion):] {
		sum.idf, sum.counts = sum.idf+p.idf, sum.counts+p.counts
	}
	if sum.idf == 0 {
		return 0
	}
	return math.Pow(sum.idf, floorExponent) * sum.counts / sum.idf
}

// weigh finds out how much of a question each of its terms is, and how much of that a text needs
// which answers. A term counts as much as it tells of a topic (analysis.Topicality). An answer
// needs enough, or all that a shorter question has beside words of conversation. What joins the
// search at a lower weight, from earlier turns, is not needed, unless the question has nothing of
// its own.
func (q *measured) weigh() {
	own, all := 0.0, 0.0
	answerable, joined := 0.0, 0.0 // by what some text has: of the question itself, and of what joined it
	for i := range q.terms {
		t := &q.terms[i]
		topic, conversational := analysis.Topicality(t.text)
		topic *= min(1, t.weight)
		if t.whole && t.known {
			topic = enough // it says by itself what is asked for
		}
		t.topic = topic
		if !conversational {
			all += topic
			switch {
			case t.weight >= 1:
				own += topic
				if t.known {
					answerable += topic
				}
			case t.known:
				joined += topic
			}
		}
	}
	if answerable == 0 && joined > 0 { // "and for adopted children?", of whom no text speaks
		own = joined
	}
	q.needed = min(cmp.Or(own, all, enough), enough)
}

// demand returns how much more than the noise a text has to score: twice as much if it has
// half of what is needed.
func (q measured) demand(x *bm25.Index, text bm25.Ref) float64 {
	shared := leastShared
	for i := range q.terms {
		if t := &q.terms[i]; t.known && x.Has(text, t.text) {
			shared += t.topic
		}
	}
	return max(1, q.needed/shared)
}
