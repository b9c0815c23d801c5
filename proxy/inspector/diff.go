package inspector

import "github.com/aymanbagabas/go-udiff/lcs"

// A diffKind says in which of the two lists lines stand.
type diffKind int

// The kinds.
const (
	diffSame diffKind = iota // in both
	diffDeleted
	diffInserted
)

// A diffRun is a stretch of lines of one kind, a part of the list that it is from.
type diffRun[L comparable] struct {
	Kind  diffKind
	Lines []L
}

// diffLines returns what becomes of before, in its order, so that it is after. Deletions stand
// before insertions at the same place. Where the lists have little in common it may find more
// changes than there need be: its time is bounded, to some milliseconds for 64,000 lines.
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
	at := 0 // of before
	for _, d := range lcs.DiffRunes(number(before), number(after)) {
		add(diffSame, before[at:d.Start])
		add(diffDeleted, before[d.Start:d.End])
		add(diffInserted, after[d.ReplStart:d.ReplEnd])
		at = d.End
	}
	add(diffSame, before[at:])
	return runs
}
