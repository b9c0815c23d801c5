// Package similar guesses the intended word for a misspelled one.
package similar

// mostEdits is the maximum number of edits in a misspelled word; in a short word, half its
// length.
const mostEdits = 2

// Word returns the word that s is most likely a misspelling of: the first of the nearest ones, ""
// if none is near.
func Word(s string, words []string) string {
	best, least := "", min(mostEdits+1, len(s)/2+1)
	for _, w := range words {
		if d := distance(s, w, least); d < least {
			best, least = w, d
		}
	}
	return best
}

// maxWord is the length of the longest word compared, in bytes.
const maxWord = 64

// distance counts the insertions, deletions, substitutions and swaps of adjacent letters that
// turn a into b (optimal string alignment). It returns enough if there are at least that many.
func distance(a, b string, enough int) int {
	if len(a) > maxWord || len(b) > maxWord || max(len(a), len(b))-min(len(a), len(b)) >= enough {
		return enough
	}
	var rows [3][maxWord + 1]int
	before, last, row := rows[0][:len(b)+1], rows[1][:len(b)+1], rows[2][:len(b)+1]
	for j := range row {
		row[j] = j
	}
	leastBefore := 0
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if min(least, leastBefore) >= enough { // swaps look two rows back
			return enough
		}
		leastBefore = least
	}
	return row[len(b)]
}
