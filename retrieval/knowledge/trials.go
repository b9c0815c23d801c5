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

// A Trial is a question whose answer is known without judgments: a sentence out of the middle of
// a chunk, which is to be found among others by its vector (a known-item search). It tells whether
// the model knows the language of a base.
type Trial struct {
	Question string // as questions are searched
	chunk    bm25.Ref
}

const (
	// mostTrials is how many questions of a base are embedded for this; the mean of what becomes of
	// them is known within .04 or so.
	mostTrials = 96
	// leastTrials is of how many a weight is measured at least.
	leastTrials = 8
	// leastSentence is how many letters a sentence has at least, of East Asian scripts a third, and
	// longestSentence how many bytes of one are asked.
	leastSentence   = 30
	longestSentence = 400
	// trialPool is how many chunks a sentence's own one is to be found among. It is the same for
	// bases of any size; where there are less, a trial is easier and says less.
	trialPool = 300

	// unknownLanguage is the mean reciprocal rank of trials by vectors that know nothing of a
	// language but signs and names, and knownLanguage what is enough for all of the weight. Of
	// all-MiniLM-L6-v2, which was trained with English, .71 to .89 were measured in English and code,
	// .40 to .57 in German, French and Spanish, .33 and .39 in Chinese; the page of package retrieval
	// has sets that the two were not chosen on.
	unknownLanguage = 0.3
	knownLanguage   = 0.6
)

// Trials returns those of the texts in segments: always the same of the same texts, and hardly
// others when some texts change; nil where there are too few. It ends before what is damaged.
func Trials(segments index.Segments) (trials []Trial) {
	_ = bm25.GuardMapped(func() error { // whoever reads the texts next reports it
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

// middleSentence returns the middle one of the sentences or lines of a text, without what is too
// short to say something; "" where there is only one.
func middleSentence(text string) string {
	const (
		ends     = ".!?;"   // before white space
		endsWide = "\n。！？；" // before anything
		eastAsia = 0x2E80   // the first of scripts a letter of which says more
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

// measureWeight returns what vectors should weigh beside words, from 0, where they know nothing
// of the language of the texts, to retrieval.DefaultDenseWeight; ok is false where too little can
// be tried. vectors are those of the trials. The same texts and vectors have the same weight, in
// whatever segments they are.
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

// rankAmong returns the rank of a chunk among others by the cosine of a question's vector: where
// some are equal, that in the middle of them.
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

// DenseWeight returns what the vectors of the content weigh beside words, which weigh the rest,
// where a policy says nothing else: what was measured, or else, such as where few chunks have a
// vector, the default.
func (c *Content) DenseWeight() (weight float64, measured bool) {
	if !c.weighed {
		return retrieval.DefaultDenseWeight, false
	}
	return c.weight, true
}
