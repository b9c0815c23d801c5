package extract

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// flush writes the current paragraph.
func (r *renderer) flush() {
	text := r.inline.String()
	r.inline.Reset()
	var lines []string
	for part := range strings.SplitSeq(text, lineBreak) {
		if line := oneLine(part); line != "" {
			lines = append(lines, markdownLiteral(line))
		}
	}
	if len(lines) > 0 {
		r.lines(strings.Join(lines, "\n"))
	}
}

// lineBreak marks a <br> until its paragraph is written. Texts contain no zero bytes.
const lineBreak = "\x00"

// lines writes one block.
func (r *renderer) lines(text string) {
	prefix := strings.Join(r.indent, "")
	if r.out.Len() > 0 && !r.glued && (r.marker == "" || !r.tight) {
		shared := strings.Join(r.indent[:min(r.depth, len(r.indent))], "")
		r.out.WriteString(strings.TrimRight(shared, " "))
		r.out.WriteByte('\n')
	}
	r.depth, r.glued = len(r.indent), false
	for line := range strings.Lines(text) {
		start := prefix
		if r.marker != "" {
			start, r.marker = r.marker, ""
		}
		r.out.WriteString(strings.TrimRight(start+line, " \t\n"))
		r.out.WriteByte('\n')
	}
	r.full = r.full || r.out.Len() > MaxText
}

// list writes a list. Items follow each other without blank lines, also in nested lists; other
// blocks have a blank line before them.
func (r *renderer) list(n *html.Node) {
	r.flush()
	number, _ := strconv.Atoi(attr(n, "start"))
	number = max(number, 1)
	nested := n.Parent != nil && n.Parent.DataAtom == atom.Li
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom != atom.Li {
			r.block(c)
			continue
		}
		marker := "- "
		if n.DataAtom == atom.Ol {
			marker = strconv.Itoa(number) + ". "
			number++
		}
		r.item(c, marker, nested)
		nested = true
	}
	r.flush()
}

func (r *renderer) item(n *html.Node, marker string, tight bool) {
	r.flush()
	before := strings.Join(r.indent, "")
	if r.marker != "" && len(r.indent) < maxIndent {
		before = r.marker // the item begins with a list
	} else {
		r.tight = tight
	}
	r.marker = before + marker
	r.within(strings.Repeat(" ", len(marker)), n)
	r.marker = ""
}

// within writes the children of n with prefix before each line.
func (r *renderer) within(prefix string, n *html.Node) {
	r.flush()
	if len(r.indent) < maxIndent {
		r.depth = min(r.depth, len(r.indent))
		r.indent = append(r.indent, prefix)
		defer func() { r.indent = r.indent[:len(r.indent)-1] }()
	}
	r.children(n)
	r.flush()
}

// Literal escapes a line of text, see markdownLiteral.
func Literal(line string) string { return markdownLiteral(line) }

// Table returns a Markdown table, see markdownTable.
func Table(rows [][]string) string { return markdownTable(rows) }
