package admin

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// Contents lists the documents of a base at one moment.
type Contents struct {
	Len int
	ID  func(i int) string // returns the id of document i, in sorted order; 0 <= i < Len
	// Describe returns the documents at these positions, without their texts. Documents that were
	// deleted meanwhile may be missing.
	Describe func(ctx context.Context, at []int) ([]Document, error)
}

// A Document describes a document, in the JSON form that is sent to clients.
type Document struct {
	ID         string         `json:"id"`
	Object     string         `json:"object"` // "knowledge.document"
	Knowledge  string         `json:"kb_id"`
	Name       string         `json:"name"`
	Type       string         `json:"type,omitempty"` // not in lists
	Chunks     int            `json:"chunks"`
	Bytes      int64          `json:"bytes"` // size of its text
	Attributes map[string]any `json:"attributes"`
	File       string         `json:"file,omitempty"`    // path below the base's folder, if it came from there
	ModifiedAt *int64         `json:"modified_at"`       // of the file; null if unknown
	Content    []Chunk        `json:"content,omitempty"` // not in lists
}

// A Chunk is a chunk of a document.
type Chunk struct {
	Chunk   int    `json:"chunk"` // its index in the document
	Section string `json:"section,omitempty"`
	Text    string `json:"text"`
}

// The types of documents.
const (
	TypeText     = "text"
	TypeMarkdown = "markdown"
)

// A NewDocument is a document to write.
type NewDocument struct {
	ID       string
	Name     string // "" derives it from the text
	Text     string // UTF-8, with line feeds as its only line breaks
	Markdown bool
	// Attributes are matched by filters; they are as decoded from JSON. A Manager refuses values
	// that attributes cannot have.
	Attributes map[string]any
}

// A Written is the result of writing a document.
type Written struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // "knowledge.document"
	Knowledge string `json:"kb_id"`
	Created   bool   `json:"created"`
	Changed   bool   `json:"changed"` // false if the base had an identical document
}

const (
	maxText       = 10 << 20 // the same as for a file
	maxDocumentID = 1024     // bytes
	maxName       = 1024     // bytes
)

// A putBody is the body of a PUT or, with an id, one document of a batch.
type putBody struct {
	ID         *string        `json:"id"`
	Name       string         `json:"name"`
	Text       *string        `json:"text"`
	Type       string         `json:"type"`
	Attributes map[string]any `json:"attributes"`
}

// document validates p and returns it as a NewDocument; param is its path in the body.
func (p putBody) document(id, param string) (NewDocument, error) {
	at := func(field string) string { return strings.TrimPrefix(param+"."+field, ".") }
	d := NewDocument{ID: id, Name: p.Name, Attributes: p.Attributes}
	if err := checkDocumentID(id, at("id")); err != nil {
		return d, err
	}
	switch {
	case p.Text == nil:
		return d, optionError(at("text"), "text is missing.")
	case len(*p.Text) > maxText:
		return d, &tenant.APIError{Reason: rewrite.ReasonTooLarge, Param: at("text"), Message: fmt.Sprintf("The text of %q has %d bytes; it may have %d.", id, len(*p.Text), maxText)}
	case strings.ContainsRune(*p.Text, 0):
		return d, optionError(at("text"), "The text of %q holds a NUL, so it is not text.", id)
	case len(p.Name) > maxName:
		return d, optionError(at("name"), "name has %d bytes; it may have %d.", len(p.Name), maxName)
	}
	switch p.Type {
	case "":
		d.Markdown = strings.EqualFold(path.Ext(id), ".md")
	case TypeMarkdown:
		d.Markdown = true
	case TypeText:
	default:
		return d, optionError(at("type"), "type is %q; it is %s or %s.", p.Type, TypeText, TypeMarkdown)
	}
	d.Text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(*p.Text)
	return d, nil
}

// checkDocumentID refuses an id that could not be written to a list, a header and a prompt.
func checkDocumentID(id, param string) error {
	if id == "" || len(id) > maxDocumentID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return optionError(param, "The id %q is none: it is 1 to %d bytes of printable text.", id, maxDocumentID)
	}
	return nil
}

// putDocument writes one document.
func (m management) putDocument(ctx context.Context, rc *fasthttp.RequestCtx) error {
	var asked putBody
	if err := readObject(rc, `a document such as {"text": "…"}`, &asked); err != nil {
		return err
	}
	if asked.ID != nil && *asked.ID != m.document {
		return optionError("id", "id is %q and the path says %q.", *asked.ID, m.document)
	}
	d, err := asked.document(m.document, "")
	if err != nil {
		return err
	}
	done, err := m.Put(ctx, m.base, []NewDocument{d})
	if err != nil {
		return err
	}
	status := fasthttp.StatusOK
	if done[0].Created {
		status = fasthttp.StatusCreated
	}
	return writeJSON(rc, status, done[0])
}

// A batch is the result of writing several documents.
type batch struct {
	Object  string    `json:"object"` // "list"
	Data    []Written `json:"data"`   // in the order of the request
	Created int       `json:"created"`
	Changed int       `json:"changed"` // including created ones
}

// putDocuments writes several documents, or the files of a form. If a document is refused, none is
// written.
func (m management) putDocuments(ctx context.Context, rc *fasthttp.RequestCtx) error {
	if isForm(rc) {
		return m.putFiles(ctx, rc)
	}
	var asked struct {
		Documents []putBody `json:"documents"`
	}
	if err := readObject(rc, `a batch such as {"documents": [{"id": "a.md", "text": "…"}]}`, &asked); err != nil {
		return err
	}
	if len(asked.Documents) == 0 {
		return optionError("documents", "documents holds none.")
	}
	seen := map[string]bool{}
	documents := make([]NewDocument, len(asked.Documents))
	for i, p := range asked.Documents {
		param := fmt.Sprintf("documents[%d]", i)
		if p.ID == nil {
			return optionError(param+".id", "id is missing.")
		}
		if seen[*p.ID] {
			return optionError(param+".id", "%q comes twice.", *p.ID)
		}
		seen[*p.ID] = true
		var err error
		if documents[i], err = p.document(*p.ID, param); err != nil {
			return err
		}
	}
	done, err := m.Put(ctx, m.base, documents)
	if err != nil {
		return err
	}
	b := batch{Object: "list", Data: done}
	for _, w := range done {
		if w.Created {
			b.Created++
		}
		if w.Changed {
			b.Changed++
		}
	}
	return writeJSON(rc, fasthttp.StatusOK, b)
}

func (m management) listDocuments(ctx context.Context, rc *fasthttp.RequestCtx) error {
	p, err := readPage(rc)
	if err != nil {
		return err
	}
	all, err := m.Documents(ctx, m.base)
	if err != nil {
		return err
	}
	l := List[Document]{Object: "list", Data: []Document{}}
	at, more := p.positions(all.Len, all.ID)
	if len(at) > 0 {
		first, last := all.ID(at[0]), all.ID(at[len(at)-1])
		l.FirstID, l.LastID, l.HasMore = &first, &last, more
		if l.Data, err = all.Describe(ctx, at); err != nil {
			return err
		}
	}
	return writeJSON(rc, fasthttp.StatusOK, l)
}

func (m management) showDocument(ctx context.Context, rc *fasthttp.RequestCtx) error {
	d, err := m.Document(ctx, m.base, m.document)
	if err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusOK, d)
}

func (m management) deleteDocument(ctx context.Context, rc *fasthttp.RequestCtx) error {
	if err := m.Remove(ctx, m.base, m.document); err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusOK, deletion{m.document, "knowledge.document.deleted", true})
}

// Forgotten says what became of documents that are to be forgotten.
type Forgotten struct {
	Object    string   `json:"object"` // "knowledge.documents.forgotten"
	Knowledge string   `json:"kb_id"`
	Removed   []string `json:"removed"`  // ids of those that were still there
	Segments  int      `json:"segments"` // files of the index that were written anew
	Vectors   int      `json:"vectors"`  // removed
	Bodies    int      `json:"bodies"`   // of kept requests and answers, all of which were dropped
	Records   int      `json:"records"`  // of requests with one of them among their sources, removed
	Beyond    []string `json:"beyond"`   // places that may have their texts and cannot be reached
}

// maxForgotten is the most documents of a request.
const maxForgotten = 1000

// forgetDocuments takes {"documents": [ID, …]}.
func (m management) forgetDocuments(_ context.Context, rc *fasthttp.RequestCtx) error {
	var r struct {
		Documents []string `json:"documents"`
	}
	if err := readObject(rc, "an object with the ids of documents", &r); err != nil {
		return err
	}
	if n := len(r.Documents); n == 0 || n > maxForgotten {
		return optionError("documents", "documents lists %d ids; 1 to %d are forgotten at a time.", n, maxForgotten)
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetWait)
	defer cancel()
	done, err := m.Forget(ctx, m.base, r.Documents)
	if err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusOK, done)
}
