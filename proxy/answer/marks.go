package answer

import (
	"cmp"
	"slices"
)

// A Mark is the byte range of an id's number in a text.
type Mark struct{ ID, From, To int }

// Marks returns the ids in the markers of a text, in order, whether or not they were given. There
// are at most 1,000.
func Marks(said string) (marks []Mark) {
	c := NewCitations(CitationOptions{SourceByID: func(int) (CitedSource, bool) { return CitedSource{}, true }})
	t := c.textOf(0)
	var starts []int // byte offsets of code points
	for i := range len(said) {
		if said[i]&0xc0 != 0x80 {
			starts = append(starts, i)
		}
		t.put(spot{b: said[i]})
	}
	t.finish()
	starts = append(starts, len(said))
	slices.SortStableFunc(t.added, func(a, b annotation) int { return cmp.Compare(a.start, b.start) })
	end := 0
	for _, p := range t.added {
		if p.start < end {
			continue // another id in the same marker
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
