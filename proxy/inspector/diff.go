package inspector

import "github.com/aymanbagabas/go-udiff/lcs"

// A diffKind says in which of two lists lines are.
type diffKind int

// The kinds.
const (
	diffSame diffKind = iota // in both
	diffDeleted
	diffInserted
)

// A diffRun is a run of lines of one kind, a subslice of the list that it is from.
type diffRun[L comparable] struct {
	Kind  diffKind
	Lines []L
}

// diffLines returns the runs that turn before into after. Deletions precede insertions at the same
// place. If the lists have little in common, it may return more changes than necessary: its time
// is limited, to some milliseconds for 64,000 lines.
func diffLines[L comparable](before, after []L) (runs []diffRun[L]) {
	add := func(kind diffKind, lines []L) {
		if len(lines) > 0 {
			runs = append(runs, diffRun[L]{kind, lines})
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
		add(diffSame, before[at:d.Start])
		add(diffDeleted, before[d.Start:d.End])
		add(diffInserted, after[d.ReplStart:d.ReplEnd])
		at = d.End
	}
	add(diffSame, before[at:])
	return runs
}
