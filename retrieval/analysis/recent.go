package analysis

import (
	"strings"

	"sidenote/retrieval"
)

// Recent caches the terms of recently analysed words and texts, such as frequent questions and the
// chunks that answer them. A repeated question takes 4 µs with it and 8 without (BenchmarkWarm of
// the engine); a new one with known words takes a fourth of the time (BenchmarkQuestion). The zero
// Recent is ready to use; nil caches nothing.
type Recent struct {
	texts retrieval.Recent[analysed]
	words retrieval.Recent[wordTerm]
}

type analysed struct {
	text  string
	terms []string
}

// A wordTerm is a word, as written, and its term, "" for a stop word.
type wordTerm struct{ word, term string }

// maxRecent is the maximum length of a cached text, in bytes.
const maxRecent = 4 << 10

// Terms returns what the function Terms returns. The result is shared and must not be modified.
func (r *Recent) Terms(text string) []string {
	if r == nil || len(text) > maxRecent {
		return r.terms(text)
	}
	hash := retrieval.HashText(text)
	if a := r.texts.At(hash); a != nil && a.text == text {
		return a.terms
	}
	a := &analysed{text, r.terms(text)}
	r.texts.Put(hash, a)
	return a.terms
}

// HasTerms reports whether text has any Terms. It stops at the first.
func (r *Recent) HasTerms(text string) bool {
	var room [fewTerms]string
	s := newScanner(text)
	for tok, kind := s.next(); kind != end; tok, kind = s.next() {
		if len(r.appendTerms(room[:0], tok, kind)) > 0 {
			return true
		}
	}
	return false
}

// term returns the term of a word, "" for a stop word. Words with digits are not cached: most are
// names that seldom recur, and they need no stemming.
func (r *Recent) term(word string) string {
	if r == nil {
		return termOf(word)
	}
	hash := retrieval.HashText(word)
	if w := r.words.At(hash); w != nil && w.word == word {
		return w.term
	}
	term := termOf(word)
	if hasDigit(word) {
		return term
	}
	w := &wordTerm{strings.Clone(word), strings.Clone(term)} // do not keep the whole text in memory
	r.words.Put(hash, w)
	return w.term
}
