package extract

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The main content of a page is what the page itself marks as such (main, article, roles), or else
// the smallest element with nearly all of the prose. Within it, elements that consist of links, or
// whose name indicates site navigation, are left out. Names alone never remove most of a page,
// because pages too have names such as "has-sidebar".

const (
	// proseShare is the least share of the prose in the main element.
	proseShare = 0.85
	// minProse is the least length, in characters, of a text that is not a label.
	minProse = 25
	// linkShare is the share of text in links from which an element is navigation.
	linkShare = 0.6
	// minLinks is the least number of links in navigation.
	minLinks = 3
	// asideShare is the largest share of the prose that an element named as an aside may have to
	// be left out.
	asideShare = 0.2
)

// A page is a parsed document with the stats of its elements.
type page struct {
	root  *html.Node
	stats map[*html.Node]*stat
	title string
	mains []*html.Node // elements marked as main content
	parts []*html.Node // articles
}

// A stat counts the contents of an element, in characters of visible text.
type stat struct {
	text, linked int // total, and in links
	links        int
	prose        int // in texts of at least minProse, outside links
	blocks       int // lists, headings, code: they occur in a layout, but not in a data cell
	tables       int // including nested ones
}

func newPage(root *html.Node) *page {
	p := &page{root: root, stats: map[*html.Node]*stat{}}
	p.measure(root, false)
	return p
}

// measure computes the stats of n and its descendants. Hidden elements have none.
func (p *page) measure(n *html.Node, linked bool) stat {
	var s stat
	switch n.Type {
	case html.TextNode:
		length := utf8.RuneCountInString(strings.TrimSpace(n.Data))
		s.text = length
		switch {
		case linked:
			s.linked = length
		case length >= minProse:
			s.prose = length
		}
		return s
	case html.ElementNode:
		if hidden(n) {
			p.head(n)
			return s
		}
	}
	linked = linked || n.DataAtom == atom.A
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		s.add(p.measure(c, linked))
	}
	switch n.DataAtom {
	case atom.A:
		s.links++
	case atom.Table:
		s.tables++
	case atom.Ul, atom.Ol, atom.Pre, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Blockquote, atom.Dl:
		s.blocks++
	case atom.Article:
		p.parts = append(p.parts, n)
	}
	if n.DataAtom == atom.Main || attr(n, "role") == "main" {
		p.mains = append(p.mains, n)
	}
	p.stats[n] = &s
	return s
}

// head takes the title from the head of the page.
func (p *page) head(n *html.Node) {
	if n.DataAtom != atom.Head || n.Namespace != "" {
		return
	}
	for c := range n.ChildNodes() {
		if c.DataAtom == atom.Title && p.title == "" {
			p.title = oneLine(allText(c))
		}
	}
}

func (s *stat) add(o stat) {
	s.text += o.text
	s.linked += o.linked
	s.links += o.links
	s.prose += o.prose
	s.blocks += o.blocks
	s.tables += o.tables
}

// hidden reports whether an element is not shown as text, was deleted, or is marked as part of the
// site rather than the page.
func hidden(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Canvas, atom.Video, atom.Audio,
		atom.Button, atom.Input, atom.Select, atom.Textarea, atom.Datalist, atom.Nav, atom.Dialog, atom.Head, atom.Menu, atom.Map,
		atom.Del:
		return true
	}
	switch attr(n, "role") {
	case "navigation", "banner", "contentinfo", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar", "tablist":
		return true
	}
	if n.DataAtom == atom.Body || n.DataAtom == atom.Html {
		return false
	}
	hidden := slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" })
	return hidden && attr(n, "hidden") != "until-found" || attr(n, "aria-hidden") == "true" && n.DataAtom != atom.Span || invisible(n)
}

// main returns the element with the main content.
func (p *page) main() *html.Node {
	for _, candidates := range [][]*html.Node{p.mains, p.parts} {
		if n := p.most(candidates); n != nil {
			return p.descend(n)
		}
	}
	return p.descend(p.root)
}

// most returns the candidate with the most prose, if it has at least a third of it: some sites
// have a main element that contains only a heading.
func (p *page) most(candidates []*html.Node) (best *html.Node) {
	prose := 0
	for _, n := range candidates {
		if s := p.stats[n]; s.prose > prose {
			best, prose = n, s.prose
		}
	}
	if best == nil || prose*3 < p.stats[p.root].prose {
		return nil
	}
	return best
}

// descend returns the smallest element with nearly all of the prose of n.
func (p *page) descend(n *html.Node) *html.Node {
	whole := float64(p.stats[n].prose) * proseShare
	for whole > 0 {
		var next *html.Node
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if s := p.stats[c]; s != nil && float64(s.prose) >= whole && descendable(c) {
				next = c
			}
		}
		if next == nil || p.headed(n, next) {
			return n
		}
		n = next
	}
	return n
}

// headed reports whether n has a heading before child, which would be lost.
func (p *page) headed(n, child *html.Node) bool {
	for c := n.FirstChild; c != nil && c != child; c = c.NextSibling {
		if s := p.stats[c]; s != nil && !p.boilerplate(c, n) && hasHeading(c) {
			return true
		}
	}
	return false
}

func descendable(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Html, atom.Body, atom.Div, atom.Main, atom.Article, atom.Section, atom.Center, atom.Form, atom.Td, atom.Tr, atom.Tbody, atom.Table, atom.Span, atom.Font:
		return true
	}
	return n.DataAtom == 0 // custom elements
}

// hasHeading reports whether n is or contains a heading of level 1 or 2.
func hasHeading(n *html.Node) bool {
	for c := range n.Descendants() {
		if c.DataAtom == atom.H1 || c.DataAtom == atom.H2 {
			return true
		}
	}
	return n.DataAtom == atom.H1 || n.DataAtom == atom.H2
}

// boilerplate reports whether n, within the main content top, belongs to the site rather than the
// page.
func (p *page) boilerplate(n, top *html.Node) bool {
	s := p.stats[n]
	if s == nil || n == top {
		return s == nil
	}
	small := float64(s.prose) <= asideShare*float64(p.stats[top].prose)
	switch n.DataAtom {
	case atom.Footer:
		return small
	case atom.Aside, atom.Header:
		return small && (s.linked*2 > s.text || namedBoilerplate(n))
	case atom.Div, atom.Section, atom.Ul, atom.Ol, atom.Table, atom.Dl, atom.P, atom.Span, atom.Form, 0:
		linky := s.links >= minLinks && float64(s.linked) > linkShare*float64(s.text) && s.prose < 4*minProse
		return small && (namedBoilerplate(n) || linky && p.aside(top))
	case atom.A:
		return namedBoilerplate(n)
	}
	return false
}

// aside reports whether lists of links can be left out of top: on a page with hardly any prose the
// links are the content.
func (p *page) aside(top *html.Node) bool {
	s := p.stats[top]
	return s.prose > 20*minProse && s.linked*2 < s.text
}

// namedBoilerplate reports whether the class or id of an element marks it as boilerplate. Ids of
// sections are ignored, because they repeat the heading.
func namedBoilerplate(n *html.Node) bool {
	classes := strings.ToLower(attr(n, "class"))
	for name := range strings.FieldsSeq(classes) {
		if boilerplateName(name) {
			return true
		}
	}
	return n.DataAtom != atom.Section && !strings.Contains(classes, "section") && boilerplateName(strings.ToLower(attr(n, "id")))
}

// maxNameWords is the number of words up to which a name describes the purpose of an element;
// longer names describe its subject.
const maxNameWords = 3

// boilerplateName reports whether name is a common name of boilerplate. It matches whole words:
// "footer" in "page-footer", but not in "footnotes".
func boilerplateName(name string) bool {
	if name == "toc-backref" { // a heading that links to the table of contents
		return false
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == ':' })
	if len(words) > maxNameWords {
		return false
	}
	for _, word := range words {
		switch word {
		case "nav", "navbar", "navigation", "navbox", "menu", "sidebar", "breadcrumb", "breadcrumbs", "pagination", "pager", "footer", "cookie", "cookies",
			"consent", "share", "sharing", "social", "related", "recommended", "promo", "advert", "advertisement", "ads", "sponsor", "comments", "disqus",
			"toc", "newsletter", "subscribe", "headerlink", "permalink", "editsection", "catlinks", "printfooter", "jumplink", "noprint", "bottomnav",
			"hashlink", "skip", "masthead", "byline", "signup", "popup", "modal", "outbrain", "taboola", "sharedaddy", "vjs":
			return true
		}
	}
	return false
}

// ornament reports whether an element is a control or mark that documentation tools add to the
// text: a link to the heading itself or to its source, "Run", a tooltip.
func ornament(n *html.Node) bool {
	for class := range strings.FieldsSeq(attr(n, "class")) {
		switch class {
		case "test-arrow", "srclink", "viewcode-link", "viewcode-back", "notable-traits", "copybtn", "doc-anchor":
			return true
		case "src":
			return n.DataAtom == atom.A
		case "rightside", "out-of-band":
			return n.DataAtom == atom.Span
		}
	}
	if n.DataAtom != atom.A || n.FirstChild == nil {
		return false
	}
	text := oneLine(allText(n))
	return text != "" && strings.Trim(text, "¶§#ⓘ🔗") == ""
}

// allText returns the text of the descendants of n.
func allText(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// oneLine replaces each run of white space in s by a space, and trims it.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
