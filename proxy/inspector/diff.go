package inspector

import "github.com/aymanbagabas/go-udiff/lcs"

// A LineKind says in which of two lists lines are.
type LineKind int

// The kinds.
const (
	Same LineKind = iota // in both
	Deleted
	Inserted
)

// A LineRun is a run of lines of one kind, a subslice of the list that it is from.
type LineRun[L comparable] struct {
	Kind  LineKind
	Lines []L
}

// DiffLines returns the runs that turn before into after. Deletions precede insertions at the same
// place. If the lists have little in common, it may return more changes than necessary: its time
// is limited, to some milliseconds for 64,000 lines.
func DiffLines[L comparable](before, after []L) (runs []LineRun[L]) {
	add := func(kind LineKind, lines []L) {
		if len(lines) > 0 {
			runs = append(runs, LineRun[L]{kind, lines})
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
