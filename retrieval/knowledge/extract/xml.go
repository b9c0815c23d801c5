package extract

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
)

// An xmlReader writes XML as lines such as "dependency.version: 1.10". Elements below the root that
// have parts are sections, repeated parts are paragraphs, and prose stands without the names of its
// elements. Comments are left out, as no program shows them.
type xmlReader struct {
	out   strings.Builder
	open  []*xmlElement
	prose bool // the text has headings and paragraphs of its own
	left  bool // the last heading is that of a section which has ended
}

type xmlElement struct {
	name   string
	label  string // name with the id, for people
	fields []string
	text   strings.Builder
	parent bool // it has elements that were written
	mixed  bool // elements in it are parts of its text
	headed bool
}

const (
	// maxXMLDepth is the nesting limit of elements.
	maxXMLDepth = 200
	// maxXMLTags is the limit on elements.
	maxXMLTags = 1_000_000
)

// readXML returns the text of an XML file. Entities that it defines stay names, which bounds its
// text; what can be read of a damaged file is returned with a *Broken.
func readXML(raw []byte) (Document, error) {
	text, _, err := decodeUnicodeXML(raw)
	if err != nil {
		return Document{}, err
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // it is decoded
	r := &xmlReader{}
	tags := 0
	for {
		t, err := dec.RawToken()
		switch {
		case errors.Is(err, io.EOF):
			err = nil
			if len(r.open) > 0 {
				err = Brokenf("its XML ends too early")
			}
			return r.document(), err
		case err != nil:
			line, _ := dec.InputPos()
			return r.document(), Brokenf("its XML is broken at line %d", line)
		case len(r.open) > maxXMLDepth:
			return r.document(), errDeep
		case r.out.Len() > MaxText:
			return Document{}, ErrTooMuchText
		case tags > maxXMLTags:
			return r.document(), Brokenf("it has more than %d tags", maxXMLTags)
		}
		switch t := t.(type) {
		case xml.StartElement:
			tags++
			r.start(t)
		case xml.EndElement:
			r.end(t.Name.Local)
		case xml.CharData:
			if n := len(r.open); n > 0 {
				r.open[n-1].text.Write(t)
			}
		}
	}
}

// decodeUnicodeXML decodes a file whose first line may name its encoding.
func decodeUnicodeXML(raw []byte) (text, guess string, err error) {
	first, _, _ := strings.Cut(string(raw[:min(len(raw), 200)]), "?>")
	if _, label, ok := strings.Cut(first, "encoding="); ok && strings.HasPrefix(first, "<?xml") && len(label) > 2 {
		label, _, _ = strings.Cut(label[1:], label[:1])
		if e, name := charset.Lookup(label); e != nil && name != "utf-8" && !strings.HasPrefix(name, "utf-16") {
			if text, ok := decodeStrict(e, raw); ok {
				text, err = checked(text)
				return text, "", err
			}
		}
	}
	return decode(raw)
}

func (r *xmlReader) document() Document {
	for len(r.open) > 0 {
		r.close()
	}
	form := Records
	if r.prose {
		form = Markdown
	}
	return Document{Text: strings.TrimSpace(r.out.String()) + "\n", Form: form}
}

func (r *xmlReader) start(t xml.StartElement) {
	e := &xmlElement{name: t.Name.Local, label: t.Name.Local}
	for _, a := range t.Attr {
		value := oneLine(strings.ReplaceAll(a.Value, "\x00", ""))
		switch {
		case value == "" || a.Name.Space == "xmlns" || a.Name.Local == "xmlns" || a.Name.Space == "xsi":
		case (a.Name.Local == "name" || a.Name.Local == "id" || a.Name.Local == "key") && e.label == e.name && len(value) <= maxHeader:
			e.label += " " + value
		default:
			e.fields = append(e.fields, a.Name.Local+": "+value)
		}
	}
	if n := len(r.open); n > 0 {
		up := r.open[n-1]
		e.mixed = up.mixed || isProse(e.name)
		if !up.mixed && !up.parent && strings.TrimSpace(up.text.String()) != "" {
			up.mixed, e.mixed = true, true
		}
		if !up.mixed {
			r.enter(e.name)
		}
	}
	r.open = append(r.open, e)
}

// isProse reports whether an element of DocBook, DITA, TEI and the like is a paragraph, whose parts
// are parts of its text.
func isProse(name string) bool {
	return slices.Contains([]string{"p", "para", "simpara", "title", "li", "term", "shortdesc", "programlisting", "codeblock", "cmd", "entry"}, name)
}

// enter writes the fields of the innermost element, and its heading if it is a section whose first
// part is no title.
func (r *xmlReader) enter(part string) {
	n := len(r.open)
	e := r.open[n-1]
	if e.parent {
		return
	}
	e.parent = true
	if n == 2 {
		if part != "title" {
			r.heading(2, e.label)
		}
		e.headed = true
	}
	for _, f := range e.fields {
		r.line(n, f)
	}
	e.fields = nil
	e.text.Reset()
}

func (r *xmlReader) heading(level int, text string) {
	r.left = false
	r.paragraph()
	r.out.WriteString(strings.Repeat("#", min(level, maxLevel)) + " " + oneLine(text) + "\n\n")
}

// line writes a field of the innermost of n elements. Those of the root after a section are in one
// that is named after it.
func (r *xmlReader) line(n int, text string) {
	if n == 1 && r.left {
		r.heading(2, r.open[0].label)
	}
	for i := 1; i < n; i++ {
		if !r.open[i].headed {
			r.out.WriteString(r.open[i].label + ".")
		}
	}
	r.out.WriteString(text + "\n")
}

// paragraph ends a paragraph.
func (r *xmlReader) paragraph() {
	if s := r.out.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		r.out.WriteByte('\n')
	}
}

// end closes the elements up to one of the given name, if there is one.
func (r *xmlReader) end(name string) {
	at := len(r.open) - 1
	for at >= 0 && r.open[at].name != name {
		at--
	}
	for at >= 0 && len(r.open) > at {
		r.close()
	}
}

// close writes the innermost element, unless its parts were.
func (r *xmlReader) close() {
	n := len(r.open)
	e := r.open[n-1]
	text := e.text.String()
	up := (*xmlElement)(nil)
	if n > 1 {
		up = r.open[n-2]
	}
	switch {
	case up != nil && up.mixed:
		up.text.WriteString(text)
	case e.parent:
		r.paragraph()
		r.left = r.left || e.headed
	case isProse(e.name) && n > 1:
		r.proseBlock(e.name, n, text)
	default:
		r.leaf(n-1, e, text)
	}
	r.open = r.open[:n-1]
}

// leaf writes an element without parts. depth is the number of elements around it; 0 is the root.
func (r *xmlReader) leaf(depth int, e *xmlElement, text string) {
	if strings.Contains(text, "</") { // HTML, as feeds have it
		if page, err := wholePage(text); err == nil {
			text = page
		}
	}
	text = foldLines(text)
	if depth == 0 {
		if text != "" {
			r.out.WriteString(text + "\n")
		}
		for _, f := range e.fields {
			r.out.WriteString(f + "\n")
		}
		return
	}
	fields := strings.Join(e.fields, ", ")
	if len(e.fields) == 1 {
		fields = strings.TrimPrefix(fields, "value: ")
	}
	switch {
	case text != "" && fields != "":
		r.line(depth, e.label+" ("+fields+"): "+text)
	case text != "" || fields != "":
		r.line(depth, e.label+": "+text+fields)
	case e.label != e.name:
		r.line(depth, e.label)
	}
}

// proseBlock writes a paragraph, a title or the like.
func (r *xmlReader) proseBlock(name string, depth int, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	r.prose = true
	r.paragraph()
	if up := r.open[depth-2].name; up == "listitem" {
		name = up
	}
	switch name {
	case "title":
		r.heading(depth-1, text)
	case "programlisting", "codeblock":
		r.out.WriteString(markdownListing("", strings.Trim(lineFeeds(text), "\n")) + "\n\n")
	case "li", "listitem":
		r.out.WriteString("- " + oneLine(text) + "\n\n")
	default:
		r.out.WriteString(markdownLiteral(oneLine(text)) + "\n\n")
	}
}
