package extract

import (
	"cmp"
	"strings"
)

// A Part is a part of source code that should not be cut: a declaration with the comment above it.
// It ends where the next Part starts.
type Part struct {
	Start int    // offset of its first line
	Name  string // name of the declaration, as in "Reader.Close"; "" if it declares nothing
	Head  string // the declaring line, which pieces of the part repeat
}

// Outline divides source code into contiguous parts. A part for which fits returns false is
// divided at its members, if it has any.
func Outline(lang, text string, fits func(text string) bool) (parts []Part) {
	// A panic on hostile text must not end the process.
	defer func() {
		if recover() != nil {
			parts = []Part{{}}
		}
	}()
	if lang == "go" {
		if parts := goParts(text); parts != nil {
			return parts
		}
	}
	if strings.Count(text, "\n") > maxLines {
		return []Part{{}}
	}
	o := &outliner{lang: lang, text: text, fits: fits}
	o.scan()
	o.parts(0, len(o.lines), 0, "")
	return o.out
}

// An outliner finds declarations by the layout of the code. A declaration starts at a
// line that is not indented deeper than its neighbours and not inside brackets or a
// string. It includes the comments and attributes directly above it.
type outliner struct {
	lang  string
	text  string
	fits  func(text string) bool
	lines []line
	out   []Part
}

type line struct {
	start, end int
	indent     int  // -1 for a blank line
	inside     bool // it begins inside a string or comment
	kind       lineKind
}

type lineKind uint8

const (
	plainLine   lineKind = iota
	leadLine             // a comment or an attribute, which belongs to what follows
	closingLine          // it ends what came before
)

// maxLines is the number of lines up to which source code is divided; longer files are generated.
const maxLines = 200_000

// maxNesting is how many levels of members are searched, as in a class inside a class.
const maxNesting = 3

// parts adds the parts of lines[from:to], which are at the given depth inside the declaration
// named prefix.
func (o *outliner) parts(from, to, depth int, prefix string) {
	bounds := append(o.starts(from, to), to)
	for i, at := range bounds[:len(bounds)-1] {
		end := bounds[i+1]
		sign := o.signature(at, end)
		name := o.name(sign)
		full := cmp.Or(name, prefix)
		if prefix != "" && name != "" {
			full = prefix + "." + name
		}
		start := o.lines[at].start
		part := Part{Start: start, Name: full, Head: strings.TrimRight(o.lineText(sign), "\n") + "\n"}
		if depth < maxNesting && !o.fits(o.text[start:o.lines[end-1].end]) {
			if first, members := o.members(sign+1, end); members {
				o.out = append(o.out, part)
				o.parts(first, end, depth+1, full)
				continue
			}
		}
		o.out = append(o.out, part)
	}
}

// members reports whether lines[from:to] contain declarations, and where the first is.
func (o *outliner) members(from, to int) (first int, ok bool) {
	for _, at := range o.starts(from, to) {
		if o.declares(o.signature(at, to)) {
			return at, true
		}
	}
	return 0, false
}

// starts returns the lines in [from, to) at which parts start. The first is always from.
func (o *outliner) starts(from, to int) (starts []int) {
	least := -1
	for _, l := range o.lines[from:to] {
		if l.indent >= 0 && !l.inside && l.kind != closingLine && (least < 0 || l.indent < least) {
			least = l.indent
		}
	}
	lead := -1    // first line of the comments above the next declaration
	last := false // whether the last part declares something
	for i := from; i < to; i++ {
		l := o.lines[i]
		switch {
		case l.indent < 0 || l.indent > least && !l.inside:
			if l.indent < 0 {
				lead = -1 // a comment followed by a blank line does not belong to the next declaration
			}
			continue
		case l.inside || l.kind == closingLine:
			continue
		case l.kind == leadLine:
			if lead < 0 {
				lead = i
			}
			continue
		}
		at, declared := i, o.declares(i)
		if lead >= 0 {
			at, lead = lead, -1
		}
		if len(starts) == 0 {
			at = from
		} else if !declared && !last || o.lang == "sql" && !o.ended(at) {
			continue // statements and imports stay together
		}
		last = declared
		starts = append(starts, at)
	}
	if len(starts) == 0 && from < to {
		starts = []int{from}
	}
	return starts
}

// signature returns the declaring line of a part: the first that is neither a comment nor
// an attribute.
func (o *outliner) signature(from, to int) int {
	for i := from; i < to; i++ {
		if l := o.lines[i]; l.indent >= 0 && l.kind == plainLine && !l.inside {
			return i
		}
	}
	return from
}

func (o *outliner) lineText(i int) string { return o.text[o.lines[i].start:o.lines[i].end] }

// name returns the name that a line declares; "" if it declares nothing.
func (o *outliner) name(i int) string { return nameOf(o.lang, o.lineText(i)) }

func (o *outliner) declares(i int) bool { return o.name(i) != "" }

// ended reports whether the statement before line i ends with a semicolon.
func (o *outliner) ended(i int) bool {
	return strings.HasSuffix(strings.TrimRight(o.text[:o.lines[i].start], " \t\n"), ";")
}
