package bm25

import (
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"sidenote/retrieval/analysis"
)

const (
	// leastSpelled and mostSpelled limit the length, in letters, of terms that Nearest finds, and
	// longestSpelled of those that Containing finds.
	leastSpelled   = 3
	mostSpelled    = 32
	longestSpelled = 64
	// mostCompared is how many terms one call of Nearest compares letter by letter, so that texts
	// full of similar words cost no more than a millisecond.
	mostCompared = 1 << 14
	// mostNear is how many terms Nearest finds.
	mostNear = 32
)

// Nearest appends the alphabetic terms of live texts that are at most so many edits away from a
// word (analysis.Edits); two edits or more must leave its first letter. allow, unless nil,
// restricts the texts. Terms of one segment are in their order.
//
// It compares the letters of every term of about that length, in 1 ns each, which leaves one in
// hundreds to be compared in order. A table of the neighbourhood of each term (W. Garbe's
// SymSpell) would be faster, but takes ten times the memory for one edit and hundreds of times for
// two.
func (x *Index) Nearest(word string, edits int, allow []Bitmap, into []string) []string {
	defer runtime.KeepAlive(x)
	length := utf8.RuneCountInString(word)
	if length < leastSpelled || length > mostSpelled {
		return into
	}
	letters, compared := lettersOf(word), 0
	for i := range x.views {
		v := &x.views[i]
		if allow != nil && (i >= len(allow) || len(allow[i]) == 0) {
			continue
		}
		spelled := v.segment.spellings()
		for n := max(leastSpelled, length-edits); n <= min(mostSpelled, length+edits); n++ {
			same := &spelled[n]
			from, to := 0, len(same.terms)
			if edits > 1 {
				from, to = v.segment.beginning(same.terms, word)
			}
			for j := from; j < to; j++ {
				l := same.letters[j]
				if bits.OnesCount64(l^letters) > 2*edits {
					continue
				}
				if compared++; compared > mostCompared {
					return into
				}
				t := same.terms[j]
				term := v.segment.term(t)
				if analysis.Edits(word, string(term), edits) > edits || !v.hasAllowed(t, i, allow) || slices.Contains(into, string(term)) {
					continue
				}
				if into = append(into, string(term)); len(into) >= mostNear {
					return into
				}
			}
		}
	}
	return into
}

// beginning returns the range of sorted terms that begin with the first letter of a word.
func (s *Segment) beginning(terms []uint32, word string) (from, to int) {
	_, n := utf8.DecodeRuneInString(word)
	from, _ = slices.BinarySearchFunc(terms, word[:n], func(t uint32, first string) int { return strings.Compare(string(s.term(t)), first) })
	to, _ = slices.BinarySearchFunc(terms, word[:n], func(t uint32, first string) int {
		if strings.HasPrefix(string(s.term(t)), first) {
			return -1
		}
		return strings.Compare(string(s.term(t)), first)
	})
	return from, to
}

// Contains reports whether a live text contains a term; allow, unless nil, restricts the texts.
// Unlike Meaning it remembers nothing.
func (x *Index) Contains(term string, allow []Bitmap) bool {
	defer runtime.KeepAlive(x)
	for i := range x.views {
		v := &x.views[i]
		if t, ok := v.segment.find(term); ok && v.hasAllowed(t, i, allow) {
			return true
		}
	}
	return false
}

// Texts returns the number of live texts that contain a term.
func (x *Index) Texts(term string) int { return x.look(term, nil).texts }

// ContainsIn reports whether a live text in one of some segments contains a term.
func (x *Index) ContainsIn(term string, segments func(segment int) bool) bool {
	if x.corpus != nil {
		return x.corpus.find(term).within(segments)
	}
	for i, in := range x.look(term, nil).in {
		if in.texts > 0 && segments(i) {
			return true
		}
	}
	return false
}

// hasAllowed reports whether one of the live texts of the view, which has that number, contains a
// term and is allowed.
func (v *view) hasAllowed(t uint32, number int, allow []Bitmap) bool {
	if allow == nil || v.count(t) == 0 {
		return v.count(t) > 0
	}
	return number < len(allow) && slices.ContainsFunc(v.segment.of(t), func(p posting) bool {
		return allow[number].Has(int(p.text())) && !v.dead.Has(int(p.text()))
	})
}

// spellings are the alphabetic terms of a segment by their length in letters.
type spellings [longestSpelled + 1]sameLength

// A sameLength is the terms of one length.
type sameLength struct {
	letters []uint64 // see lettersOf
	terms   []uint32 // their numbers
}

// A speller makes the spellings of a segment when they are first needed, in 50 ns per term. They
// take 12 bytes each.
type speller struct {
	making sync.Mutex
	made   atomic.Pointer[spellings]
}

func (s *Segment) spellings() *spellings {
	if made := s.speller.made.Load(); made != nil {
		return made
	}
	s.speller.making.Lock()
	defer s.speller.making.Unlock()
	if made := s.speller.made.Load(); made != nil {
		return made
	}
	made := new(spellings)
	for t := range uint32(s.terms()) {
		term := string(s.term(t))
		if n := utf8.RuneCountInString(term); n >= leastSpelled && n <= longestSpelled && analysis.Alphabetic(term) {
			same := &made[n]
			same.letters, same.terms = append(same.letters, lettersOf(term)), append(same.terms, t)
		}
	}
	s.speller.made.Store(made)
	return made
}

// lettersOf returns which letters a word has once (lower half) and at least twice (upper half). An
// insertion or deletion changes at most one bit, a substitution two, a transposition none.
func lettersOf(word string) (set uint64) {
	for _, r := range word {
		once := uint64(1) << (r & 31)
		set |= set & once << 32
		set |= once
	}
	return set
}
