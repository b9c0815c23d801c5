package bm25_test

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/index/bm25"
)

// wordsOf draws words with the distribution of scientific abstracts without stop words and after
// stemming: Zipf's law with a flat head.
func wordsOf(seed uint64) func() string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), 1.6, 150, 1_000_000)
	return func() string { return "w" + strconv.FormatUint(zipf.Uint64(), 36) }
}

// corpus returns n texts of about the given number of words, a sixth of which are stop words.
func corpus(n, words int) []string { return slices.Collect(stream(n, words)) }

// stream is corpus for more texts than should be in memory at once.
func stream(n, words int) iter.Seq[string] {
	return func(yield func(string) bool) {
		r := rand.New(rand.NewPCG(1, 2))
		word := wordsOf(1)
		var b strings.Builder
		for range n {
			b.Reset()
			for w := range words/2 + r.IntN(words) {
				if w%6 == 0 {
					b.WriteString("of ")
					continue
				}
				b.WriteString(word())
				b.WriteByte(' ')
			}
			if !yield(b.String()) {
				return
			}
		}
	}
}

// queries returns n questions of ten words with the same distribution as in the texts.
func queries(n int) [][]bm25.Term {
	word := wordsOf(3)
	qs := make([][]bm25.Term, n)
	for i := range qs {
		for range 10 {
			qs[i] = append(qs[i], bm25.Term{Text: word(), Weight: 1})
		}
	}
	return qs
}
