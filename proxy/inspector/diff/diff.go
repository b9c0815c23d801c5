// Package diff compares two lists of lines in bounded time.
package diff

import "github.com/aymanbagabas/go-udiff/lcs"

// A Kind says in which of two lists lines are.
type Kind int

// The kinds.
const (
	Same Kind = iota // in both
	Deleted
	Inserted
)

// A Run is a run of lines of one kind, a subslice of the list that it is from.
type Run[L comparable] struct {
	Kind  Kind
	Lines []L
}

// Lines returns the runs that turn before into after. Deletions precede insertions at the same
// place. If the lists have little in common, it may return more changes than necessary: its time
// is limited, to some milliseconds for 64,000 lines.
func Lines[L comparable](before, after []L) (runs []Run[L]) {
	add := func(kind Kind, lines []L) {
		if len(lines) > 0 {
			runs = append(runs, Run[L]{kind, lines})
		}
	}
	numbers := make(map[L]rune, len(before)) // comparing numbers is faster
	number := func(lines []L) []rune {
		list := make([]rune, len(lines))
		for i, l := range lines {
			n, ok := numbers[l]
			if !ok {
				n = rune(len(numbers))
				numbers[l] = n
			}
			list[i] = n
		}
		return list
	}
	at := 0 // index in before
	for _, d := range lcs.DiffRunes(number(before), number(after)) {
		add(Same, before[at:d.Start])
		add(Deleted, before[d.Start:d.End])
		add(Inserted, after[d.ReplStart:d.ReplEnd])
		at = d.End
	}
	add(Same, before[at:])
	return runs
}
