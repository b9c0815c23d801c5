package analysis

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// Alphabetic reports whether a term consists of letters of a script with spaces: it may be a
// misspelled word. Numbers, identifiers and pairs of characters are not.
func Alphabetic(term string) bool {
	for _, r := range term {
		switch classOf(r) {
		case lower, upper, mark:
		default:
			return false
		}
	}
	return term != ""
}

// Pair returns the characters of a term that is a pair of characters; ok is false for others.
func Pair(term string) (first, second rune, ok bool) {
	first, n := utf8.DecodeRuneInString(term)
	if n < 3 || classOf(first) != spaceless || n == len(term) {
		return 0, 0, false
	}
	second, m := utf8.DecodeRuneInString(term[n:])
	return first, second, n+m == len(term)
}

// TermOf returns the term of a single word of letters, "" for a stop word.
func TermOf(word string) string {
	if len(word) > maxTerm {
		return ""
	}
	return termOf(word)
}

// WithEndings yields words of English whose term may be the given one.
func WithEndings(term string) iter.Seq[string] {
	return func(yield func(string) bool) {
		last := term[max(0, len(term)-1):]
		double := last != "" && last[0] < utf8.RuneSelf && !strings.Contains("aeiou", last)
		for ending := range strings.FieldsSeq(endings) {
			if !yield(term+ending) || double && !yield(term+last+ending) {
				return
			}
		}
	}
}

// endings are common endings that the stemmer removes.
const endings = "s es ed er ers ing ings ion ions ation ations ational e y ies ied al ally ly ment ments able ably ability " +
	"ive ives ively ance ances ence ences ant ants ent ents or ors ator ators ate ated ates ating ize ized izes izing ization izations " +
	"ity ities ic ical ically ness ful fully less ous ously ism ist ists ible ibly ibility ar ary ement ements"

// Edits returns the number of insertions, deletions, substitutions and transpositions of adjacent
// letters between two words, or most+1 if there are more (optimal string alignment, a restricted
// Damerau-Levenshtein distance). Words longer than a term have more.
func Edits(a, b string, most int) int {
	if len(a) > maxTerm || len(b) > maxTerm {
		return most + 1
	}
	for a != "" && b != "" { // equal ends need no edit
		r, n := utf8.DecodeRuneInString(a)
		if s, m := utf8.DecodeRuneInString(b); r != s || n != m {
			break
		}
		a, b = a[n:], b[n:]
	}
	for a != "" && b != "" {
		r, n := utf8.DecodeLastRuneInString(a)
		if s, m := utf8.DecodeLastRuneInString(b); r != s || n != m {
			break
		}
		a, b = a[:len(a)-n], b[:len(b)-n]
	}
	var roomA, roomB [maxTerm]rune
	return align(appendRunes(roomA[:0], a), appendRunes(roomB[:0], b), most)
}

func appendRunes(dst []rune, s string) []rune {
	for _, r := range s {
		dst = append(dst, r)
	}
	return dst
}

// align is Edits for words of at most maxTerm letters.
func align(a, b []rune, most int) int {
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	var rooms [3][maxTerm + 1]int
	above, last, row := &rooms[0], &rooms[1], &rooms[2] // of the matrix of prefixes
	for j := range b {
		last[j+1] = j + 1
	}
	for i := range a {
		row[0] = i + 1
		least := row[0]
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			n := min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, above[j-1]+1)
			}
			row[j+1] = n
			least = min(least, n)
		}
		if least > most {
			return most + 1
		}
		above, last, row = last, row, above
	}
	return min(last[len(b)], most+1)
}
