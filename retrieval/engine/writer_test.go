package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/services"
)

// newWriter returns a Writer of a base, and a Server for it.
func newWriter(t *testing.T, s engine.Server, p engine.Passages) *engine.Writer {
	t.Helper()
	if err := s.Init(t.Context(), "docs"); err != nil {
		t.Fatal(err)
	}
	return engine.NewWriter(engine.WriterOptions{Server: s, Base: "docs", Owner: "a test", Deps: enginetest.Deps(), Passages: p})
}

// newFolder returns a folder with files that were written long ago.
func newFolder(t *testing.T, files map[string]string) folder.Folder {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	return folder.Folder{ID: "docs", Path: dir}
}

func synced(t *testing.T, w *engine.Writer, f folder.Folder) engine.State {
	t.Helper()
	defer func() {
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return state(t, w, f)
}

// state returns the state after a Sync.
func state(t *testing.T, w *engine.Writer, f folder.Folder) engine.State {
	t.Helper()
	if _, err := w.Sync(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
	states, err := w.Server.States(t.Context(), []string{"docs"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// A base whose model changes gets vectors of the new model.
func TestChangeOfModelEmbedsAnew(t *testing.T) {
	s, f := new(enginetest.Memory), newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n", "b.md": "# B\n\nbeta text\n"})
	old, other := &enginetest.Vectors{Dimensions: 8, Model: "old"}, &enginetest.Vectors{Dimensions: 16, Model: "new"}
	synced(t, newWriter(t, s, old), f)
	state := synced(t, newWriter(t, s, other), f)
	if other.Sent != 2 || state.Dimensions != 16 || state.Space != other.Space().String() {
		t.Errorf("%d passages sent, state %+v", other.Sent, state)
	}
}

// A writer without a model keeps vectors that are there.
func TestWriterWithoutModelKeepsVectors(t *testing.T) {
	s, f := new(enginetest.Memory), newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n", "b.md": "# B\n\nbeta text\n"})
	v := &enginetest.Vectors{Dimensions: 8}
	before := synced(t, newWriter(t, s, v), f)
	if after := synced(t, newWriter(t, s, nil), f); after != before {
		t.Errorf("state %+v, before %+v", after, before)
	}
}

// An away makes no vectors.
type away struct{ enginetest.Vectors }

var errAway = errors.New("no answer")

func (*away) Passages(context.Context, []string) (services.Passages, error) {
	return services.Passages{}, errAway
}

// While no vectors can be made, documents are written once, and their vectors as soon as they can.
func TestDocumentsWithoutVectorsAreWrittenOnce(t *testing.T) {
	s, f := new(enginetest.Memory), newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n", "b.md": "# B\n\nbeta text\n"})
	w := newWriter(t, s, &away{enginetest.Vectors{Dimensions: 8}})
	for run, written := range []int{2, 0, 0, 2, 0} {
		report, err := w.Sync(t.Context(), f, nil)
		_, down := w.Passages.(*away)
		if err != nil || report.Written != written || report.Unchanged != 2-written || errors.Is(w.Embedding.Err, errAway) != down {
			t.Errorf("%d written, %d unchanged, %v, %v; want %d written", report.Written, report.Unchanged, err, w.Embedding.Err, written)
		}
		if run == 2 {
			w.Passages = &enginetest.Vectors{Dimensions: 8}
		}
	}
}

// A Writer that lost its base to another one, which wrote another folder, writes all of its own again.
func TestWriterReadsAllAfterAnotherOneWrote(t *testing.T) {
	s := new(enginetest.Memory)
	one, other := newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n"}), newFolder(t, map[string]string{"b.md": "# B\n\nbeta text\n"})
	other.AcceptDeletions, one.AcceptDeletions = true, true
	w := newWriter(t, s, nil)
	before := synced(t, w, one)
	synced(t, newWriter(t, s, nil), other)
	if after := synced(t, w, one); after.Generation != before.Generation {
		t.Errorf("state %+v, want %+v", after, before)
	}
}

// Files that were moved away and back, as they were, are written again.
func TestFilesMovedAwayAndBack(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n", "sub/b.md": "# B\n\nbeta text\n"})
	f.AcceptDeletions = true
	w := newWriter(t, new(enginetest.Memory), nil)
	before := state(t, w, f)
	sub, elsewhere := filepath.Join(f.Path, "sub"), filepath.Join(t.TempDir(), "sub")
	if err := os.Rename(sub, elsewhere); err != nil {
		t.Fatal(err)
	}
	if s := state(t, w, f); s.Documents != 1 {
		t.Fatalf("state %+v without the folder", s)
	}
	if err := os.Rename(elsewhere, sub); err != nil {
		t.Fatal(err)
	}
	if after := state(t, w, f); after.Generation != before.Generation {
		t.Errorf("state %+v, before %+v", after, before)
	}
}

// Files whose documents could not be written are read again.
func TestWriterReadsAgainWhatWasNotWritten(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n"})
	m := new(enginetest.Memory)
	w, full := newWriter(t, m, nil), errors.New("disk full")
	m.Before = func(method string) error {
		if method == "Put" {
			return full
		}
		return nil
	}
	if _, err := w.Sync(t.Context(), f, nil); !errors.Is(err, full) {
		t.Fatalf("got %v, want %v", err, full)
	}
	m.Before = nil
	if s := state(t, w, f); s.Documents != 1 {
		t.Errorf("state %+v", s)
	}
}

// A Writer whose lease could not be renewed while it had nothing to do goes on when the engine answers.
func TestIdleWriterGoesOnAfterAnOutage(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n"})
	synctest.Test(t, func(t *testing.T) {
		m := new(enginetest.Memory)
		var down atomic.Bool
		m.Before = func(string) error {
			time.Sleep(time.Millisecond)
			if down.Load() {
				return errors.New("no answer")
			}
			return nil
		}
		w := newWriter(t, m, nil)
		defer func() {
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		before := state(t, w, f)
		down.Store(true)
		time.Sleep(2 * time.Minute)
		if _, err := w.Sync(t.Context(), f, nil); err == nil {
			t.Error("no error without an engine")
		}
		down.Store(false)
		if after := state(t, w, f); after.Generation != before.Generation {
			t.Errorf("state %+v, before %+v", after, before)
		}
	})
}

// A hung is a Server whose Put waits, as one behind a network that drops all packets, and whose
// leases cannot be renewed.
type hung struct{ engine.Server }

func (h hung) Acquire(ctx context.Context, base, owner string, ttl time.Duration) (engine.Lease, error) {
	l, err := h.Server.Acquire(ctx, base, owner, ttl)
	return hungLease{l}, err
}

type hungLease struct{ engine.Lease }

func (hungLease) Put(ctx context.Context, _ []engine.Document, _ []string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hungLease) Renew(context.Context) error { return errors.New("no answer") }

// A Writer whose lease cannot be renewed stops when another one may have taken over.
func TestWriterStopsWhenItsLeaseEnds(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "# A\n\nalpha text\n"})
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, hung{&enginetest.Memory{}}, nil)
		start := time.Now()
		_, err := w.Sync(t.Context(), f, nil)
		if took := time.Since(start); !errors.Is(err, engine.ErrLeaseLost) || took > time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// A file that says the same as another one in another format is written when that one is gone.
func TestFileIsWrittenWhenItsTwinIsGone(t *testing.T) {
	text := strings.Repeat("alpha beta gamma delta words of a page. ", 20)
	f := newFolder(t, map[string]string{"a.md": "# A\n\n" + text + "\n", "a.html": "<h1>A</h1><p>" + text + "</p>"})
	f.AcceptDeletions = true
	w := newWriter(t, new(enginetest.Memory), nil)
	if s := state(t, w, f); s.Documents != 1 {
		t.Fatalf("state %+v with both", s)
	}
	for _, name := range []string{"a.md", "a.html"} {
		path, elsewhere := filepath.Join(f.Path, name), filepath.Join(t.TempDir(), name)
		if err := os.Rename(path, elsewhere); err != nil {
			t.Fatal(err)
		}
		if s := state(t, w, f); s.Documents != 1 {
			t.Errorf("state %+v without %s", s, name)
		}
		if err := os.Rename(elsewhere, path); err != nil {
			t.Fatal(err)
		}
		state(t, w, f)
	}
}

// Words of documents that do not pass the filter correct no word of a question.
func TestHiddenWordsCorrectNothing(t *testing.T) {
	server := new(enginetest.Memory)
	b := enginetest.NewBase(t, func(*testing.T, string) engine.Server { return server }, "docs", nil)
	b.Fill(t, []chunk.Document{
		{ID: "open.md", Text: "Parental leave takes twenty weeks.", Attributes: map[string]any{"audience": "all"}},
		{ID: "secret.md", Text: "The acquisition of Zanzibarium.", Attributes: map[string]any{"audience": "board"}},
	})
	q := retrieval.Query{Text: "leave of zanzibarum", Bases: []retrieval.Ref{b.Ref()}}
	q.Settings.NumCandidates = 10
	for audience, want := range map[string]string{"board": "zanzibarium", "all": "zanzibarum"} {
		q.Filter = &filter.Filter{Type: filter.Eq, Key: "audience", Value: audience}
		told, err := b.Engine().Explain(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var terms []string
		for _, term := range told.Terms {
			terms = append(terms, term.Text)
		}
		if len(terms) != 2 || terms[1] != want {
			t.Errorf("for %s: terms %q, want %s among them", audience, terms, want)
		}
	}
}
