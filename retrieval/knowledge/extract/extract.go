// Package extract converts the bytes of a file into documents, whose texts are Markdown, plain
// text, records or source code. It does not deal with chunks, ranking or where files come from.
//
// Every format is read in bounded time and memory, whatever the bytes are; this includes office
// documents and EPUB in extract/office and PDF in extract/pdf.
package extract

import (
	"errors"
	"fmt"
)

// Version must be changed if anything shared by all readers yields other texts for the same bytes.
const Version = "6"

// VersionOf returns the version of a format's reader. If only that reader yields other texts,
// change its number here: then only files of its format are read again.
func VersionOf(f Format) string {
	own := 0
	switch f {
	case SourceCode:
		own = 1 // package folder leaves generated files out
	case JSON:
		own = 2 // OpenAPI
	case HTML:
		own = 1 // titles
	}
	return fmt.Sprintf("%s.%d", Version, own)
}

// MaxText is the most bytes of text in one file. It matters for formats that compress text.
const MaxText = 32 << 20

// MaxDocuments is the most documents in one file.
const MaxDocuments = 100_000

// A Document is one text of a file.
type Document struct {
	// Key is unique among the documents of a file: the record's id, or the number of its line. It
	// is "" for a file that is one document.
	Key  string
	Name string // title; "" if the file has none
	Text string // UTF-8, with line feeds as its only line breaks
	Form Form
	Lang string // language of Code, as a file extension: "go"
	By   string // program that extracted it; "" for this package
	// Attributes are strings, finite float64s, bools and lists of strings, by name; may be nil.
	Attributes map[string]any
}

// Form is the syntax of a text's structure.
type Form uint8

// The forms.
const (
	Plain    Form = iota // paragraphs
	Markdown             //
	Records              // paragraphs whose lines are fields, such as CSV rows; a section begins with "## "
	Code                 // source code
)

// A Broken error describes what is wrong with the contents of a file. Its text is for people and
// is shown beside the file's name.
type Broken struct{ Reason string }

func (b *Broken) Error() string { return b.Reason }

// Brokenf returns a Broken error.
func Brokenf(format string, args ...any) error {
	return &Broken{Reason: fmt.Sprintf(format, args...)}
}

// ErrNotText is the error for bytes that are not text in any known encoding.
var ErrNotText = errors.New("not text in UTF-8, UTF-16 or any older encoding that could be recognised")

// ErrTooMuchText is the error for a file with more than MaxText.
var ErrTooMuchText = Brokenf("it holds more than %d MB of text", MaxText>>20)

// A Guessed error means that a file was read completely, in an encoding that is not certain.
type Guessed struct{ Encoding string }

func (g *Guessed) Error() string { return "read as " + g.Encoding + ", which is a guess" }

// Read returns the documents of a file; name is its base name. For a partly broken file it returns
// what could be read and a *Broken; if attributes were left out, an *AttributesLeftOut, and if its
// encoding is not certain, a *Guessed.
func Read(format Format, name string, raw []byte) ([]Document, error) {
	switch format {
	case EML:
		return readEML(raw)
	case MBOX:
		return readMBOX(raw)
	case XML:
		return oneInPart(readXML(raw))
	case RTF:
		return oneInPart(readRTF(raw))
	}
	var text, guess string
	var err error
	if format == HTML {
		text, guess, err = decodeHTML(raw)
	} else {
		text, guess, err = decode(raw)
	}
	if err != nil {
		return nil, err
	}
	documents, err := readText(format, name, text)
	if err == nil && guess != "" {
		err = &Guessed{Encoding: guess}
	}
	return documents, err
}

func readText(format Format, name, text string) ([]Document, error) {
	switch format {
	case HTML:
		return one(readHTML(text))
	case Text:
		return one(Document{Text: text}, nil)
	case RST:
		return one(Document{Text: rstToMarkdown(text), Form: Markdown}, nil)
	case MarkdownText:
		return oneInPart(readMarkdown(name, text))
	case SourceCode:
		return one(Document{Text: text, Form: Code, Lang: Language(name, text)}, nil)
	case CSV:
		return one(readCSV(name, text))
	case YAML:
		return one(readYAML(text))
	case TOML:
		return one(readTOML(text), nil)
	case INI:
		return one(readINI(text), nil)
	case Properties:
		return one(readProperties(text), nil)
	case Notebook:
		return one(readNotebook(text))
	case JSON:
		return readJSON(text)
	case JSONLines:
		return readJSONLines(text)
	}
	panic(fmt.Sprintf("BUG: format %d is read by another package", format))
}

func one(d Document, err error) ([]Document, error) {
	if err != nil {
		return nil, err
	}
	return []Document{d}, nil
}

// oneInPart is one for a document of which a part may be missing.
func oneInPart(d Document, err error) ([]Document, error) { return []Document{d}, err }
