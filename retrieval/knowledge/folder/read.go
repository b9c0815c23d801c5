package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/office"
	"sidenote/retrieval/knowledge/extract/pdf"
)

// MaxFile is the size limit for files, in bytes.
const MaxFile = 10 << 20

// Supported names the formats that are read, for people.
const Supported = "Markdown, HTML, RST, PDF, DOCX, ODT, RTF, EPUB, PPTX, ODP, XLSX, ODS, CSV, JSON, JSONL, IPYNB, EML, MBOX, YAML, TOML, XML, INI, properties, text and source code"

var errTooLarge = errors.New("more than 10 MB")

// supported reports whether files of a format can be read; p and o may be nil.
func supported(f extract.Format, p *pdf.Reader, o *ocr) bool {
	return f != extract.Unknown && (f != extract.PDF || p != nil) && (f != extract.Image || o != nil)
}

// Format returns the format of a file.
func (s *Source) Format(name string) extract.Format { return formatOf(s.FS, name) }

// formatOf returns a file's format by its name. A file without an extension is source code if it
// begins like a script.
func formatOf(fsys fs.FS, name string) extract.Format {
	f := extract.Of(name)
	if f == extract.Unknown && path.Ext(name) == "" {
		if start, err := readAtMost(fsys, name, extract.ShebangLength); err == nil && extract.IsScript(start) {
			return extract.SourceCode
		}
	}
	return f
}

// Read reads the documents of one file; p is as in Files. A partly broken file has both documents
// and a Skip.
func (s *Source) Read(ctx context.Context, name string, p *pdf.Reader) ([]chunk.Document, *Skip) {
	return s.ReadBy(ctx, name, p, func(ctx context.Context, f extract.Format, name string, raw []byte) ([]extract.Document, error) {
		return Extract(ctx, f, name, raw, p)
	})
}

// An Extractor extracts the documents of a file, as Extract does.
type Extractor func(ctx context.Context, f extract.Format, name string, raw []byte) ([]extract.Document, error)

// ReadBy is Read with another Extractor.
func (s *Source) ReadBy(ctx context.Context, name string, p *pdf.Reader, by Extractor) ([]chunk.Document, *Skip) {
	f := formatOf(s.FS, name)
	if !supported(f, p, s.ocr) {
		return nil, unsupported(name)
	}
	raw, err := readAtMost(s.FS, name, MaxFile+1)
	if err != nil {
		return nil, &Skip{Path: name, Kind: SkipUnreadable, Reason: reasonOf(err)}
	}
	if rule := generated(name, f, raw); rule != "" && !s.asked[name] {
		return nil, &Skip{Path: name, Kind: SkipGenerated, Reason: rule}
	}
	return extractBy(ctx, f, name, raw, s.ocr.withOCR(by))
}

// ReadBytes is ReadBy for a file in memory, which is read even if it is generated.
func ReadBytes(ctx context.Context, name string, raw []byte, p *pdf.Reader, by Extractor) ([]chunk.Document, *Skip) {
	f := extract.Of(name)
	if f == extract.Unknown && path.Ext(name) == "" && extract.IsScript(raw) {
		f = extract.SourceCode
	}
	if !supported(f, p, nil) {
		return nil, unsupported(name)
	}
	return extractBy(ctx, f, name, raw, by)
}

// extractBy returns the documents in the bytes of a file.
func extractBy(ctx context.Context, f extract.Format, name string, raw []byte, by Extractor) ([]chunk.Document, *Skip) {
	if len(raw) > MaxFile {
		return nil, &Skip{Path: name, Kind: SkipTooLarge, Reason: errTooLarge.Error()}
	}
	extracted, err := by(ctx, f, name, raw)
	documents := make([]chunk.Document, len(extracted))
	for i, d := range extracted {
		documents[i] = documentOf(name, d)
		documents[i].FrontMatter = f == extract.MarkdownText
	}
	skip := skipOf(name, err)
	if skip != nil && skip.Kind == SkipBroken && len(documents) > 0 {
		skip.Kind = SkipPart
	}
	if skip != nil && f == extract.Image && skip.Reason == noTextSeen {
		skip.Kind = SkipUnsupported // like any picture
	}
	return documents, skip
}

// Extract returns the documents in the bytes of a file, which is no image; for a partly broken one it
// returns documents and an error. p reads PDF.
func Extract(ctx context.Context, f extract.Format, name string, raw []byte, p *pdf.Reader) ([]extract.Document, error) {
	var one extract.Document
	var err error
	switch f {
	case extract.PDF:
		one, err = p.Read(ctx, raw)
	case extract.DOCX, extract.XLSX, extract.ODS, extract.PPTX, extract.ODP, extract.ODT, extract.EPUB:
		one, err = office.Read(ctx, f, raw)
	default:
		return extract.Read(f, path.Base(name), raw)
	}
	if one.Text == "" {
		return nil, err
	}
	return []extract.Document{one}, err
}

func unsupported(name string) *Skip {
	return &Skip{Path: name, Kind: SkipUnsupported, Reason: typeOf(name) + " is not supported"}
}

// A Failure is an error of an Extractor, with its kind for a Skip.
type Failure struct {
	Kind   SkipKind
	Reason string
}

func (f *Failure) Error() string { return f.Reason }

// FailureOf converts an error of Extract; nil for nil.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	kind := SkipUnreadable
	if broken := (*extract.Broken)(nil); errors.As(err, &broken) {
		kind = SkipBroken
	} else if left := (*extract.AttributesLeftOut)(nil); errors.As(err, &left) {
		kind = SkipAttributes
	} else if guessed := (*extract.Guessed)(nil); errors.As(err, &guessed) {
		kind = SkipGuessed
	} else if errors.Is(err, extract.ErrNotText) {
		kind = SkipNotText
	}
	return &Failure{Kind: kind, Reason: reasonOf(err)}
}

// skipOf converts an error of Extract for a file into a Skip; nil for nil.
func skipOf(name string, err error) *Skip {
	f := FailureOf(err)
	if f == nil {
		return nil
	}
	return &Skip{Path: name, Kind: f.Kind, Reason: f.Reason}
}

// documentOf makes the id of a document from the file and the key of the part.
func documentOf(file string, d extract.Document) chunk.Document {
	id := file
	if d.Key != "" {
		id = fmt.Sprintf("%s#%s", file, d.Key)
	}
	out := chunk.Document{
		ID: id, Name: d.Name, Text: d.Text, Markdown: d.Form == extract.Markdown, Attributes: d.Attributes,
		File: file, Key: d.Key, Lang: d.Lang, By: d.By,
	}
	if !out.Markdown { // Markdown has one form, wherever it comes from
		out.Form = d.Form
	}
	return out
}

// readAtMost reads at most the given number of bytes of a file.
func readAtMost(fsys fs.FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // it may have been replaced since it was listed
		return nil, errors.New("not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, most))
}
