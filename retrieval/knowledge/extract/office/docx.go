// Package docx reads Word's DOCX in bounded time and memory, whatever the bytes are.
package office

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// DOCXVersion must be changed if anything in this package yields another text for the same file.
const DOCXVersion = "docx 3"

// The limits for one file.
const (
	// maxUnpacked is the unpacked size of all parts that are read, in bytes.
	maxUnpacked = 128 << 20
	// A part larger than freeSize may be at most maxRatio times as large as its compressed size.
	// Word's own parts are compressed to a tenth, hardly ever to a fiftieth.
	maxRatio = 100
	freeSize = 1 << 20
	// maxPiece is the size limit of a tag or of a text between two tags, in bytes: each is in
	// memory as a whole.
	maxPiece = 4 << 20
	maxDepth = 256 // nesting of elements
	maxTitle = 4 << 10
)

var (
	errNoDOCX   = extract.Brokenf("it is no DOCX, or broken")
	errUnpacked = extract.Brokenf("it unpacks to more than %d MB", maxUnpacked>>20)
	errRatio    = extract.Brokenf("it unpacks to more than %d times its size", maxRatio)
	errPiece    = extract.Brokenf("it has a piece of text of more than %d MB", maxPiece>>20)
	errDeep     = extract.Brokenf("it is nested too deeply")
	errNoText   = extract.Brokenf("there is no text in it")
)

// The parts of a document that are read.
const (
	bodyPart       = "word/document.xml"
	stylesPart     = "word/styles.xml"
	numberingPart  = "word/numbering.xml"
	propertiesPart = "docProps/core.xml"
	footnotesPart  = "word/footnotes.xml"
	endnotesPart   = "word/endnotes.xml"
)

// ReadDOCX returns the document in raw as Markdown, with headings (by their styles), lists with
// their numbers, tables, and footnotes in brackets. Tracked deletions and hidden text are left out.
// A merged cell stands in each place that it covers. Errors are *extract.Broken, or that
// of ctx.
func ReadDOCX(ctx context.Context, raw []byte) (extract.Document, error) {
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return extract.Document{}, errNoDOCX
	}
	a := &archive{ctx: ctx, files: map[string]*zip.File{}, left: maxUnpacked}
	for _, f := range z.File {
		a.files[f.Name] = f
	}
	if a.files[bodyPart] == nil {
		return extract.Document{}, errNoDOCX
	}
	s, n, title := newStyles(), newNumbering(), titleReader{}
	w := &writer{styles: s, numbering: n, notes: map[string]string{}}
	for _, part := range []struct {
		name string
		read func(xml.Token) error
	}{{stylesPart, s.token}, {numberingPart, n.token}, {propertiesPart, title.token}} {
		if err := a.each(part.name, part.read); err != nil {
			return extract.Document{}, err
		}
	}
	s.inherit(n)
	size := 0
	for part, kind := range map[string]string{footnotesPart: "footnote", endnotesPart: "endnote"} {
		notes := noteReader{kind: kind, texts: w.notes, size: &size, body: writer{styles: s}}
		if err := a.each(part, notes.token); err != nil {
			return extract.Document{}, err
		}
	}
	if err := a.each(bodyPart, w.token); err != nil {
		return extract.Document{}, err
	}
	name := strings.Join(strings.Fields(title.text), " ")
	text := w.markdown(name)
	if strings.TrimSpace(text) == "" {
		return extract.Document{}, errNoText
	}
	return extract.Document{Name: name, Text: text, Form: extract.Markdown}, nil
}

// An archive holds the parts of a document, and how many more bytes may be decompressed.
type archive struct {
	ctx   context.Context
	files map[string]*zip.File
	left  int64
}

// each calls f with each token of a part; it does nothing if there is no such part.
func (a *archive) each(name string, f func(xml.Token) error) error {
	file := a.files[name]
	if file == nil {
		return nil
	}
	if file.UncompressedSize64 > maxUnpacked { // the zip reader decompresses no more than this size
		return errUnpacked
	}
	unpacked, err := file.Open()
	if err != nil {
		return errNoDOCX
	}
	defer func() { _ = unpacked.Close() }()
	limited := &limitedReader{r: unpacked, archive: a, packed: file.CompressedSize64}
	dec := xml.NewDecoder(limited)
	for depth := 0; ; {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) && limited.why == nil {
			return nil
		}
		if err != nil {
			if limited.why != nil {
				return limited.why
			}
			return errNoDOCX
		}
		limited.piece = 0
		switch t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
		if depth > maxDepth {
			return errDeep
		}
		if err := f(t); err != nil {
			return err
		}
	}
}

// A limitedReader reads a part within the limits.
type limitedReader struct {
	r       io.Reader
	archive *archive
	packed  uint64
	read    uint64
	piece   int   // bytes since the last token
	why     error // why it stopped early
}

func (l *limitedReader) Read(p []byte) (int, error) {
	switch {
	case l.archive.ctx.Err() != nil:
		l.why = l.archive.ctx.Err()
	case l.archive.left <= 0:
		l.why = errUnpacked
	case l.read > freeSize && l.read/maxRatio > l.packed:
		l.why = errRatio
	case l.piece > maxPiece:
		l.why = errPiece
	}
	if l.why != nil {
		return 0, l.why
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.archive.left)])
	l.read += uint64(n) //nolint:gosec // it is no less than 0
	l.piece += n
	l.archive.left -= int64(n)
	return n, err
}

func value(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// A titleReader reads the title in the document's properties.
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
		if r.in && len(r.text)+len(t) < maxTitle {
			r.text += string(t)
		}
	}
	return nil
}
