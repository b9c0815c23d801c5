package office

import (
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// A flow collects the Markdown blocks of a document: paragraphs, headings, items and tables.
type flow struct {
	blocks  []block
	written int // bytes of their texts

	text   strings.Builder // of the current paragraph
	script string          // superscript or subscript; else the text is on the line
	raised strings.Builder // text that is not on the line

	tables int // open tables
	table  table
	cell   strings.Builder
	cells  int // in all tables
}

// The values of flow.script.
const (
	superscript = "superscript"
	subscript   = "subscript"
)

// A block is a paragraph, heading, item or table.
type block struct {
	text  string
	level int // of a heading; see style
	item  bool
}

// Limits on the parts of a document, which take memory even if they contain no text.
const (
	maxBlocks = 250_000
	maxCells  = 1_000_000
)

var errParts = extract.Brokenf("it has more than %d paragraphs or %d cells", maxBlocks, maxCells)

// check returns an error if a limit is exceeded.
func (f *flow) check() error {
	if f.written+f.table.size+f.text.Len()+f.raised.Len()+f.cell.Len() > extract.MaxText {
		return extract.ErrTooMuchText
	}
	if len(f.blocks) > maxBlocks || f.cells > maxCells {
		return errParts
	}
	return nil
}

// write adds text to the paragraph.
func (f *flow) write(text []byte) {
	to := &f.text
	if f.script == superscript || f.script == subscript {
		to = &f.raised
	}
	for _, c := range text {
		if c == '\r' {
			c = ' '
		}
		to.WriteByte(c)
	}
}

// endScript writes raised or lowered text so that it stays distinct from the text before it.
func (f *flow) endScript() {
	text := f.raised.String()
	f.raised.Reset()
	if f.script == subscript {
		text = extract.Subscript(text)
	} else {
		text = extract.Superscript(f.text.String(), text)
	}
	f.text.WriteString(text)
	f.script = ""
}

// take returns the text of the current paragraph and begins the next one. In a table it goes into
// the cell, and the result is "".
func (f *flow) take() string {
	f.endScript()
	text := strings.TrimSpace(f.text.String())
	f.text.Reset()
	if f.tables > 0 && text != "" {
		f.cell.WriteString(text + " ")
		return ""
	}
	return text
}

func (f *flow) heading(level int, text string) {
	f.block(block{text: strings.Join(strings.Fields(text), " "), level: level})
}

func (f *flow) plain(text string) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = extract.Literal(strings.TrimSpace(l))
	}
	f.block(block{text: strings.Join(lines, "\n")})
}

// maxListDepth is the depth up to which nested lists are indented.
const maxListDepth = 6

// item writes a list item with its bullet or number; depth is 0 in a list that is in no other.
func (f *flow) item(depth int, mark, text string) {
	indent := strings.Repeat("  ", min(depth, maxListDepth))
	f.block(block{text: indent + mark + " " + strings.ReplaceAll(text, "\n", "\n"+indent+"  "), item: true})
}

func (f *flow) block(b block) {
	f.blocks = append(f.blocks, b)
	f.written += len(b.text)
}

// maxLevel is the level of the smallest headings in Markdown.
const maxLevel = 6

// markdown returns the text. name is the title in the document's properties. A single heading of
// level 1 is the title if there is no other title; otherwise all headings are moved one level
// down.
func (f *flow) markdown(name string) string {
	titles, tops, top := 0, 0, ""
	for _, b := range f.blocks {
		switch b.level {
		case titleLevel:
			titles++
		case 1:
			tops, top = tops+1, b.text
		}
	}
	below := 1
	if titles == 0 && tops == 1 && (name == "" || name == top) {
		below = 0
	}
	var out strings.Builder
	for i, b := range f.blocks {
		if i > 0 && (!b.item || !f.blocks[i-1].item) { // no blank line between items
			out.WriteByte('\n')
		}
		switch {
		case b.level == titleLevel:
			out.WriteString("# ")
		case b.level > 0:
			out.WriteString(strings.Repeat("#", min(b.level+below, maxLevel)) + " ")
		}
		out.WriteString(b.text + "\n")
	}
	return out.String()
}
