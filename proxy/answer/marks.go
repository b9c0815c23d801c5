package answer

import (
	"cmp"
	"slices"
)

// A Mark is where the number of an id stands in a text, in bytes.
type Mark struct{ ID, From, To int }

// Marks returns the ids in the markers of a text, in its order; whether they were given is not
// asked. There are at most 1,000.
func Marks(said string) (marks []Mark) {
	c := NewCitations(CitationOptions{Given: func(int) (CitedSource, bool) { return CitedSource{}, true }})
	t := c.textOf(0)
	var starts []int // of code points, in bytes
	for i := range len(said) {
		if said[i]&0xc0 != 0x80 {
			starts = append(starts, i)
		}
		t.put(spot{b: said[i]})
	}
	t.finish()
	starts = append(starts, len(said))
	slices.SortStableFunc(t.added, func(a, b placed) int { return cmp.Compare(a.start, b.start) })
	end := 0
	for _, p := range t.added {
		if p.start < end {
			continue // another id of the same marker
		}
		end = p.end
		for m := range markersIn(said[starts[p.start]:starts[p.end]]) {
			for _, id := range m.ids {
				from := starts[p.start] + m.from
				marks = append(marks, Mark{id.number, from + id.from, from + id.to})
			}
		}
	}
	return marks
}
