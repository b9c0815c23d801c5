package child

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// maxUnpacked bounds what a DOCX may unpack to, all parts that are read together.
const maxUnpacked = 128 << 20

var (
	errNoDOCX   = extract.Brokenf("it is no DOCX, or broken")
	errUnpacked = extract.Brokenf("it unpacks to more than %d MB", maxUnpacked>>20)
)

// readDOCX returns the text of a document as Markdown: headings by their styles,
// lists, tables. What was deleted with changes tracked is not part of it.
func readDOCX(r *bytes.Reader) (extract.Document, error) {
	z, err := zip.NewReader(r, r.Size())
	if err != nil {
		return extract.Document{}, errNoDOCX
	}
	a := &archive{files: map[string]*zip.File{}, left: maxUnpacked}
	for _, f := range z.File {
		a.files[f.Name] = f
	}
	part := a.files[documentPart]
	if part == nil {
		return extract.Document{}, errNoDOCX
	}
	if part.UncompressedSize64 > maxUnpacked { // no more than it says is unpacked
		return extract.Document{}, errUnpacked
	}
	w := &writer{levels: map[string]int{}}
	s := &styles{levels: w.levels, names: map[string]string{}, based: map[string]string{}}
	if err := a.each("word/styles.xml", s.token); err != nil {
		return extract.Document{}, err
	}
	s.inherit()
	var title titleReader
	if err := a.each("docProps/core.xml", title.token); err != nil {
		return extract.Document{}, err
	}
	if err := a.each(documentPart, w.token); err != nil {
		return extract.Document{}, err
	}
	return extract.Document{Name: strings.TrimSpace(title.text), Text: w.out.String(), Form: extract.Markdown}, nil
}

const documentPart = "word/document.xml"

// An archive is the parts of a document, and how much more of them may be read.
type archive struct {
	files map[string]*zip.File
	left  int64
}

// each hands the tokens of a part to f, one by one. A part that is not there has none.
func (a *archive) each(name string, f func(xml.Token) error) error {
	file := a.files[name]
	if file == nil {
		return nil
	}
	r, err := file.Open()
	if err != nil {
		return errNoDOCX
	}
	defer func() { _ = r.Close() }()
	limited := &io.LimitedReader{R: r, N: a.left}
	dec := xml.NewDecoder(limited)
	for {
		t, err := dec.Token()
		if err != nil {
			used := a.left - limited.N
			a.left -= used
			switch {
			case a.left == 0:
				return errUnpacked
			case errors.Is(err, io.EOF):
				return nil
			}
			return errNoDOCX
		}
		if err := f(t); err != nil {
			return err
		}
	}
}

func value(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// styles finds which styles are headings: by their outline level, their name, or
// the style that they are based on.
type styles struct {
	levels map[string]int // by id, from 1
	names  map[string]string
	based  map[string]string
	id     string
}

func (s *styles) token(t xml.Token) error {
	e, ok := t.(xml.StartElement)
	if !ok {
		return nil
	}
	switch e.Name.Local {
	case "style":
		s.id = value(e, "styleId")
	case "name":
		name := strings.ToLower(value(e, "val"))
		if rest, ok := strings.CutPrefix(name, "heading "); ok {
			s.set(rest, 0)
		} else if name == "title" {
			s.levels[s.id] = 1
		}
	case "outlineLvl":
		s.set(value(e, "val"), 1)
	case "basedOn":
		s.based[s.id] = value(e, "val")
	}
	return nil
}

func (s *styles) set(level string, plus int) {
	if n, err := strconv.Atoi(level); err == nil && n+plus >= 1 && n+plus <= 9 {
		s.levels[s.id] = min(n+plus, 6)
	}
}

// maxBased is how many styles may be based on each other.
const maxBased = 10

func (s *styles) inherit() {
	for id := range s.based {
		at := id
		for range maxBased {
			if level, ok := s.levels[at]; ok {
				s.levels[id] = level
				break
			}
			at = s.based[at]
		}
	}
}

// A titleReader finds the title among the properties.
type titleReader struct {
	in   bool
	text string
}

func (r *titleReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		r.in = t.Name.Local == "title"
	case xml.EndElement:
		r.in = false
	case xml.CharData:
		if r.in && len(r.text) < maxHead {
			r.text += string(t)
		}
	}
	return nil
}
