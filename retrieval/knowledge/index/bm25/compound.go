package bm25

import (
	"bytes"
	"runtime"
	"strings"
	"unicode/utf8"
)

// mostBeginning is how many terms of a segment one call of Beginning visits.
const mostBeginning = 64

// A Budget limits the number of terms that some calls of Containing compare, so that a word costs
// no more than a millisecond.
type Budget struct {
	Masks   int // comparisons of the sets of letters, in 1 ns each
	Letters int // comparisons of the letters, in 50 ns each
}

// Containing calls visit with the alphabetic terms of live texts that contain a part, longer ones
// last, until visit returns false or the budget is spent; those of different segments may repeat.
// allow, unless nil, restricts the texts.
func (x *Index) Containing(part string, allow []Bitmap, b *Budget, visit func(term string) bool) {
	defer runtime.KeepAlive(x)
	length, letters, searched := utf8.RuneCountInString(part), lettersOf(part), []byte(part)
	for i := range x.views {
		v := &x.views[i]
		if allow != nil && (i >= len(allow) || len(allow[i]) == 0) {
			continue
		}
		spelled := v.segment.spellings()
		for n := max(leastSpelled, length); n <= longestSpelled; n++ {
			same := &spelled[n]
			for j, l := range same.letters[:min(len(same.letters), max(0, b.Masks))] {
				if l&letters != letters {
					continue
				}
				if b.Letters--; b.Letters < 0 {
					return
				}
				t := same.terms[j]
				term := v.segment.term(t)
				if bytes.Contains(term, searched) && v.hasAllowed(t, i, allow) && !visit(string(term)) {
					return
				}
			}
			b.Masks -= len(same.letters)
		}
	}
}

// Beginning calls visit with the terms of live texts that begin with a prefix, in order by segment,
// until visit returns false. allow, unless nil, restricts the texts.
func (x *Index) Beginning(prefix string, allow []Bitmap, visit func(term string) bool) {
	defer runtime.KeepAlive(x)
	for i := range x.views {
		v := &x.views[i]
		t, _ := v.segment.find(prefix)
		for end := min(int(t)+mostBeginning, v.segment.terms()); int(t) < end; t++ {
			term := string(v.segment.term(t))
			if !strings.HasPrefix(term, prefix) {
				break
			}
			if v.hasAllowed(t, i, allow) && !visit(term) {
				return
			}
		}
	}
}
