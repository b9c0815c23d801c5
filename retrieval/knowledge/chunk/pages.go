package chunk

import (
	"fmt"
	"strconv"
	"strings"
)

// Pages are headings below all others, such as "p. 12".
const pagePrefix = "p. "

// pagesOf returns the first and last page at the end of a heading path; ok is false if there is
// none.
func pagesOf(path []string) (first, last int, ok bool) {
	if len(path) == 0 {
		return 0, 0, false
	}
	numbers, ok := strings.CutPrefix(path[len(path)-1], pagePrefix)
	if !ok {
		return 0, 0, false
	}
	from, to, ranged := strings.Cut(numbers, "-")
	first, err := strconv.Atoi(from)
	if last = first; err == nil && ranged {
		last, err = strconv.Atoi(to)
	}
	return first, last, err == nil
}

// withoutPages returns a path without the pages at its end.
func withoutPages(path []string) []string {
	if _, _, ok := pagesOf(path); ok {
		return path[:len(path)-1]
	}
	return path
}

// withPages appends the pages of two merged chunks to the common part of their paths.
func withPages(shared, a, b []string) []string {
	first, _, inA := pagesOf(a)
	_, last, inB := pagesOf(b)
	if !inA || !inB || len(shared) == len(a) || len(shared) == len(b) {
		return shared
	}
	pages := pagePrefix + strconv.Itoa(first)
	if last > first {
		pages = fmt.Sprintf("%s-%d", pages, last)
	}
	return append(shared[:len(shared):len(shared)], pages)
}
