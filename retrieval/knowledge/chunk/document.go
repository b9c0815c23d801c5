package chunk

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sidenote/retrieval/knowledge/extract"
)

// A Document is a text with a name.
type Document struct {
	ID       string // unique in its base; for files the slash-separated path
	Name     string // title; if "", it is taken from the text or else from ID
	Text     string // UTF-8
	Markdown bool   // otherwise plain text
	// Attributes are what filters match: strings, float64s, bools and lists of strings, as
	// Attribute returns them, at most MaxAttributes.
	Attributes map[string]any

	// The other fields are set for documents that were read from files.
	File        string       // path of the file
	Key         string       // distinguishes documents of the same file
	Form        extract.Form // the syntax of its structure
	Lang        string       // of source code
	By          string       // the program that extracted the text, if it may differ between machines
	FrontMatter bool         // the file is Markdown, and its front matter may contain attributes
}

// Normal returns the document with its attributes in their stored form. The error names the
// document, the key and the value.
func (d Document) Normal() (Document, error) {
	text, err := EncodeAttributes(d.Attributes)
	if err == nil {
		d.Attributes, err = DecodeAttributes(text)
	}
	if err != nil {
		return d, fmt.Errorf("document %q: %w", d.ID, err)
	}
	return d, nil
}

// Digest returns the document's contribution to the sum of its base: the same documents have the
// same sum in any order, and changing one takes one subtraction and one addition.
func (d Document) Digest() Sum {
	content := sha256.Sum256(Fields(d.Name, d.Text, strconv.FormatBool(d.Markdown), strconv.Itoa(int(d.Form)), d.Lang, d.By))
	attributes := "" // none
	if len(d.Attributes) > 0 {
		attributes = Encoded(d.Attributes)
	}
	return sha256.Sum256(Fields(d.ID, string(content[:]), attributes))
}

// Fields joins values, each prefixed with its length, so that different lists never give the same
// bytes.
func Fields(values ...string) []byte {
	var out []byte
	for _, v := range values {
		out = binary.AppendUvarint(out, uint64(len(v)))
		out = append(out, v...)
	}
	return out
}

// Printable reports whether a name can be shown in a list, a header and a prompt.
func Printable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}
