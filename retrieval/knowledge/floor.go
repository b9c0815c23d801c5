package knowledge

import (
	"cmp"
	"context"
	"math"
	"slices"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

// A floor tells an answer from noise, that is, from chunks that share a word or two with a
// question about something else. The least score of an answer to a question is
//
//	noise · scale · demand
//
// scale depends only on the question: its maximum score grows with the sum S of its terms' idf,
// and noise grows more slowly, as S^0.7. It also corrects for terms that texts repeat more or less
// often than others.
//
// demand depends on how much of the question the best hits contain: a text that shares a single
// word with it, or only conversational words, must score higher.
//
// noise depends on the base. It is measured with random questions, whose terms come from anywhere
// in the base and belong to no single text. In a base of few chunks they do belong together, so
// the measure is capped.
//
// The constants are those tried values that reject most questions about something else while
// losing no more than 3 % of the right answers in three collections (TestFloor of cmd/sidenote),
// and hardly any of the questions to bases of few chunks.
type floor struct {
	noise   float64
	cosines cosineFloor
}

const (
	floorExponent = 0.7
	// noiseQueries is how many random questions measure a base's noise.
	noiseQueries = 400
	noiseTerms   = 8 // about as many as a question has
	// noiseRank is the rank of the random questions' best scores that is taken as noise.
	noiseRank = noiseQueries * 81 / 100
	// noisePart is the factor applied to that score.
	noisePart = 0.95
	// longQuestion is how many terms of a question are measured: the rarest.
	longQuestion = 24
	// unknown is the fraction of its weight with which a term counts that is not in the base: it
	// may indicate another topic, a typo or a synonym.
	unknown = 0.5
	// fewTexts is the number of texts below which idf cannot tell a rare term from a common one;
	// there the floor is lowered, so that a text with any term of the question passes.
	fewTexts = 8
	// enough is how many words of a question a hit should share, if the question has that many: a
	// single shared word is likely to be chance.
	enough = 1.5
	// witnesses is how many of the best hits are checked for an answer: the best may owe its score
	// to conversational words.
	witnesses = 3
	// leastShared keeps the demand finite if a hit shares almost nothing.
	leastShared = 0.05
	// rest is the fraction of the floor that the other hits need once the best hit is above it: if
	// one chunk answers, the next are likely to be about the same subject.
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

// floorOf returns the floor of a base of n texts, given the scores of random questions.
func floorOf(noise []float64, n int) floor {
	if len(noise) == 0 {
		return floor{}
	}
	slices.Sort(noise)
	// Up to some thousand texts the cap decides; it was fitted to bases of 14 to 120 chunks of
	// manuals.
	texts := float64(n)
	most := 0.34 * math.Pow(texts, 0.2) * min(1, texts/fewTexts)
	return floor{noise: min(most, noisePart*noise[len(noise)*noiseRank/noiseQueries])}
}

// of returns the least score of an answer to the question, on the scale of x's scores. If none of
// the best hits is an answer, it is above all of them.
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

// A measured is a question prepared for the floor: its distinct terms, sorted by text, with their
// weights in an index.
type measured struct {
	terms  []measuredTerm
	needed float64 // sum of topics that an answer must contain, see weigh
}

type measuredTerm struct {
	text   string
	weight float64 // sum over its occurrences
	idf    float64
	counts float64 // its factor in scores, apart from weight
	topic  float64 // its share of the question's topic, see weigh
	known  bool    // whether any text contains it
	whole  bool    // an identifier
}

// measure returns the measured question. It uses room if that is large enough.
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

// scale returns the unit for the scores of a question. For long pasted texts only the rarest terms
// count, because no chunk could answer all of it.
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

// weigh computes how much each term says about the topic of the question (analysis.Topicality),
// and how much of the total an answer must contain: enough, or everything that a shorter question
// has besides conversational words. Terms of lower weight, from earlier turns, are not required
// unless the question has none of its own.
func (q *measured) weigh() {
	own, all := 0.0, 0.0
	answerable, joined := 0.0, 0.0 // what some text contains: of the question itself, and of earlier turns
	for i := range q.terms {
		t := &q.terms[i]
		topic, conversational := analysis.Topicality(t.text)
		topic *= min(1, t.weight)
		if t.whole && t.known {
			topic = enough // an identifier alone says what the question is about
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
	if answerable == 0 && joined > 0 { // "and for adopted children?", which no text mentions
		own = joined
	}
	q.needed = min(cmp.Or(own, all, enough), enough)
}

// demand returns the factor by which a text must exceed the noise: 2 if it contains half of what
// is needed.
func (q measured) demand(x *bm25.Index, text bm25.Ref) float64 {
	shared := leastShared
	for i := range q.terms {
		if t := &q.terms[i]; t.known && x.Has(text, t.text) {
			shared += t.topic
		}
	}
	return max(1, q.needed/shared)
}
