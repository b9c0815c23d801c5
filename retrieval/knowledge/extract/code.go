package extract

import "strings"

// A Part is a stretch of source code that should stay whole: a declaration with
// the comment above it. It ends where the next one starts.
type Part struct {
	Start int    // in the text; of a line
	Name  string // of what is declared, as in "Reader.Close"; "" for none
	Head  string // the line that declares it, for parts of it to repeat
}

// Outline returns the parts of source code, from its start, without gaps. A part
// for which fits is false is taken apart along its members where it has some.
func Outline(lang, text string, fits func(text string) bool) (parts []Part) {
	// Hostile text must not be the end of the process.
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

// An outliner finds the declarations of a language by how its code looks: one
// starts at a line that is no deeper than its neighbours, outside of any bracket
// and string, and takes the comments and attributes right above it along.
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
	inside     bool // within a string or comment that began before it
	kind       lineKind
	name       string // of what it declares, once named
	named      bool
}

type lineKind uint8

const (
	plainLine   lineKind = iota
	leadLine             // a comment or an attribute: part of what follows
	closingLine          // ends what came before
)

// maxLines is how long source code is that somebody may have written.
const maxLines = 200_000

// maxNesting is how deep members are looked for: a class within a class.
const maxNesting = 3

// parts writes the parts of lines[from:to], which stand at the given depth in what
// prefix names.
func (o *outliner) parts(from, to, depth int, prefix string) {
	starts := o.starts(from, to)
	for i, at := range starts {
		end := to
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		sign := o.signature(at, end)
		name := o.name(sign)
		full := name
		if prefix != "" && name != "" {
			full = prefix + "." + name
		} else if name == "" {
			full = prefix
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

// members tells whether lines[from:to] hold declarations of their own, and where
// the first is.
func (o *outliner) members(from, to int) (first int, ok bool) {
	for _, at := range o.starts(from, to) {
		if o.declares(o.signature(at, to)) {
			return at, true
		}
	}
	return 0, false
}

// starts returns the lines of [from, to) at which parts start. The first line is
// always one of them.
func (o *outliner) starts(from, to int) (starts []int) {
	least := -1
	for _, l := range o.lines[from:to] {
		if l.indent >= 0 && !l.inside && l.kind != closingLine && (least < 0 || l.indent < least) {
			least = l.indent
		}
	}
	lead := -1    // where the comments above the next declaration start
	last := false // whether the last one declares something
	for i := from; i < to; i++ {
		l := o.lines[i]
		switch {
		case l.indent < 0 || l.indent > least && !l.inside:
			if l.indent < 0 {
				lead = -1 // a blank line parts a comment from what follows
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
		at := i
		if lead >= 0 {
			at, lead = lead, -1
		}
		if len(starts) == 0 {
			at = from
		} else if declared := o.declares(i); !declared && !last || o.lang == "sql" && !o.ended(at) {
			continue // statements and imports stay together
		}
		last = o.declares(i)
		starts = append(starts, at)
	}
	if len(starts) == 0 && from < to {
		starts = []int{from}
	}
	return starts
}

// signature returns the line of a part that declares it: the first one that is no
// comment and no attribute.
func (o *outliner) signature(from, to int) int {
	for i := from; i < to; i++ {
		if l := o.lines[i]; l.indent >= 0 && l.kind == plainLine && !l.inside {
			return i
		}
	}
	return from
}

func (o *outliner) lineText(i int) string { return o.text[o.lines[i].start:o.lines[i].end] }

// name returns the name of what a line declares, "" for nothing. Lines are asked
// once for each level on which they may start a part.
func (o *outliner) name(i int) string {
	l := &o.lines[i]
	if !l.named {
		l.name, l.named = nameOf(o.lang, o.lineText(i)), true
	}
	return l.name
}

func (o *outliner) declares(i int) bool { return o.name(i) != "" }

// ended tells whether the statement before line i has ended.
func (o *outliner) ended(i int) bool {
	return strings.HasSuffix(strings.TrimRight(o.text[:o.lines[i].start], " \t\n"), ";")
}
