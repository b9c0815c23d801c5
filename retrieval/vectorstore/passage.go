package vectorstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// Limits of reading a document.
const (
	maxPages = 4       // of content
	maxPart  = 4 << 10 // bytes; longer parts are split
)

// unread says that a store can only be searched.
const unread = "cannot return the texts of its files; they can be searched but not read"

// Passage implements retrieval.Reader. The chunks of a document are the parts of its content as
// the store returns them, split if long: those of a Sidenote are its chunks, those of other stores
// may differ from what their searches find.
//
// Before each read, the document's attributes are fetched and compared with the filter.
func (b *Base) Passage(ctx context.Context, q retrieval.Query, p retrieval.Passage) ([]retrieval.Source, error) {
	missing := fmt.Errorf("%s/%s#%d: %w", p.Knowledge, p.Doc, p.First, retrieval.ErrNoHit)
	if !slices.ContainsFunc(q.Bases, func(ref retrieval.Ref) bool { return ref.Knowledge == b.options.Knowledge }) || p.Knowledge != b.options.Knowledge || !segment(p.Doc) {
		return nil, missing
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	about, err := b.api.about(ctx, p.Doc)
	if err != nil {
		return nil, b.unreadable(err, missing)
	}
	if about.ID != p.Doc || q.Filter != nil && !about.chosen(q.Filter) {
		return nil, missing
	}
	parts, err := b.api.parts(ctx, p.Doc, p.End, b.options.Neutralise)
	if err != nil {
		return nil, b.unreadable(err, missing)
	}
	b.health.Called(nil)
	if p.First >= len(parts) {
		return nil, missing
	}
	name := cmp.Or(retrieval.Line(word(about.Attributes["sidenote_name"])), retrieval.Line(about.Filename), p.Doc)
	list := make([]retrieval.Source, 0, len(parts)-p.First)
	for i, part := range parts[p.First:] {
		list = append(list, retrieval.Source{
			Type: "rag", Knowledge: p.Knowledge, Doc: p.Doc, Chunk: p.First + i, Name: name, Section: retrieval.Line(part.Section), Text: part.Text,
		})
	}
	return list, nil
}

// segment reports whether an id is a single path segment, even if it is decoded on the way: an id
// from a model must not lead to another resource with our key.
func segment(id string) bool {
	decoded, err := url.PathUnescape(id)
	if err != nil {
		decoded = id
	}
	for _, text := range []string{id, decoded} {
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			if part == "." || part == ".." {
				return false
			}
		}
	}
	return id != "" && len(id) <= maxID && id == strings.Map(retrieval.Visible, id)
}

// unreadable returns the error of a read that failed with err: missing if there is no such file.
func (b *Base) unreadable(err, missing error) error {
	if status, ok := errors.AsType[*services.StatusError](err); ok {
		switch status.Status {
		case http.StatusMethodNotAllowed, http.StatusNotImplemented:
			b.health.Cannot(unread)
			return missing
		case http.StatusNotFound, http.StatusBadRequest, http.StatusUnprocessableEntity: // not a file id
			return missing
		}
	}
	if !errors.Is(err, services.ErrDown) && !errors.Is(err, services.ErrBusy) { // else nothing was sent
		b.health.Called(err)
	}
	return fmt.Errorf("read vector store %s: %w: %w", b.options.Store, retrieval.ErrUnavailable, err)
}

// A file is the metadata of a document.
type file struct {
	ID string `json:"id"`
	result
}

func (a api) about(ctx context.Context, doc string) (f file, err error) {
	body, err := a.file(ctx, doc)
	if err == nil && json.Unmarshal(body, &f) != nil {
		err = errors.New("answer is not a file of a vector store")
	}
	return f, err
}

// A part is a piece of a document's text.
type part struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Section string `json:"sidenote_section"` // from a Sidenote: the heading path
}

// parts returns the first parts of a document, at most n: neutralised and not empty.
func (a api) parts(ctx context.Context, doc string, n int, neutralise func(string) string) (parts []part, err error) {
	page := ""
	for range maxPages {
		body, err := a.content(ctx, doc, page)
		if err != nil {
			return nil, err
		}
		var content struct {
			Data     []part `json:"data"`
			Content  []part `json:"content"` // instead of Data, in OpenAI's first version
			HasMore  bool   `json:"has_more"`
			NextPage string `json:"next_page"`
		}
		if json.Unmarshal(body, &content) != nil || content.Data == nil && content.Content == nil {
			return nil, errors.New("answer is not the content of a file")
		}
		for _, p := range slices.Concat(content.Data, content.Content) {
			if p.Type != "text" && p.Type != "" {
				continue
			}
			for _, text := range pieces(p.Text) {
				if text = retrieval.TrimLines(neutralise(text)); text != "" {
					parts = append(parts, part{Text: text, Section: p.Section})
				}
			}
			if len(parts) >= n {
				return parts[:n], nil
			}
		}
		if page = content.NextPage; !content.HasMore || page == "" {
			break
		}
	}
	return parts, nil
}

// pieces splits a long text between paragraphs, lines, sentences or words.
func pieces(text string) (list []string) {
	for len(text) > maxPart {
		end := 0
		for _, between := range []string{"\n\n", "\n", ". ", " "} {
			if i := strings.LastIndex(text[:maxPart], between); i > maxPart/2 {
				end = i + len(between)
				break
			}
		}
		if end == 0 {
			end = len(strings.ToValidUTF8(text[:maxPart], ""))
		}
		list, text = append(list, text[:end]), text[end:]
	}
	return append(list, text)
}
