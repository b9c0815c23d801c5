// Package extract turns the bytes of a file into documents: texts whose structure
// is written in Markdown, or in lines, or is that of source code. It knows file
// formats and nothing of chunks, ranking or where files come from.
//
// Every format here is read in bounded time and memory, whatever the bytes are.
// The formats for which no reader can promise that (PDF, DOCX) are named here and
// read in a process of their own, by extract/child.
package extract

import (
	"errors"
	"fmt"
)

// Version names everything here that turns the same bytes into other texts.
const Version = "2"

// MaxText is the most text that one file may hold, in bytes. Formats that pack
// their text would else have no bound.
const MaxText = 32 << 20

// MaxDocuments is the most documents that one file may hold.
const MaxDocuments = 100_000

// A Document is one text of a file.
type Document struct {
	// Key tells the documents of one file apart: the record's id, or the number of
	// its line. It is "" for a file that is one document. Within a file no key
	// comes twice.
	Key  string
	Name string // title; "" where the file does not say
	Text string // UTF-8, with line feeds as its only line breaks
	Form Form
	Lang string // of Code: what the language's files end in, as in "go"
	By   string // what extracted it, where that is not this package
	// Attributes are what it says of itself beside its text, each a string, a finite
	// float64 or a bool; nil for none.
	Attributes map[string]any
}

// Form says how the structure of a text is written.
type Form uint8

// The forms.
const (
	Plain    Form = iota // paragraphs
	Markdown             // as it says
	Records              // paragraphs whose lines are worth as much each, as the fields of a row are
	Code                 // source code
)

// A Broken error is what a file's own bytes are to blame for. Its text is for
// people and stands beside the file's name.
type Broken struct{ Reason string }

func (b *Broken) Error() string { return b.Reason }

// Brokenf makes a Broken error.
func Brokenf(format string, args ...any) error {
	return &Broken{Reason: fmt.Sprintf(format, args...)}
}

// ErrNotText says that bytes are no text in any encoding that is known.
var ErrNotText = errors.New("not text in UTF-8, UTF-16 or any older encoding that could be recognised")

var errTooMuchText = Brokenf("it holds more than %d MB of text", MaxText>>20)

// Read returns the documents of a file; name is the base of its path. What could
// be read of a file that is broken in part comes with a *Broken error, documents
// some of whose attributes are left out with a *Left one.
func Read(format Format, name string, raw []byte) ([]Document, error) {
	if format == HTML {
		return one(readHTML(raw))
	}
	text, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	switch format {
	case Text:
		return one(Document{Text: text}, nil)
	case MarkdownText:
		return one(Document{Text: text, Form: Markdown}, nil) // the front matter is part of the text
	case SourceCode:
		return one(Document{Text: text, Form: Code, Lang: Language(name, text)}, nil)
	case CSV:
		return one(readCSV(name, text))
	case JSON:
		return readJSON(text)
	case JSONLines:
		return readJSONLines(text)
	}
	panic(fmt.Sprintf("BUG: format %d is not read in this process", format))
}

func one(d Document, err error) ([]Document, error) {
	if err != nil {
		return nil, err
	}
	return []Document{d}, nil
}
