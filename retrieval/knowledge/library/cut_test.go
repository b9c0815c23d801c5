//go:build unix

package library_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// Truncating a segment while it is searched, listed, changed or followed does not crash the
// process: it is reported and made again.
func TestCutSegment(t *testing.T) {
	for what, read := range map[string]func(w, r *library.Library) error{
		"searched": func(w, _ *library.Library) error {
			_, err := retrieval.WithTexts{Next: w.Base("kb")}.Retrieve(t.Context(), retrieval.Query{Text: "parental leave", Settings: retrieval.DefaultSettings()})
			return err
		},
		"listed": func(w, _ *library.Library) error {
			w.Base("kb").Content().DocumentAt(0)
			w.Base("kb").Content().Attributes()
			return nil
		},
		"changed": func(w, _ *library.Library) error {
			_, err := w.Put(t.Context(), "kb", chunk.Document{ID: "new", Text: "ant"})
			if err != nil {
				return err
			}
			return w.Delete(t.Context(), "kb", "new")
		},
		"followed": func(_, r *library.Library) error {
			_, err := retrieval.WithTexts{Next: r.Base("kb")}.Retrieve(t.Context(), retrieval.Query{Text: "parental leave", Settings: retrieval.DefaultSettings()})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			var mu sync.Mutex
			var told []string
			trouble := func(x library.Trouble) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, x.File)
			}
			w := opened(t, dir, library.Options{Trouble: trouble})
			newFolder(t, knowledgetest.Handbook()).sync(w)
			r := opened(t, dir, library.Options{Trouble: trouble, ReadOnly: true})
			name := filepath.Join(dir, "segments", library.Files(w.Base("kb"))[0])
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
			if err := read(w, r); err != nil && !strings.Contains(err.Error(), filepath.Base(name)) {
				t.Errorf("named otherwise: %v", err)
			} else if err != nil && what != "changed" && !errors.Is(err, retrieval.ErrUnavailable) {
				t.Errorf("%v", err)
			}
			w.Quiet()
			r.Quiet()
			l := w
			if what == "followed" {
				l = r
			}
			if what == "changed" { // the change that found the damage failed
				if err := read(w, r); err != nil {
					t.Fatal(err)
				}
				w.Quiet()
			}
			sameAnswers(t, l.Base("kb"), fresh(t, documents(knowledgetest.Handbook())))
			mu.Lock()
			defer mu.Unlock()
			if len(told) == 0 || told[0] != filepath.Base(name) {
				t.Errorf("told of %q", told)
			}
		})
	}
}
