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

// maxUnpacked is the limit on the unpacked size of all parts that are read of a DOCX.
const maxUnpacked = 128 << 20

var (
	errNoDOCX   = extract.Brokenf("it is no DOCX, or broken")
	errUnpacked = extract.Brokenf("it unpacks to more than %d MB", maxUnpacked>>20)
)

// readDOCX returns the text of a document as Markdown, with headings (by their styles),
// lists and tables. Tracked deletions are left out.
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
	if part.UncompressedSize64 > maxUnpacked { // the zip reader unpacks no more than this size says
		return extract.Document{}, errUnpacked
	}
	w := &writer{levels: map[string]int{}}
	s := &styles{levels: w.levels, based: map[string]string{}}
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

// An archive holds the parts of a document, and how many more bytes may be unpacked.
type archive struct {
	files map[string]*zip.File
	left  int64
}

// each calls f with each token of a part; not at all if there is no such part.
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
			a.left = limited.N
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

// styles finds the styles that are headings: by outline level, by name, or because they
// are based on such a style.
type styles struct {
	levels map[string]int // by id, from 1
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

// maxBased is the longest chain of styles based on each other that is followed.
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

// A titleReader finds the title in the document's properties.
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
