package library_test

import (
	"testing"
	"testing/fstest"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// If new rules give the documents of a folder another audience, those that cannot be read just
// then are no longer found with the old one.
func TestNewRulesKeepNothingUnread(t *testing.T) {
	files := denied{fstest.MapFS{
		"a.md":   {Data: []byte("ant")},
		"d/b.md": {Data: []byte("ant")},
		"c.md":   {Data: []byte("ant")},
	}, map[string]bool{}}
	l := opened(t, store.Memory, library.Options{})
	sync := func(audience string) {
		t.Helper()
		if _, err := l.SyncFS(t.Context(), files, folder.Folder{ID: "kb", Attributes: map[string]any{"audience": audience}}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(audience string) int {
		t.Helper()
		got, err := retrieval.WithTexts{Next: l.Base("kb")}.Retrieve(t.Context(), retrieval.Query{
			Text: "ant", Settings: retrieval.DefaultSettings(),
			Filter: &filter.Filter{Type: filter.Eq, Key: "audience", Value: audience},
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Sources)
	}
	sync("public")
	if n := count("public"); n != 3 {
		t.Fatalf("%d public documents, want 3", n)
	}
	files.names["a.md"], files.names["d"] = true, true
	sync("staff")
	if public, staff := count("public"), count("staff"); public != 0 || staff != 1 {
		t.Errorf("%d public and %d staff documents, want 0 and 1", public, staff)
	}
	files.names["a.md"], files.names["d"] = false, false
	sync("staff")
	if public, staff := count("public"), count("staff"); public != 0 || staff != 3 {
		t.Errorf("%d public and %d staff documents, want 0 and 3", public, staff)
	}
}

// A file of another folder is read even if it has the name, size and time of the previous one, as
// in images whose files all have one time.
func TestOtherFolderIsRead(t *testing.T) {
	l := opened(t, store.Memory, library.Options{})
	texts := map[string]string{"a.md": "", "same.md": "bee"}
	for _, path := range []string{"one", "two"} {
		texts["a.md"] = "ant " + path
		files := fstest.MapFS{}
		for name, text := range texts {
			files[name] = &fstest.MapFile{Data: []byte(text), ModTime: time.Unix(1, 0)}
		}
		if _, err := l.SyncFS(t.Context(), files, folder.Folder{ID: "kb", Path: path}); err != nil {
			t.Fatal(err)
		}
		sameAnswers(t, l.Base("kb"), fresh(t, documents(texts)))
	}
}
