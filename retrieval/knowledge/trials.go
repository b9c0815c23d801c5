package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A Trial is a question whose answer is known without human judgments: a sentence from the middle
// of a chunk, which should find the rest of the chunk among those of other trials (inverse cloze
// task; K. Lee, M.-W. Chang, K. Toutanova, 2019). Every second word that the rest repeats is left
// out of the question, as people ask in words of their own. Trials are searched by words, by vectors
// and by both: vectors that find nothing beside words have no weight.
type Trial struct {
	Question string // in the form that questions are searched in
	Passage  string // the rest, in the form of an embedded passage
}

const (
	// mostTrials is how many questions of a base are embedded; their mean reciprocal rank is then
	// known to about .04.
	mostTrials = 96
	// leastTrials is the fewest trials that a weight is measured from.
	leastTrials = 8
	// leastSentence is the fewest letters of a sentence (a third of that in East Asian scripts),
	// and longestSentence the most bytes of a sentence that are used.
	leastSentence   = 30
	longestSentence = 400
	// leastKept is the fewest words of a sentence from which words are left out. It keeps the
	// sentences of scripts without spaces whole.
	leastKept = 4

	// The weight depends on the mean reciprocal rank of vectors, less that of chance, as a part of
	// that of words: up to uselessPart they have none, from usefulPart half of it, and from betterPart
	// to muchBetterPart up to mostWeight. all-MiniLM-L6-v2, which was trained on English, reached .88
	// on SciFact, 1.06 on Cranfield and .24 on DRCD (Chinese); hashed words, which know no meaning,
	// .31, .27 and .02.
	uselessPart, usefulPart    = 0.5, 0.8
	betterPart, muchBetterPart = 1.25, 2
	mostWeight                 = 0.7
	// leastFound is the least that words are taken to find beyond chance: if they find nothing,
	// vectors must find something.
	leastFound = 0.1
)

// Trials returns trials from the texts in segments: always the same for the same texts, and nearly
// the same after a small change; nil if there are too few. It stops at the first damaged text.
func Trials(segments index.Segments) (trials []Trial) {
	_ = bm25.GuardMapped(func() error { // whoever reads the texts next reports damage
		trials = TrialsFrom(func(yield func(retrieval.Source) bool) {
			for _, ref := range segments.Sample(sampledTrials) {
				source, err := segments.Source(ref)
				if err != nil || !yield(source) {
					return
				}
			}
		})
		return nil
	})
	return trials
}

// sampledTrials is how many texts are sampled for trials: not every text makes one.
const sampledTrials = 2 * mostTrials

// TrialsFrom returns trials from the names, sections and texts of sources; nil if there are too few.
func TrialsFrom(sources iter.Seq[retrieval.Source]) (trials []Trial) {
	asked := map[string]bool{}
	for source := range sources {
		sentence := middleSentence(source.Text)
		if sentence == "" || asked[sentence] {
			continue
		}
		asked[sentence] = true
		rest := index.Passage(source.Name, source.Section, strings.Replace(source.Text, sentence, " ", 1))
		if trials = append(trials, Trial{retrieval.Fold(inOtherWords(sentence, rest)), rest}); len(trials) == mostTrials {
			break
		}
	}
	if len(trials) < leastTrials {
		return nil
	}
	return trials
}

// TrialTexts returns the texts to embed for Trials: all questions, then all passages.
func TrialTexts(segments index.Segments) []string { return TextsOf(Trials(segments)) }

// TextsOf returns the texts to embed for trials: all questions, then all passages.
func TextsOf(trials []Trial) []string {
	texts := make([]string, 2*len(trials))
	for i, t := range trials {
		texts[i], texts[len(trials)+i] = t.Question, t.Passage
	}
	return texts
}

// inOtherWords returns a sentence without every second word that rest has, too.
func inOtherWords(sentence, rest string) string {
	words := strings.Fields(sentence)
	if len(words) < leastKept {
		return sentence
	}
	has := map[string]bool{}
	for _, term := range analysis.Terms(rest) {
		has[term] = true
	}
	kept, shared := make([]string, 0, len(words)), 0
	for _, word := range words {
		if slices.ContainsFunc(analysis.Terms(word), func(term string) bool { return has[term] }) {
			if shared++; shared%2 == 0 {
				continue
			}
		}
		kept = append(kept, word)
	}
	return strings.Join(kept, " ")
}

// middleSentence returns the middle one of the sentences or lines of a text, ignoring very short
// ones; "" if there are fewer than two.
func middleSentence(text string) string {
	const (
		ends     = ".!?;"   // sentence ends if followed by white space
		endsWide = "\n。！？；" // sentence ends anywhere
		eastAsia = 0x2E80   // the first script whose letters count more
	)
	var sentences []string
	from, letters, before := 0, 0, ' '
	for i, r := range text {
		ended := strings.ContainsRune(ends, before) && unicode.IsSpace(r) || strings.ContainsRune(endsWide, before)
		if ended && letters >= leastSentence {
			sentences, from, letters = append(sentences, text[from:i]), i, 0
		}
		switch {
		case r >= eastAsia:
			letters += 3
		case unicode.IsLetter(r), unicode.IsDigit(r):
			letters++
		}
		before = r
	}
	if letters >= leastSentence {
		sentences = append(sentences, text[from:])
	}
	if len(sentences) < 2 {
		return ""
	}
	middle := sentences[len(sentences)/2]
	return strings.ToValidUTF8(middle[:min(len(middle), longestSentence)], "")
}

// measureWeight returns the weight of vectors relative to words; 0 if they find nothing that words do
// not find, for example because the model does not know the language. ok is false if there are too
// few trials. vectors are those of TrialTexts. The weight depends only on the texts and vectors, not
// on how they are divided into segments.
func measureWeight(ctx context.Context, trials []Trial, vectors [][]float32) (weight float64, ok bool, err error) {
	if len(trials) < leastTrials || len(vectors) != 2*len(trials) {
		return 0, false, nil
	}
	all, err := searchTrials(ctx, trials, vectors)
	if err != nil {
		return 0, false, err
	}
	words, chance := all.found(0), all.chance()
	part := (all.found(1) - chance) / max(words-chance, leastFound)
	weight = between(part, uselessPart, usefulPart) * retrieval.DefaultDenseWeight
	if more := between(part, betterPart, muchBetterPart); more > 0 {
		most := retrieval.DefaultDenseWeight + more*(mostWeight-retrieval.DefaultDenseWeight)
		if all.found(most) >= all.found(weight) {
			weight = most
		}
	}
	const least = 0.05
	for ; weight >= least; weight /= 2 {
		if all.gains(weight) {
			return math.Round(weight*100) / 100, true, nil
		}
	}
	return 0, true, nil
}

// between returns where a number stands between two others, from 0 to 1.
func between(x, low, high float64) float64 { return min(1, max(0, (x-low)/(high-low))) }

// A searched trial has the hits by words and the cosines of all passages.
type searchedTrial struct {
	own     int // number of its passage
	words   []bm25.Hit
	cosines []dense.Hit // best first
}

type searchedTrials []searchedTrial

// searchTrials searches the passages of all trials for each of them.
func searchTrials(ctx context.Context, trials []Trial, vectors [][]float32) (searchedTrials, error) {
	x, err := indexTrials(trials)
	if err != nil {
		return nil, err
	}
	units := make([][]float64, len(vectors))
	for i, v := range vectors {
		units[i] = unit(v)
	}
	all := make(searchedTrials, len(trials))
	for i, t := range trials {
		s := &all[i]
		s.own = i
		if s.words, err = x.Search(ctx, termsOf(&retrieval.Query{Text: t.Question}, nil, nil), len(trials), nil, nil); err != nil {
			return nil, err
		}
		for n, passage := range units[len(trials):] {
			s.cosines = append(s.cosines, dense.Hit{Ref: dense.Ref{Text: n}, Cosine: dot(units[i], passage)})
		}
		slices.SortStableFunc(s.cosines, func(a, b dense.Hit) int { return cmp.Compare(b.Cosine, a.Cosine) })
	}
	return all, nil
}

// indexTrials returns an index of the passages of trials, numbered in order.
func indexTrials(trials []Trial) (*bm25.Index, error) {
	var segments index.Segments
	w := index.Writer{Emit: func(image []byte, _ []int64) error {
		s, err := index.Open("", image, nil)
		if err == nil {
			segments = append(segments, s.Without(nil, nil))
		}
		return err
	}}
	for i, t := range trials {
		d := index.Document{Row: int64(i), ID: fmt.Sprintf("%06d", i), Attributes: chunk.Encoded(nil), Chunks: []chunk.Chunk{{Text: t.Passage}}}
		if err := w.Add(d); err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return segments.Index(), nil
}

// unit returns a vector at length 1; a zero vector, which is similar to nothing, if it has no length.
func unit(v []float32) []float64 {
	u, square := make([]float64, len(v)), 0.0
	for i, c := range v {
		u[i] = float64(c)
		square += u[i] * u[i]
	}
	for i := range u {
		if u[i] /= math.Sqrt(square); math.IsNaN(u[i]) || math.IsInf(u[i], 0) {
			return make([]float64, len(v))
		}
	}
	return u
}

func dot(u, v []float64) (sum float64) {
	for i := range min(len(u), len(v)) {
		sum += u[i] * v[i]
	}
	return sum
}

// found returns the mean reciprocal rank with a weight of vectors. Among equal scores a rank is the
// middle one.
func (all searchedTrials) found(weight float64) float64 {
	sum := 0.0
	for i := range all {
		sum += 1 / all[i].rank(weight, len(all))
	}
	return sum / float64(len(all))
}

// gains reports whether more is found with a weight of vectors than by words alone, by more than the
// standard error of the difference.
func (all searchedTrials) gains(weight float64) bool {
	n, sum, squares := float64(len(all)), 0.0, 0.0
	for i := range all {
		gain := 1/all[i].rank(weight, len(all)) - 1/all[i].rank(0, len(all))
		sum, squares = sum+gain, squares+gain*gain
	}
	mean := sum / n
	return mean > math.Sqrt(max(0, squares/n-mean*mean)/n)
}

// chance returns the mean reciprocal rank of a random order.
func (all searchedTrials) chance() (mean float64) {
	for rank := range len(all) {
		mean += 1 / float64(rank+1) / float64(len(all))
	}
	return mean
}

// rank returns the rank of the right one of n passages.
func (s *searchedTrial) rank(weight float64, n int) float64 {
	hits := make([]fusedHit, 0, n)
	at := make([]int, n) // 1 + index in hits
	for _, h := range s.words {
		hits = append(hits, fusedHit{Ref: h.Ref, words: h.Score, weight: weight})
		at[h.Text] = len(hits)
	}
	for i, h := range s.cosines {
		if at[h.Ref.Text] == 0 {
			hits = append(hits, fusedHit{Ref: bm25.Ref(h.Ref), weight: weight})
			at[h.Ref.Text] = len(hits)
		}
		hit := &hits[at[h.Ref.Text]-1]
		hit.cosine, hit.rank = h.Cosine, i+1
	}
	fuseScores(hits, s.cosines, n)
	own := hits[slices.IndexFunc(hits, func(h fusedHit) bool { return h.Text == s.own })].score
	rank := .5
	for _, h := range hits {
		switch {
		case h.score > own:
			rank++
		case h.score == own:
			rank += .5
		}
	}
	return rank
}

// DenseWeight returns the weight of the content's vectors, where a policy sets none; words weigh
// the rest. It is the default if nothing was measured, for example because few chunks have a
// vector.
func (c *Content) DenseWeight() (weight float64, measured bool) {
	if !c.weighed {
		return retrieval.DefaultDenseWeight, false
	}
	return c.weight, true
}
