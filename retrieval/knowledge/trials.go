package knowledge

import (
	"math"
	"strings"
	"unicode"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A Trial is a question whose answer is known without human judgments: a sentence from the middle
// of a chunk, which its vector should find among other chunks (known-item search). Trials measure
// whether the model knows the language of a base.
type Trial struct {
	Question string // in the form that questions are searched in
	chunk    bm25.Ref
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
	// trialPool is how many chunks the right one is ranked among. It is the same for bases of any
	// size; with fewer chunks, a trial is easier and says less.
	trialPool = 300

	// unknownLanguage is the mean reciprocal rank of trials for vectors that know only signs and
	// names of a language, and knownLanguage the rank from which vectors get their full weight.
	// all-MiniLM-L6-v2, which was trained on English, reached .71 to .89 in English and code, .40
	// to .57 in German, French and Spanish, .33 and .39 in Chinese. The page of package retrieval
	// lists sets that were not used to choose the two values.
	unknownLanguage = 0.3
	knownLanguage   = 0.6
)

// Trials returns trials from the texts in segments: always the same for the same texts, and nearly
// the same after a small change; nil if there are too few. It stops at the first damaged text.
func Trials(segments index.Segments) (trials []Trial) {
	_ = bm25.GuardMapped(func() error { // whoever reads the texts next reports damage
		for _, ref := range segments.Sample(2 * mostTrials) {
			source, err := segments.Source(ref)
			if err != nil || len(trials) == mostTrials {
				return err
			}
			if sentence := middleSentence(source.Text); sentence != "" {
				trials = append(trials, Trial{retrieval.Fold(sentence), ref})
			}
		}
		return nil
	})
	if len(trials) < leastTrials {
		return nil
	}
	return trials
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

// measureWeight returns the weight of vectors relative to words, from 0 if they do not know the
// language of the texts to retrieval.DefaultDenseWeight; ok is false if there are too few trials.
// vectors are those of the trials. The weight depends only on the texts and vectors, not on how
// they are divided into segments.
func (e extent) measureWeight(trials []Trial, vectors [][]float32) (weight float64, ok bool, err error) {
	if len(vectors) != len(trials) {
		return 0, false, nil
	}
	pool := e.content.segments.Embeddings().Sample(trialPool)
	tried, found := 0, 0.0
	for i, t := range trials {
		if !e.content.vectors.Has(dense.Ref(t.chunk)) {
			continue
		}
		rank, err := e.rankAmong(pool, t.chunk, vectors[i])
		if err != nil {
			return 0, false, err
		}
		tried, found = tried+1, found+1/rank
	}
	if tried < leastTrials {
		return 0, false, nil
	}
	known := (found/float64(tried) - unknownLanguage) / (knownLanguage - unknownLanguage)
	return math.Round(retrieval.DefaultDenseWeight*min(1, max(0, known))*100) / 100, true, nil
}

// rankAmong returns the rank of a chunk among others by cosine to question. Among equal cosines it
// is the middle rank.
func (e extent) rankAmong(others []bm25.Ref, chunk bm25.Ref, question []float32) (rank float64, err error) {
	q, err := dense.NewQuestion(question)
	if err != nil {
		return 0, err
	}
	own, err := e.content.vectors.Cosine(q, dense.Ref(chunk))
	if err != nil {
		return 0, err
	}
	rank = 1
	for _, other := range others {
		cosine, err := e.content.vectors.Cosine(q, dense.Ref(other))
		if err != nil {
			return 0, err
		}
		switch {
		case other == chunk:
		case cosine > own:
			rank++
		case cosine == own:
			rank += .5
		}
	}
	return rank, nil
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
