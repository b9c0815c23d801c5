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

// How much of a document is read.
const (
	maxPages = 4       // of its content
	maxPart  = 4 << 10 // bytes; longer parts are cut
)

// unread says that a store can only be searched.
const unread = "does not give the texts of its files; they can be searched, and not be read"

// Passage reads on in a document: it is a retrieval.Reader. The chunks of a document are the
// parts in which the store gives its content, long ones cut: those of a Sidenote are its chunks,
// those of other stores need not be what their searches find.
//
// The document's attributes are read, and compared with the filter, each time before its text.
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
	name := cmp.Or(label(word(about.Attributes["sidenote_name"])), label(about.Filename), p.Doc)
	list := make([]retrieval.Source, 0, len(parts)-p.First)
	for i, part := range parts[p.First:] {
		list = append(list, retrieval.Source{
			Type: "rag", Knowledge: p.Knowledge, Doc: p.Doc, Chunk: p.First + i, Name: name, Section: label(part.Section), Text: part.Text,
		})
	}
	return list, nil
}

// segment tells whether an id is one segment of a path, and stays so where something on the way
// decodes it: what a model asks for must not lead elsewhere with our key.
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
	return id != "" && len(id) <= maxID && id == strings.Map(visible, id)
}

// unreadable is the error of a read that failed with err: missing, where there is no such file.
func (b *Base) unreadable(err, missing error) error {
	if status, ok := errors.AsType[*services.StatusError](err); ok {
		switch status.Status {
		case http.StatusMethodNotAllowed, http.StatusNotImplemented:
			b.health.Cannot(unread)
			return missing
		case http.StatusNotFound, http.StatusBadRequest, http.StatusUnprocessableEntity: // no id of a file there
			return missing
		}
	}
	if !errors.Is(err, services.ErrDown) && !errors.Is(err, services.ErrBusy) { // else nothing was asked
		b.health.Called(err)
	}
	return fmt.Errorf("read vector store %s: %w: %w", b.options.Store, retrieval.ErrUnavailable, err)
}

// A file is what a store tells of a document.
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
	Section string `json:"sidenote_section"` // of a Sidenote: the heading path
}

// parts returns the first parts of a document, n at most: neutralised, none of them empty.
func (a api) parts(ctx context.Context, doc string, n int, neutralise func(string) string) (parts []part, err error) {
	page := ""
	for range maxPages {
		body, err := a.content(ctx, doc, page)
		if err != nil {
			return nil, err
		}
		var content struct {
			Data     []part `json:"data"`
			Content  []part `json:"content"` // in its place, where an API has the first form of OpenAI's
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
				if text = trimLines(neutralise(text)); text != "" {
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

// pieces cuts a text where it is long: between paragraphs, lines, sentences or words.
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
