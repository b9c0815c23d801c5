package library_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A library that knows from its last Sync which documents come from which file does the same as one
// that reads that from the store, also where several files and Put give documents the same id.
func TestListingDoesNotShow(t *testing.T) {
	keeps, forgets := opened(t, t.TempDir(), library.Options{}), opened(t, t.TempDir(), library.Options{})
	f := newFolder(t, nil)
	kept := 0
	rapid.Check(t, func(r *rapid.T) {
		for _, l := range []*library.Library{keeps, forgets} {
			f.must(l.CreateBase(t.Context(), "kb"))
			f.must(l.DeleteBase(t.Context(), "kb"))
		}
		f.must(os.RemoveAll(f.path))
		f.must(os.Mkdir(f.path, 0o755))
		for range rapid.IntRange(2, 12).Draw(r, "steps") {
			changeOneFile(r, f)
			if rapid.IntRange(0, 3).Draw(r, "put") == 0 {
				d := chunk.Document{ID: rapid.SampledFrom([]string{"a.jsonl#1", "b.jsonl#c.md", "d.md"}).Draw(r, "id"), Text: "put"}
				for _, l := range []*library.Library{keeps, forgets} {
					f.must(l.CreateBase(t.Context(), "kb"))
					_, err := l.Put(t.Context(), "kb", d)
					f.must(err)
				}
			}
			forgets.ForgetListing("kb")
			if keeps.Listed("kb") {
				kept++
			}
			if diff := cmp.Diff(updated(t, forgets, f), updated(t, keeps, f), cmpopts.EquateErrors()); diff != "" {
				r.Fatalf("report (-without a listing +with one):\n%s", diff)
			}
			if diff := cmp.Diff(contents(t, forgets), contents(t, keeps), cmpopts.IgnoreFields(store.Entry{}, "Row")); diff != "" {
				r.Fatalf("documents (-without a listing +with one):\n%s", diff)
			}
		}
	})
	if kept == 0 {
		t.Error("no listing was kept")
	}
}

// changeOneFile writes, touches or removes a file. Ids of records in some are names of others.
func changeOneFile(r *rapid.T, f *testFolder) {
	name := rapid.SampledFrom([]string{"a.jsonl", "b.jsonl", "b.jsonl#c.md", "d.md", "e/a.jsonl"}).Draw(r, "file")
	path := filepath.Join(f.path, name)
	_, err := os.Stat(path)
	switch there := err == nil; {
	case there && rapid.IntRange(0, 3).Draw(r, "gone") == 0:
		f.must(os.Remove(path))
	case there && rapid.Bool().Draw(r, "touch"):
		f.touch(name)
	case strings.HasSuffix(name, ".md"):
		f.write(name, rapid.SampledFrom([]string{"ant", "bee"}).Draw(r, "text"))
	default:
		var lines []string
		for _, id := range rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2", "c.md"}), 1, 4).Draw(r, "ids") {
			lines = append(lines, fmt.Sprintf(`{"id": %q, "text": %q}`, id, rapid.SampledFrom([]string{"ant", "bee"}).Draw(r, "text")))
		}
		f.write(name, strings.Join(lines, "\n"))
	}
}

func updated(t *testing.T, l *library.Library, f *testFolder) folder.Report {
	t.Helper()
	report, err := l.Update(t.Context(), folder.Folder{ID: "kb", Path: f.path, AcceptDeletions: true}, nil)
	f.must(err)
	return report
}

func contents(t *testing.T, l *library.Library) []store.Entry {
	t.Helper()
	list, err := l.Documents(t.Context(), "kb", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
