package inspector

import (
	"cmp"
	"fmt"
	"slices"

	"sidenote/rewrite"
)

// A sideRow compares a source in two requests.
type sideRow struct {
	Before, After *rewrite.SourceEntry // nil if it was not found
	Change        string               // in words; "" if there is none
}

// Source returns the entry that identifies the source.
func (r *sideRow) Source() *rewrite.SourceEntry { return cmp.Or(r.After, r.Before) }

// A place identifies a source.
type place struct {
	knowledge, doc string
	chunk          int
}

func placeOf(s *rewrite.SourceEntry) place { return place{s.Knowledge, s.Doc, s.Chunk} }

// alignRows returns a row for each source in either list: first those in the prompt of after, in
// its order, then those in the prompt of before, then the others in the order of the lists. If a
// list has a source twice, its first entry is used.
func alignRows(before, after []rewrite.SourceEntry) []sideRow {
	index := make(map[place]int, len(before)+len(after))
	var rows []sideRow
	row := func(s *rewrite.SourceEntry) *sideRow {
		at, ok := index[placeOf(s)]
		if !ok {
			at = len(rows)
			index[placeOf(s)], rows = at, append(rows, sideRow{})
		}
		return &rows[at]
	}
	for i := range after {
		if r := row(&after[i]); r.After == nil {
			r.After = &after[i]
		}
	}
	for i := range before {
		if r := row(&before[i]); r.Before == nil {
			r.Before = &before[i]
		}
	}
	for i := range rows {
		rows[i].Change = change(rows[i].Before, rows[i].After)
	}
	slices.SortStableFunc(rows, func(a, b sideRow) int {
		return cmp.Or(byID(a.After, b.After), byID(a.Before, b.Before))
	})
	return rows
}

// byID orders the sources in the prompt by their ids, before those that are not in it.
func byID(a, b *rewrite.SourceEntry) int {
	x, y := id(a), id(b)
	if (x > 0) != (y > 0) {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(x, y)
}

func id(s *rewrite.SourceEntry) int {
	if s == nil {
		return 0
	}
	return s.ID
}

// change describes how the result for a source has changed.
func change(before, after *rewrite.SourceEntry) string {
	switch was, is := id(before), id(after); {
	case was == 0 && is > 0 && before == nil:
		return "new"
	case was == 0 && is > 0:
		return "now in"
	case was > 0 && after == nil:
		return "gone"
	case was > 0 && is == 0:
		return "now out"
	case before == nil:
		return "found now"
	case after == nil:
		return "not found now"
	case before.Inclusion != after.Inclusion:
		return "now " + string(after.Inclusion)
	case was != is:
		return fmt.Sprintf("[%d] is [%d]", was, is)
	case before.Tokens > after.Tokens:
		return "shorter"
	case before.Tokens < after.Tokens:
		return "longer"
	}
	return ""
}
