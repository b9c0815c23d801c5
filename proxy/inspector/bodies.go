package inspector

import (
	"fmt"
	"slices"

	"sidenote/proxy/explain"
)

const (
	maxLine    = 2000 // bytes of a line that are shown
	maxIndent  = 8    // levels that are told apart
	beside     = 3    // unchanged lines that are shown beside changed ones
	leastFold  = 4    // fewer unchanged lines are shown at once
	lineMarkup = 64   // bytes around a line in the page, at most, and around what is said of its rest
)

// A room is how many bytes of lines a page has left.
type room int

// take takes room for n bytes. Where there is none, it takes all that is left, so that
// nothing shorter is shown behind what has no room.
func (r *room) take(n int) bool {
	if *r < room(n) {
		*r = 0
		return false
	}
	*r -= room(n)
	return true
}

// part makes a part of a page, which has limit bytes at most.
func (r *room) part(limit room, do func(*room)) {
	part := min(limit, *r)
	*r -= part
	do(&part)
	*r += part
}

// pageSize is how many bytes a text that is visible takes in a page.
func pageSize(text string) (n int) {
	for _, c := range text {
		n += shownSize(c)
	}
	return n
}

// A stretch is lines of a text, or of two that are compared.
type stretch struct {
	Kind  string // "same", "gone", "new" or "missing"
	Fold  bool   // they are shown when somebody asks for them
	Lines []shownLine
	Left  int    // lines for which there is no room
	What  string // of "missing": what it is

	all []layoutLine
}

// Len is how many lines there are.
func (s *stretch) Len() int { return len(s.all) }

// A shownLine is a line of a stretch.
type shownLine struct {
	longText
	Class string // of its indentation, and of what is quoted
}

// fill makes lines for as many as there is room.
func (r *room) fill(s *stretch, whole string) {
	for i, l := range s.all {
		shown := shownLine{cutAt(l.Text, whole, maxLine), fmt.Sprint("d", min(l.Indent, maxIndent))}
		switch {
		case l.Missing > 0:
			shown.Text = fmt.Sprintf("… %s bytes are not kept …", count(l.Missing))
		case l.Missing < 0:
			shown.Text = "… the rest is not kept …"
		case l.Quoted:
			shown.Class += " quoted"
		}
		size := lineMarkup + pageSize(shown.Text)
		if shown.More > 0 {
			size += lineMarkup
		}
		if !r.take(size) {
			s.Left = len(s.all) - i
			return
		}
		s.Lines = append(s.Lines, shown)
	}
}

// linesOf lays out what is kept of a body.
func linesOf(b *explain.Body) []layoutLine {
	head, tail, missing := b.Ends()
	if missing != 0 {
		return layoutEnds(head, tail, missing)
	}
	return layoutLines(head)
}

// text shows a body by itself.
func (r *room) text(b *explain.Body, whole string) []stretch {
	switch {
	case b == nil:
		return nil
	case *r < lineMarkup:
		return []stretch{{Kind: "missing", What: "there is no room for this text here, but in the JSON"}}
	}
	s := stretch{Kind: "same", all: linesOf(b)}
	r.fill(&s, whole)
	return []stretch{s}
}

// compare shows what became of a body. What changed has room first.
func (r *room) compare(before, after *explain.Body, whole string) []stretch {
	list := stretches(diffLines(linesOf(before), linesOf(after)))
	for _, first := range [...]func(*stretch) bool{
		func(s *stretch) bool { return s.Kind != "same" }, func(s *stretch) bool { return s.Kind == "same" && !s.Fold }, func(s *stretch) bool { return s.Fold },
	} {
		for i := range list {
			if first(&list[i]) {
				r.fill(&list[i], whole)
			}
		}
	}
	return list
}

// stretches folds what is far from changes, and leaves out what cannot be compared.
func stretches(runs []diffRun[layoutLine]) (list []stretch) {
	for i := 0; i < len(runs); i++ {
		if runs[i].Kind == diffSame {
			list = append(list, unchanged(runs[i].Lines, i == 0, i == len(runs)-1)...)
			continue
		}
		from := i
		for i+1 < len(runs) && runs[i+1].Kind != diffSame {
			i++
		}
		changed := runs[from : i+1]
		if what := besideMissing(changed); what != "" {
			list = append(list, stretch{Kind: "missing", What: what})
			continue
		}
		for _, run := range changed {
			list = append(list, stretch{Kind: map[diffKind]string{diffDeleted: "gone", diffInserted: "new"}[run.Kind], all: run.Lines})
		}
	}
	return list
}

// unchanged shows the lines beside changes, and folds the others.
func unchanged(lines []layoutLine, first, last bool) (list []stretch) {
	from, to := min(beside, len(lines)), max(len(lines)-beside, 0)
	if first {
		from = 0
	}
	if last {
		to = len(lines)
	}
	if to-from < leastFold {
		return []stretch{{Kind: "same", all: lines}}
	}
	for _, part := range [...]stretch{{all: lines[:from]}, {all: lines[from:to], Fold: true}, {all: lines[to:]}} {
		if part.Kind = "same"; len(part.all) > 0 {
			list = append(list, part)
		}
	}
	return list
}

// besideMissing says what is missing among lines that changed: there it is that, and nothing of
// ours, that makes them differ. It is "" if nothing is.
func besideMissing(runs []diffRun[layoutLine]) (what string) {
	for _, run := range runs {
		i := slices.IndexFunc(run.Lines, func(l layoutLine) bool { return l.Missing != 0 })
		if i < 0 {
			continue
		}
		lost := "the rest"
		if n := run.Lines[i].Missing; n > 0 {
			lost = count(n) + " bytes"
		}
		if what != "" {
			what += ", and "
		}
		what += lost + map[diffKind]string{diffDeleted: " of what came", diffInserted: " of what was sent"}[run.Kind]
	}
	if what != "" {
		what += " are not kept, and the lines beside them are not compared"
	}
	return what
}
