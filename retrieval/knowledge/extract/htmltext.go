package extract

import (
	"cmp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxIndent is how many nested lists and quotes are indented; deeper ones have the indent of
	// the last.
	maxIndent = 6
	// maxCell is the most characters of a cell in a table of data; a table with longer cells is a
	// layout.
	maxCell = 1000
	// maxColumns is the limit on a cell's colspan.
	maxColumns = 32
)

// A renderer writes the visible content of a page as Markdown: headings, lists, tables, code,
// quotes. Link targets and emphasis are left out: they cost tokens and answer no question.
type renderer struct {
	page   *page
	top    *html.Node
	out    strings.Builder
	inline strings.Builder // the current paragraph
	indent []string        // prefix of lines for each open list and quote
	depth  int             // how many of them the previous block had
	marker string          // prefix of the first line of a list item; "" after that line
	tight  bool            // no blank line precedes that line
	glued  bool            // no blank line precedes the next block, which defines the previous term
	full   bool            // MaxText is exceeded

	headings []heading // those outside lists and quotes
}

// render returns the text and the title of a page; the title is "" if it is a heading in the text.
func render(p *page, top *html.Node) (text, title string, err error) {
	r := &renderer{page: p, top: top}
	if h := p.above(top); h != nil {
		r.heading(h)
	}
	r.block(top)
	r.flush()
	if r.full {
		return "", "", ErrTooMuchText
	}
	text, title = titled(r.out.String(), r.headings, p.title)
	return strings.TrimSpace(text) + "\n", title, nil
}

// above returns the heading of level 1 before the main content, if there is exactly one
// and the content has none.
func (p *page) above(top *html.Node) (found *html.Node) {
	for n := range p.root.Descendants() {
		if n.DataAtom != atom.H1 || oneLine(allText(n)) == "" {
			continue
		}
		if found != nil {
			return nil
		}
		found = n
	}
	for n := found; n != nil; n = n.Parent {
		if n == top {
			return nil
		}
	}
	return found
}

// block writes an element and its descendants.
func (r *renderer) block(n *html.Node) {
	if r.full || n.Type == html.CommentNode {
		return
	}
	if n.Type == html.TextNode {
		r.inline.WriteString(n.Data)
		return
	}
	if n.Type == html.ElementNode && (r.page.boilerplate(n, r.top) || ornament(n)) {
		return
	}
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		r.flush()
		r.heading(n)
	case atom.Pre:
		r.flush()
		r.code(n)
	case atom.Ul, atom.Ol:
		r.list(n)
	case atom.Dt:
		r.paragraph(n)
		r.glued = true
	case atom.Dd, atom.Dl:
		r.paragraph(n)
		r.glued = false
	case atom.Blockquote:
		r.within("> ", n)
	case atom.Table:
		r.flush()
		if !r.table(n) {
			r.children(n)
			r.flush()
		}
	case atom.Br:
		r.inline.WriteString(lineBreak)
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt:
		r.codeSpan(n)
	case atom.Sup, atom.Sub, atom.S, atom.Strike:
		r.inline.WriteString(r.mark(r.inline.String(), n))
	case atom.Img:
		if alt := oneLine(attr(n, "alt")); len(alt) >= minProse {
			r.inline.WriteString(" " + alt + " ")
		}
	case atom.Math:
		r.inline.WriteString(cmp.Or(attr(n, "alttext"), allText(n)))
	default:
		if inlineElement(n) {
			r.children(n)
			return
		}
		r.paragraph(n)
	}
}

// paragraph writes the children of n as a paragraph.
func (r *renderer) paragraph(n *html.Node) {
	r.flush()
	r.children(n)
	r.flush()
}

func (r *renderer) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		r.block(c)
	}
}

// inlineElement reports whether an element is part of a line.
func inlineElement(n *html.Node) bool {
	switch n.DataAtom {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Data, atom.Del, atom.Dfn, atom.Em, atom.Font, atom.I, atom.Ins,
		atom.Label, atom.Mark, atom.Nobr, atom.Q, atom.Rb, atom.Rp, atom.Rt, atom.Rtc, atom.Ruby, atom.S, atom.Small, atom.Span, atom.Strike, atom.Strong, atom.Sub,
		atom.Sup, atom.Time, atom.U, atom.Var, atom.Wbr, atom.Picture:
		return true
	}
	return strings.Contains(n.Data, "-") && !strings.Contains(n.Data, "content") // custom elements are mostly inline widgets
}

func (r *renderer) heading(n *html.Node) {
	if text := strings.TrimSpace(strings.TrimRight(oneLine(r.visible(n)), "¶#§ ")); text != "" {
		level := int(n.Data[1] - '0')
		line, bare := strings.Repeat("#", level)+" "+text, len(r.indent) == 0 && r.marker == ""
		r.lines(line)
		if bare {
			r.headings = append(r.headings, heading{at: r.out.Len() - len(line) - 1, level: level, text: text})
		}
	}
}

// visible returns the text of n without hidden parts and boilerplate.
func (r *renderer) visible(n *html.Node) string {
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(c *html.Node) {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(c.Data)
		case c.Type == html.ElementNode && (hidden(c) || ornament(c) || c != n && namedBoilerplate(c) && r.small(c)):
			return
		case c != n && marked(c):
			b.WriteString(r.mark(b.String(), c))
			return
		case c.DataAtom == atom.Br || c.Type == html.ElementNode && !inlineElement(c) && c.DataAtom != atom.Code:
			b.WriteByte(' ')
		}
		for c := c.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return b.String()
}

// small reports whether n is a label rather than a text.
func (r *renderer) small(n *html.Node) bool {
	s := r.page.stats[n]
	return s != nil && s.text < minProse
}

func (r *renderer) codeSpan(n *html.Node) {
	text := oneLine(r.visible(n))
	if text != "" && !strings.Contains(text, "`") {
		text = "`" + text + "`"
	}
	r.inline.WriteString(text)
}

// code writes a listing.
func (r *renderer) code(n *html.Node) {
	text := strings.Trim(allCode(n), "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	r.lines(markdownListing(listingLanguage(n), text))
}

// allCode is allText, but converts elements that are line breaks to line feeds.
func allCode(n *html.Node) string {
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.DataAtom == atom.Br:
			b.WriteByte('\n')
		case n.Type == html.ElementNode && hidden(n):
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return lineFeeds(b.String())
}

// listingLanguage returns the language of a listing, from the class names that highlighters give
// to it or to elements around it.
func listingLanguage(n *html.Node) string {
	nodes := []*html.Node{n, n.FirstChild, n.Parent}
	if n.Parent != nil {
		nodes = append(nodes, n.Parent.Parent)
	}
	for _, n := range nodes {
		if n == nil || n.Type != html.ElementNode {
			continue
		}
		for class := range strings.FieldsSeq(attr(n, "class")) {
			for _, prefix := range [...]string{"language-", "lang-", "highlight-source-", "highlight-"} {
				if name, ok := strings.CutPrefix(class, prefix); ok && isLanguage(name) {
					return name
				}
			}
		}
	}
	return ""
}
