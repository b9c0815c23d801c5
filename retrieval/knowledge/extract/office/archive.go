package office

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"

	"sidenote/retrieval/knowledge/extract"
)

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
	maxParts = 100_000
	maxTags  = 5_000_000 // in all parts: reading one takes a microsecond or two, however short it is
)

var (
	errUnpacked = extract.Brokenf("it unpacks to more than %d MB", maxUnpacked>>20)
	errRatio    = extract.Brokenf("it unpacks to more than %d times its size", maxRatio)
	errPiece    = extract.Brokenf("it has a piece of text of more than %d MB", maxPiece>>20)
	errTags     = extract.Brokenf("it has more than %d tags", maxTags)
	errDeep     = extract.Brokenf("it is nested too deeply")
	errNoText   = extract.Brokenf("there is no text in it")
	errLocked   = extract.Brokenf("it is protected by a password, or in an older format")
)

// An archive holds the parts of a document, and how many more bytes may be decompressed.
type archive struct {
	ctx    context.Context
	format string // such as DOCX
	ratio  uint64 // a larger one is refused; 0 allows all
	files  map[string]*zip.File
	left   int64
	tags   int // that were read
}

// open returns the archive of a document.
func open(ctx context.Context, f extract.Format, raw []byte) (*archive, error) {
	a := &archive{ctx: ctx, format: names()[f], files: map[string]*zip.File{}, left: maxUnpacked}
	if f == extract.DOCX {
		a.ratio = maxRatio
	}
	if bytes.HasPrefix(raw, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")) { // a compound file
		return nil, errLocked
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil || len(z.File) > maxParts {
		return nil, a.broken()
	}
	for _, f := range z.File {
		a.files[f.Name] = f
	}
	return a, nil
}

// broken returns the error for a file that is not what its name says.
func (a *archive) broken() error { return extract.Brokenf("it is no %s, or broken", a.format) }

// each calls f with each token of a part; it does nothing if there is no such part.
func (a *archive) each(name string, f func(xml.Token) error) error {
	file := a.files[name]
	if file == nil {
		return nil
	}
	if a.ratio > 0 && file.UncompressedSize64 > maxUnpacked { // the zip reader decompresses no more than this size
		return errUnpacked
	}
	unpacked, err := file.Open()
	if err != nil {
		return a.broken()
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
			return a.broken()
		}
		limited.piece = 0
		switch t.(type) {
		case xml.StartElement:
			depth++
			a.tags++
		case xml.EndElement:
			depth--
		}
		if depth > maxDepth {
			return errDeep
		}
		if a.tags > maxTags {
			return errTags
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
	case l.archive.ratio > 0 && l.read > freeSize && l.read/l.archive.ratio > l.packed:
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
