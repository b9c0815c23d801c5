// Package spelling guesses what a text that was not understood should have been.
package spelling

import (
	"regexp"
	"strings"
)

// DidYouMean returns "; did you mean X?" for the word that a typing error
// could have turned into s; "" where none is similar.
func DidYouMean(s string, words []string) string {
	best, least := "", min(3, len(s)/2+1)
	for _, w := range words {
		if d := distance(s, w); d < least {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// Ungrouped returns a number, with its unit, without the separators between groups of three
// digits; "" where the text is no such number.
func Ungrouped(text string) string {
	if !regexp.MustCompile(`^[0-9]{1,3}([,_' ][0-9]{3})+[ A-Za-z]*$`).MatchString(text) {
		return ""
	}
	return strings.NewReplacer(",", "", "_", "", "'", "", " ", "").Replace(text)
}

// WriteIt says how to write a number that was not understood.
func WriteIt(text, otherwise string) string {
	if plain := Ungrouped(text); plain != "" {
		return "write " + plain
	}
	return "write it as in " + otherwise
}
