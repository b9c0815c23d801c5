package extract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// A record is an object. These fields have a meaning: "id" (or "_id"), "title" (or "name"),
// "section" (or "heading"), "text" (or "content", "body") and "attributes"; of several, the first
// that is a string is used, for an id also a number. Other fields with plain values are attributes
// too. The text of an object without a text is its fields, except "attributes", in lines such as
// "address.city: Oslo".
//
// encoding/json checks the syntax; gjson reads the values, because it does not allocate
// an object for each of millions of numbers.

const (
	// maxKey is the limit on the key of a document, in bytes.
	maxKey = 200
	// maxDepth is the nesting limit of values.
	maxDepth = 100
)

var errDeepJSON = Brokenf("its values are nested too deeply")

// readJSON returns a document for each element of an array of objects; otherwise one document.
func readJSON(text string) ([]Document, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	trimmed := strings.TrimLeft(text, " \t\n")
	if trimmed == "" {
		return []Document{{}}, nil
	}
	set := newSet("element")
	if rest, ok := strings.CutPrefix(trimmed, "["); ok && strings.HasPrefix(strings.TrimLeft(rest, " \t\n"), "{") {
		if _, err := dec.Token(); err != nil {
			return nil, notJSON(err)
		}
		for n := 1; dec.More(); n++ {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return set.documents, notJSON(err)
			}
			if err := set.add(n, raw); err != nil {
				return set.documents, err
			}
		}
		_, err := dec.Token()
		return set.documents, cmp.Or(notJSON(err), set.left.err())
	}
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return readJSONLines(text) // some JSON Lines files are named .json
	}
	if d, ok := openAPI(gjson.ParseBytes(raw)); ok {
		return []Document{d}, nil
	}
	left := newLeft()
	d, _, err := readRecord(raw, left)
	if err != nil {
		return nil, err
	}
	return []Document{d}, left.err()
}

// readJSONLines returns a document for each line. Lines that are not JSON are left out and counted
// in the error.
func readJSONLines(text string) ([]Document, error) {
	set := newSet("line")
	bad, firstBad, n := 0, 0, 0
	for line := range bytes.Lines([]byte(text)) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if !json.Valid(line) {
			if bad++; firstBad == 0 {
				firstBad = n
			}
			continue
		}
		if err := set.add(n, line); err != nil {
			return set.documents, err
		}
	}
	switch {
	case bad > 0 && len(set.documents) == 0:
		return nil, Brokenf("it is not JSON, line by line")
	case bad == 1:
		return set.documents, set.left.after(Brokenf("line %d is not JSON", firstBad))
	case bad > 1:
		return set.documents, set.left.after(Brokenf("%d lines are not JSON, the first is line %d", bad, firstBad))
	}
	return set.documents, set.left.err()
}

func notJSON(err error) error {
	if err == nil {
		return nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return Brokenf("it is not JSON at byte %d: %v", syntax.Offset, err)
	}
	return Brokenf("it is not JSON: it ends too early")
}

// A set collects the documents of one file.
type set struct {
	unit      string // how to number documents without an id, such as "line"
	documents []Document
	keys      map[string]bool
	bytes     int
	left      *AttributesLeftOut
}

func newSet(unit string) *set { return &set{unit: unit, keys: map[string]bool{}, left: newLeft()} }

// add adds the n-th record.
func (s *set) add(n int, raw []byte) error {
	if len(s.documents) == MaxDocuments {
		return errDocuments
	}
	d, id, err := readRecord(raw, s.left)
	if err != nil {
		return Brokenf("%s %d: %v", s.unit, n, err)
	}
	return s.put(n, id, d)
}

var errDocuments = Brokenf("it holds more than %d documents", MaxDocuments)

// put adds the n-th document. Its key is its id; without an id it is n, and for an id that occurred
// before it is the id and n. So nothing is lost, and keys do not depend on later records.
func (s *set) put(n int, id string, d Document) error {
	if len(s.documents) == MaxDocuments {
		return errDocuments
	}
	if s.bytes += len(d.Text); s.bytes > MaxText {
		return ErrTooMuchText
	}
	d.Key = cmp.Or(id, strconv.Itoa(n))
	for s.keys[d.Key] {
		d.Key += fmt.Sprintf(":%d", n)
	}
	s.keys[d.Key] = true
	s.documents = append(s.documents, d)
	return nil
}

// keyable reports whether an id can be shown in a list, a header and a prompt.
func keyable(id string) bool {
	return id != "" && len(id) <= maxKey && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}
