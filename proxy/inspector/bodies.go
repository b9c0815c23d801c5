package inspector

import (
	"fmt"
	"slices"

	"sidenote/proxy/explain"
)

const (
	maxLine    = 2000 // bytes of a line that are shown
	maxIndent  = 8    // levels that are distinguished
	beside     = 3    // unchanged lines shown next to changes
	leastFold  = 4    // fewer unchanged lines are not folded
	lineMarkup = 64   // maximum bytes of HTML around a line, and around the note on its rest
)

// A room is the number of bytes left in a page.
type room int

// take takes n bytes. If they are not available, it takes the rest, so that nothing shorter is
// shown after something that did not fit.
func (r *room) take(n int) bool {
	if *r < room(n) {
		*r = 0
		return false
	}
	*r -= room(n)
	return true
}

// part calls do with at most limit bytes of the room.
func (r *room) part(limit room, do func(*room)) {
	part := min(limit, *r)
	*r -= part
	do(&part)
	*r += part
}

// pageSize returns the number of bytes that a text takes in a page when made visible.
func pageSize(text string) (n int) {
	for _, c := range text {
		n += shownSize(c)
	}
	return n
}

// A stretch is a run of lines of a text, or of a comparison of two.
type stretch struct {
	Kind  string // "same", "gone", "new" or "missing"
	Fold  bool   // collapsed until the user opens it
	Lines []shownLine
	Left  int    // lines that did not fit
	What  string // for "missing": what is missing

	all []layoutLine
}

// Len returns the number of lines.
func (s *stretch) Len() int { return len(s.all) }

// A shownLine is a line of a stretch.
type shownLine struct {
	longText
	Class string // CSS classes for indentation and quoted text
}

// fill adds as many lines as fit.
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

// text shows a single body.
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

// compare shows the changes of a body. Changed lines get room first.
func (r *room) compare(before, after *explain.Body, whole string) []stretch {
	list := stretches(DiffLines(linesOf(before), linesOf(after)))
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

// stretches folds lines far from changes, and leaves out what cannot be compared.
func stretches(runs []LineRun[layoutLine]) (list []stretch) {
	for i := 0; i < len(runs); i++ {
		if runs[i].Kind == Same {
			list = append(list, unchanged(runs[i].Lines, i == 0, i == len(runs)-1)...)
			continue
		}
		from := i
		for i+1 < len(runs) && runs[i+1].Kind != Same {
			i++
		}
		changed := runs[from : i+1]
		if what := besideMissing(changed); what != "" {
			list = append(list, stretch{Kind: "missing", What: what})
			continue
		}
		for _, run := range changed {
			list = append(list, stretch{Kind: map[LineKind]string{Deleted: "gone", Inserted: "new"}[run.Kind], all: run.Lines})
		}
	}
	return list
}

// unchanged shows the lines next to changes, and folds the others.
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

// besideMissing describes what is missing among changed lines; "" if nothing is. Such lines differ
// because of what is missing, not because of Sidenote.
func besideMissing(runs []LineRun[layoutLine]) (what string) {
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
		what += lost + map[LineKind]string{Deleted: " of what came", Inserted: " of what was sent"}[run.Kind]
	}
	if what != "" {
		what += " are not kept, and the lines beside them are not compared"
	}
	return what
}
