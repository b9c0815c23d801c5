package library_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A base never answers from the documents of another folder or by old rules: not after a restart,
// and not while it is being read again.
func TestSyncAnotherFolder(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := newFolder(t, map[string]string{"a.md": "ant bee"}), newFolder(t, map[string]string{"b.md": "ant cat"})
	l := opened(t, dir, library.Options{})
	ours.sync(l)
	ours.must(l.Close())

	var changes []string
	l = opened(t, dir, library.Options{Changed: func(id string) { changes = append(changes, id) }})
	rules := folder.Folder{ID: "kb", Path: theirs.path}
	l.Base("kb").Swap(nil)
	ours.must(l.Load(t.Context(), func(b store.Base) bool { return b.Origin == rules.Origin() }))
	if c := l.Base("kb").Content(); c != nil {
		t.Fatalf("%d documents of another folder answer", c.Documents())
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := l.Sync(ctx, rules, func(folder.Progress) { cancel() }); err == nil {
		t.Fatal("a Sync that was stopped succeeded")
	}
	ours.must(l.Close())
	l = opened(t, dir, library.Options{})
	if c := l.Base("kb").Content(); c != nil {
		t.Fatalf("%d documents of two folders answer", c.Documents())
	}
	theirs.sync(l)
	sameAnswers(t, l.Base("kb"), fresh(t, documents(map[string]string{"b.md": "ant cat"})))
	if len(changes) == 0 {
		t.Error("nobody was told of changes")
	}

	origins := map[string]bool{rules.Origin(): true}
	for _, f := range []folder.Folder{
		{Attributes: map[string]any{"audience": "all"}}, {Attributes: map[string]any{"audience": 1}}, {PathPattern: "{a}/**"}, {PathPattern: "{"}, {FrontMatter: []string{"a"}}, {Exclude: []string{"b.*"}},
	} {
		f.Path = rules.Path
		if origins[f.Origin()] {
			t.Errorf("%+v: the same as others", f)
		}
		origins[f.Origin()] = true
	}
	rules.Exclude = []string{"b.*"}
	var during []*knowledge.Content
	report, err := l.Sync(t.Context(), rules, func(folder.Progress) { during = append(during, l.Base("kb").Content()) })
	if err != nil || report.Removed != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, c := range during {
		if c != nil {
			t.Error("what is excluded answers while the rest is being read")
		}
	}
	if c := l.Base("kb").Content(); c == nil || c.Documents() != 0 {
		t.Errorf("what is excluded answers: %+v", c)
	}
}

// New rules give the documents of files new attributes, even if no file has changed; documents
// written by Put are unchanged, and documents with the same attributes are not written again. The
// result equals that of a fresh base.
func TestSyncOfOtherRules(t *testing.T) {
	f := newFolder(t, map[string]string{"de/a.md": "---\nowner: hr\n---\n# Leave\n\nant", "en/b.md": "# Other\n\nbee", "c.txt": "cat"})
	dir := filepath.Join(t.TempDir(), "state")
	l := opened(t, dir, library.Options{})
	put := chunk.Document{ID: "put", Text: "dog", Attributes: map[string]any{"lang": "fr", "n": 1, "tags": []any{"x"}}}
	rules := folder.Folder{ID: "kb", Path: f.path}
	sync := func() (rows map[string]int64) {
		t.Helper()
		if _, err := l.Sync(t.Context(), rules, nil); err != nil {
			t.Fatal(err)
		}
		rows = map[string]int64{}
		list, err := l.Documents(t.Context(), "kb", "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			rows[e.ID] = e.Row
		}
		return rows
	}
	sync()
	if _, err := l.Put(t.Context(), "kb", put); err != nil {
		t.Fatal(err)
	}
	before := sync()
	check := func(written int, want map[string]map[string]any) {
		t.Helper()
		rows, again := sync(), sync()
		if diff := cmp.Diff(rows, again); diff != "" {
			t.Errorf("written again (-before +after):\n%s", diff)
		}
		n := 0
		for id, row := range rows {
			if before[id] != row {
				n++
			}
		}
		if before = rows; n != written {
			t.Errorf("%d documents were written, want %d", n, written)
		}
		if changed, err := l.Put(t.Context(), "kb", put); changed != 0 || err != nil {
			t.Errorf("put again: %d changed, %v", changed, err)
		}
		want["put"] = map[string]any{"lang": "fr", "n": 1.0, "tags": []string{"x"}}
		documents := documents(map[string]string{"de/a.md": "---\nowner: hr\n---\n# Leave\n\nant", "en/b.md": "# Other\n\nbee", "c.txt": "cat"})
		documents["put"] = put
		for id, d := range documents {
			d.Attributes = want[id]
			documents[id] = d
			if e, err := l.Document(t.Context(), "kb", id); err != nil || !cmp.Equal(e.Attributes, want[id]) {
				t.Errorf("%s in the store: %v, %v; want %v", id, e.Attributes, err, want[id])
			}
		}
		sameAnswers(t, l.Base("kb"), fresh(t, documents))
	}
	check(0, map[string]map[string]any{})
	rules.PathPattern = "{lang}/**"
	check(2, map[string]map[string]any{"de/a.md": {"lang": "de"}, "en/b.md": {"lang": "en"}})
	rules.FrontMatter = []string{"owner", "lang"}
	check(1, map[string]map[string]any{"de/a.md": {"lang": "de", "owner": "hr"}, "en/b.md": {"lang": "en"}})
	rules.FrontMatter = []string{"lang", "owner", "lang"} // the same rules
	check(0, map[string]map[string]any{"de/a.md": {"lang": "de", "owner": "hr"}, "en/b.md": {"lang": "en"}})
	rules.Attributes = map[string]any{"lang": "xx", "year": 7}
	all := map[string]any{"lang": "xx", "year": 7.0}
	check(3, map[string]map[string]any{"de/a.md": {"lang": "xx", "year": 7.0, "owner": "hr"}, "en/b.md": all, "c.txt": all})
	rules = folder.Folder{ID: "kb", Path: f.path}
	check(3, map[string]map[string]any{})

	// Another process, and segments made again, give the same answers.
	rules.Attributes = map[string]any{"lang": "xx"}
	sync()
	q := retrieval.Query{Text: "ant bee cat dog", Settings: retrieval.DefaultSettings(), Filter: &filter.Filter{Type: filter.Eq, Key: "lang", Value: "xx"}}
	want, err := retrieval.WithTexts{Next: l.Base("kb")}.Retrieve(t.Context(), q)
	if err != nil || len(want.Sources) != 3 {
		t.Fatalf("%d sources, %v", len(want.Sources), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, segments := range []string{"there", "gone"} {
		if segments == "gone" {
			if err := os.RemoveAll(filepath.Join(dir, "segments")); err != nil {
				t.Fatal(err)
			}
		}
		l := opened(t, dir, library.Options{Trouble: func(library.Trouble) {}})
		got, err := retrieval.WithTexts{Next: l.Base("kb")}.Retrieve(t.Context(), q)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(retrieval.Result{}, "Took")); diff != "" || err != nil {
			t.Errorf("segments are %s: %v (-want +got):\n%s", segments, err, diff)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
