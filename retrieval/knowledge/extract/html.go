package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// readHTML returns the main content of a page, as Markdown.
func readHTML(text string) (d Document, err error) {
	// A panic on hostile bytes must not end the process.
	defer func() {
		if recover() != nil {
			d, err = Document{}, errTangled
		}
	}()
	if err := checkMarkup(text); err != nil {
		return Document{}, err
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return Document{}, errDeep // html.Parse has no other error
	}
	p := newPage(root)
	text, name, err := render(p, p.main())
	if err != nil {
		return Document{}, err
	}
	return Document{Name: name, Text: text, Form: Markdown}, nil
}

// decodeHTML is decode for a page that may declare its own encoding.
func decodeHTML(raw []byte) (text, guess string, err error) {
	if e, name, certain := charset.DetermineEncoding(raw, ""); certain && name != "utf-8" && name != "utf-16le" && name != "utf-16be" && bytes.IndexByte(raw, 0) < 0 {
		if text, ok := decodeStrict(e, raw); ok {
			text, err = checked(text)
			return text, "", err
		}
	}
	return decode(raw)
}

var (
	errTangled = Brokenf("its HTML cannot be parsed")
	errDeep    = Brokenf("its tags are nested too deeply")
	errTags    = Brokenf("it has more than %d tags", maxTags)
)

const (
	// usualFormats is how many open formatting tags are not counted towards maxReopened.
	usualFormats = 8
	// maxReopened is the limit on elements that the parser creates by reopening formatting tags.
	maxReopened = 1 << 19
	// maxTags is the limit on a page's elements. Each takes some hundred bytes, and time
	// in proportion to its depth.
	maxTags = 250_000
)

// checkMarkup rejects pages that parse into far more elements than they have tags: a parser
// reopens unclosed formatting tags in each following paragraph, so a few hundred of them and a
// million paragraphs would not fit into memory.
func checkMarkup(text string) error {
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(len(text) + 1)
	open, reopened := map[atom.Atom]int{}, 0
	total, tags := 0, 0
	for tags < maxTags {
		switch z.Next() {
		case html.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return nil
			}
			return errTangled
		case html.SelfClosingTagToken:
			tags++
		case html.StartTagToken:
			tags++
			name, _ := z.TagName()
			if a := atom.Lookup(name); formatting(a) {
				open[a]++
				total++
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if a := atom.Lookup(name); open[a] > 0 {
				open[a]--
				total--
			}
		}
		if reopened += max(0, total-usualFormats); reopened > maxReopened {
			return errTangled
		}
	}
	return errTags
}

// formatting reports whether parsers reopen an element.
func formatting(a atom.Atom) bool {
	switch a {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U:
		return true
	}
	return false
}

// attr returns the value of an attribute of n; "" if it has none.
func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}
