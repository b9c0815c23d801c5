package extract

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// What is main on a page is told as a reader would tell it without its styles. The
// page's own word comes first (main, article, roles, what is hidden); else it is
// the smallest element with nearly all of the prose. Within it goes what is made
// of links, or says by its name that it is about the site and not the subject.
// Names alone never remove most of a page: "has-sidebar" is a name of pages too.

const (
	// proseShare is the part of the prose that the main element has at least.
	proseShare = 0.85
	// minProse is how long a text is, in characters, that is not a label.
	minProse = 25
	// linkShare is the part of a text in links from which on it is navigation.
	linkShare = 0.6
	// minLinks is how many links navigation has at least.
	minLinks = 3
	// asideShare is how much of the prose that is called an aside may be one.
	asideShare = 0.2
)

// A page is a parsed document with what is known of its elements.
type page struct {
	root  *html.Node
	stats map[*html.Node]*stat
	title string
	mains []*html.Node // elements that say they are the main content
	parts []*html.Node // articles
}

// A stat is what an element holds, in characters, of what is shown.
type stat struct {
	text, linked int // of it in links
	links        int
	prose        int // in texts that are long enough, outside links
	blocks       int // lists, headings, code: what a layout holds and a cell does not
	tables       int // within it
}

func newPage(root *html.Node) *page {
	p := &page{root: root, stats: map[*html.Node]*stat{}}
	p.measure(root, false)
	return p
}

// measure fills in the stats of n and what is below. What is not shown has none.
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
		if n.DataAtom == atom.Title && p.title == "" && n.Namespace == "" {
			p.title = oneLine(allText(n))
		}
		if hidden(n) {
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

func (s *stat) add(o stat) {
	s.text += o.text
	s.linked += o.linked
	s.links += o.links
	s.prose += o.prose
	s.blocks += o.blocks
	s.tables += o.tables
}

// hidden tells whether an element is not to be read as text by anybody, or is by
// its own word about the site.
func hidden(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Canvas, atom.Video, atom.Audio,
		atom.Button, atom.Input, atom.Select, atom.Textarea, atom.Datalist, atom.Nav, atom.Dialog, atom.Head, atom.Menu, atom.Map:
		return true
	}
	switch attr(n, "role") {
	case "navigation", "banner", "contentinfo", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar", "tablist":
		return true
	}
	if n.DataAtom == atom.Body || n.DataAtom == atom.Html {
		return false
	}
	style := strings.ReplaceAll(strings.ToLower(attr(n, "style")), " ", "")
	return hasAttr(n, "hidden") && attr(n, "hidden") != "until-found" || attr(n, "aria-hidden") == "true" && n.DataAtom != atom.Span ||
		strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

// main returns the element with the main content.
func (p *page) main() *html.Node {
	body := p.root
	for _, candidates := range [][]*html.Node{p.mains, p.parts} {
		if n := p.most(candidates, body); n != nil {
			return p.descend(n)
		}
	}
	return p.descend(body)
}

// most returns the candidate that holds most of the prose of all, if it holds a
// fair part: some sites have a main element with nothing but a heading in it.
func (p *page) most(candidates []*html.Node, all *html.Node) (best *html.Node) {
	prose := 0
	for _, n := range candidates {
		if s := p.stats[n]; s.prose > prose {
			best, prose = n, s.prose
		}
	}
	if best == nil || prose*3 < p.stats[all].prose {
		return nil
	}
	return best
}

// descend returns the smallest element that holds nearly all of the prose of n.
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

// headed tells whether n has a heading that would be lost below, in child.
func (p *page) headed(n, child *html.Node) bool {
	for c := n.FirstChild; c != nil && c != child; c = c.NextSibling {
		if s := p.stats[c]; s != nil && !p.boilerplate(c, n) && findHeading(c) != nil {
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
	return n.DataAtom == 0 // elements of a site's own
}

// findHeading returns the first heading of level 1 or 2 in n.
func findHeading(n *html.Node) *html.Node {
	if n.DataAtom == atom.H1 || n.DataAtom == atom.H2 {
		return n
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if h := findHeading(c); h != nil {
			return h
		}
	}
	return nil
}

// boilerplate tells whether n, within the main content top, is about the site.
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

// aside tells whether a list of links can be an aside of top: where there is
// hardly any prose, the links are what the page is about.
func (p *page) aside(top *html.Node) bool {
	s := p.stats[top]
	return s.prose > 20*minProse && s.linked*2 < s.text
}

// namedBoilerplate tells by class and id whether an element is about the site. The
// id of a section is its heading in other letters, and says what it is about.
func namedBoilerplate(n *html.Node) bool {
	classes := strings.ToLower(attr(n, "class"))
	for name := range strings.FieldsSeq(classes) {
		if boilerplateName(name) {
			return true
		}
	}
	return n.DataAtom != atom.Section && !strings.Contains(classes, "section") && boilerplateName(strings.ToLower(attr(n, "id")))
}

// maxNameWords is how many words a name has at most that says what an element is
// for; longer ones say what it is about.
const maxNameWords = 3

// boilerplateName knows the names that frameworks and authors agree on. Each is
// matched as a word of a name: "page-footer", never "footnotes".
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

// name returns the page's title, unless the content has a heading that serves as one.
func (p *page) name(markdown string) string {
	for line := range strings.Lines(markdown) {
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			if strings.TrimSpace(heading) != "" {
				return ""
			}
		}
	}
	return p.title
}

// allText returns the text of n and what is below.
func allText(n *html.Node) string {
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return b.String()
}

// oneLine puts blanks for all white space in s, and none around it.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
