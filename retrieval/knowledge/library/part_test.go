package library_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// cutShort reads a folder until part of it is written.
func (f *testFolder) cutShort(l *library.Library) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	_, err := l.Sync(ctx, folder.Folder{ID: "kb", Path: f.path}, func(p folder.Progress) {
		if p.Done > 256 { // the first batch has been written
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		f.t.Fatalf("read to the end: %v", err)
	}
}

// A base whose folder was not read completely answers from what has been read, in every process,
// and marks the answers as partial.
func TestReadInPart(t *testing.T) {
	dir, f := t.TempDir(), numbered(t, 600)
	l := opened(t, dir, library.Options{})
	f.cutShort(l)
	f.must(l.Close())
	partly := func(when string, want bool) {
		t.Helper()
		for _, readOnly := range []bool{false, true} {
			l := opened(t, dir, library.Options{ReadOnly: readOnly})
			b := l.Base("kb")
			res, err := retrieval.WithTexts{Next: b}.Retrieve(t.Context(), retrieval.Query{Text: "ant", Settings: retrieval.DefaultSettings()})
			wanted := retrieval.ReasonNone
			if want {
				wanted = retrieval.ReasonIndexing
			}
			if err != nil || len(res.Sources) == 0 || b.Content().Partial() != want || res.Partial != want || res.Reason != wanted {
				t.Errorf("%s: in part: %v, %d sources of %d documents, %q, %v", when, res.Partial, len(res.Sources), b.Content().Documents(), res.Reason, err)
			}
			f.must(l.Close())
		}
	}
	partly("after the first", true)

	// Reading continues where it stopped: what was read is not read again.
	l = opened(t, dir, library.Options{})
	r := follow(t, dir, nil)
	held := l.Base("kb").Content().Documents()
	if report := f.sync(l); held < 256 || held >= 600 || report.Unchanged != held {
		t.Errorf("%d documents were there, %d are as they were", held, report.Unchanged)
	}
	sees(t, r.Base("kb"), l.Base("kb").Ref().Generation, 20*time.Second)
	f.must(l.Close())
	partly("read to the end", false)

	// The same if the base was complete and much has changed.
	l = opened(t, dir, library.Options{})
	for i := range 600 {
		f.write(numberedName(i), fmt.Sprintf("ant again %d", i))
	}
	f.cutShort(l)
	f.must(l.Close())
	partly("after the second", true)
}
