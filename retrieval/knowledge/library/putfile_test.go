package library_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// documentIDs returns the ids of the documents that a base answers from.
func documentIDs(l *library.Library) (ids []string) {
	c := l.Base("kb").Content()
	for i := range c.Documents() {
		ids = append(ids, c.DocumentAt(i).ID)
	}
	return ids
}

// A file is written as the documents that it holds; written again, it replaces them, and what it no
// longer holds is removed.
func TestPutFile(t *testing.T) {
	l := opened(t, t.TempDir(), library.Options{})
	if _, err := l.PutFile(t.Context(), "kb", library.File{Name: "a.md", Raw: []byte("ant")}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without a base: %v", err)
	}
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: "pets.jsonlist", Text: "cow"}, chunk.Document{ID: "pets.jsonl/x", Text: "cow"}); err != nil {
		t.Fatal(err)
	}
	f := func(name, text string, want library.FileReport, ids ...string) {
		t.Helper()
		r, err := l.PutFile(t.Context(), "kb", library.File{Name: name, Raw: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(append(ids, "pets.jsonl/x", "pets.jsonlist"), documentIDs(l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	const ant, bee = `{"id":"ant","text":"ant"}` + "\n", `{"id":"bee","text":"bee"}` + "\n"
	f("pets.jsonl", ant+bee, library.FileReport{Documents: 2, Created: 2, Changed: 2}, "pets.jsonl#ant", "pets.jsonl#bee")
	f("pets.jsonl", ant+bee, library.FileReport{Documents: 2}, "pets.jsonl#ant", "pets.jsonl#bee")
	f("pets.jsonl", `{"id":"bee","text":"cow"}`, library.FileReport{Documents: 1, Changed: 1, Removed: 1}, "pets.jsonl#bee")
	f("pets.jsonl", ant+bee+"{", library.FileReport{Documents: 2, Created: 1, Changed: 2, Skip: &folder.Skip{
		Path: "pets.jsonl", Kind: folder.SkipPart, Reason: "line 3 is not JSON",
	}}, "pets.jsonl#ant", "pets.jsonl#bee")
	f("house/a.md", "# Ants\n\nbee", library.FileReport{Documents: 1, Created: 1, Changed: 1}, "house/a.md", "pets.jsonl#ant", "pets.jsonl#bee")
}

// What cannot be read is named, and changes nothing.
func TestPutFileUnread(t *testing.T) {
	l := opened(t, t.TempDir(), library.Options{})
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	before := []byte("ant bee")
	for name, c := range map[string]struct {
		raw  []byte
		kind folder.SkipKind
		text string
	}{
		"a.png":  {before, folder.SkipUnsupported, "PNG is not supported: no text"},
		"a.txt":  {bytes.Repeat([]byte("ant bee\n"), 11<<17), folder.SkipTooLarge, "more than 10 MB; split"},
		"b.txt":  {[]byte("a\x00\x01\xff\xfe\x00b"), folder.SkipNotText, "save as UTF-8"},
		"a.docx": {[]byte("PK not a zip"), folder.SkipBroken, ""},
		"b.docx": {extracttest.ZipBomb(1 << 30), folder.SkipBroken, ""},
		"c.md":   {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: name, Text: "cow"}); err != nil {
				t.Fatal(err)
			}
			r, err := l.PutFile(t.Context(), "kb", library.File{Name: name, Raw: c.raw})
			if c.kind == "" { // an empty text is a document without chunks
				if err != nil || r.Documents != 1 || r.Skip != nil {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
			if err != nil || r.Documents != 0 || r.Skip == nil || r.Skip.Kind != c.kind || !strings.Contains(r.Skip.String(), c.text) {
				t.Fatalf("%+v, %v, %v", r, r.Skip, err)
			}
			if d, err := l.Document(t.Context(), "kb", name); err != nil || len(d.Chunks) != 1 || d.Chunks[0].Text != "cow" {
				t.Errorf("it was changed: %+v, %v", d, err)
			}
		})
	}
}

// The title and the attributes of a file hold for its documents; attributes of a record yield to them.
func TestPutFileAttributes(t *testing.T) {
	l := opened(t, t.TempDir(), library.Options{})
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"team": "hr"}
	r, err := l.PutFile(t.Context(), "kb", library.File{Name: "a.jsonl", Raw: []byte(`{"id":"x","text":"ant","attributes":{"team":"it","year":2024}}`), Title: "T", Attributes: all})
	if err != nil || r.Documents != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if d, err := l.Document(t.Context(), "kb", "a.jsonl#x"); err != nil || d.Attributes["team"] != "hr" || d.Attributes["year"] != 2024.0 || d.Name == "T" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := l.PutFile(t.Context(), "kb", library.File{Name: "b.md", Raw: []byte("bee"), Title: "T", Attributes: all}); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Document(t.Context(), "kb", "b.md"); err != nil || d.Name != "T" || d.Attributes["team"] != "hr" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := l.PutFile(t.Context(), "kb", library.File{Name: "c.md", Raw: []byte("bee"), Attributes: map[string]any{"team": map[string]any{}}}); err == nil {
		t.Error("an attribute that is an object was taken")
	}
}

// A file of many records is written in parts, and all of them are found.
func TestPutFileInParts(t *testing.T) {
	l := opened(t, t.TempDir(), library.Options{})
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	const many = 1300 // more than two parts
	for i := range many {
		fmt.Fprintf(&text, "{\"id\":\"n%04d\",\"text\":\"ant %d\"}\n", i, i)
	}
	r, err := l.PutFile(t.Context(), "kb", library.File{Name: "a.jsonl", Raw: []byte(text.String())})
	if err != nil || r.Documents != many || r.Created != many || len(documentIDs(l)) != many {
		t.Errorf("%+v, %d found, %v", r, len(documentIDs(l)), err)
	}
	r, err = l.PutFile(t.Context(), "kb", library.File{Name: "a.jsonl", Raw: []byte(text.String()[:30])})
	if err != nil || r.Removed != many-1 || len(documentIDs(l)) != 1 {
		t.Errorf("%+v, %d found, %v", r, len(documentIDs(l)), err)
	}
}
