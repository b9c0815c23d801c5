package library_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

func deps() knowledge.Deps {
	return knowledge.Deps{Counter: knowledgetest.FourBytes{}, Version: "test", Neutralise: func(_, s string) string { return strings.ReplaceAll(s, "<", "(") }}
}

// opened opens a folder. Any Trouble fails the test, except that vectors made of words find no more
// than words.
func opened(t testing.TB, dir string, o library.Options) *library.Library {
	t.Helper()
	if o.Trouble == nil {
		o.Trouble = func(trouble library.Trouble) {
			if !errors.Is(trouble.Err, library.ErrNoGain) {
				t.Errorf("trouble: %+v", trouble)
			}
		}
	}
	l, err := library.OpenLoaded(t.Context(), dir, deps(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// fresh returns a new base with the given documents.
func fresh(t fatal, documents map[string]chunk.Document) *knowledge.Base {
	t.Helper()
	c, _, err := knowledge.FromDocuments(context.Background(), slices.Collect(maps.Values(documents)), deps())
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("kb")
	b.Swap(c)
	return b
}

// questions have answers in the texts that handbook and word draw.
func questions() []string {
	return []string{"parental leave", "ant bee", "cat", "ant dog elk laptop", "holidays of the company", "Lisbon"}
}

// sameAnswers compares all answers of two bases.
func sameAnswers(t fatal, got, want *knowledge.Base) {
	t.Helper()
	if diff := cmp.Diff(want.Ref(), got.Ref()); diff != "" {
		t.Fatalf("generation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Collect(want.Content().All()), slices.Collect(got.Content().All())); diff != "" {
		t.Fatalf("chunks (-want +got):\n%s", diff)
	}
	if g, w := got.Content(), want.Content(); g.Documents() != w.Documents() || g.Chunks() != w.Chunks() {
		t.Fatalf("%d documents, %d chunks; want %d, %d", g.Documents(), g.Chunks(), w.Documents(), w.Chunks())
	}
	if diff := cmp.Diff(want.Content().Attributes(), got.Content().Attributes()); diff != "" {
		t.Fatalf("attributes (-want +got):\n%s", diff)
	}
	for i, text := range questions() {
		q := retrieval.Query{Text: text, Settings: retrieval.DefaultSettings()}
		if i%2 == 1 {
			q.Filter = &filter.Filter{Type: filter.In, Key: "k", Value: []any{"ant", 1.0}}
		}
		g, err := retrieval.WithTexts{Next: got}.Retrieve(context.Background(), q)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		w, _ := retrieval.WithTexts{Next: want}.Retrieve(context.Background(), q)
		if got.Content().Partial() { // the same, but marked as partial
			w.Partial, w.Reason = true, retrieval.ReasonIndexing
		}
		if diff := cmp.Diff(w, g, cmpopts.IgnoreFields(retrieval.Result{}, "Took")); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A past is a history of changes of a library, with the documents that it must hold.
type past struct {
	t         *rapid.T
	dir       string
	files     string // the folder to read
	library   *library.Library
	documents map[string]chunk.Document
	synced    map[string]chunk.Document // by file, as of the last Sync
	present   map[string]chunk.Document
	clock     time.Time
}

func (p *past) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) open() {
	var err error
	p.library, err = library.OpenLoaded(context.Background(), p.dir, deps(), library.Options{
		Trouble: func(trouble library.Trouble) {
			if !strings.Contains(trouble.Err.Error(), trouble.File) || trouble.File == "" {
				panic(fmt.Sprintf("unclear: %+v", trouble))
			}
		},
	})
	p.must(err)
}

// draw draws a text with few distinct words, so that there are many ties.
func (p *past) draw() string {
	word := rapid.SampledFrom([]string{"ant", "bee", "cat", "dog", "elk", "# T\n\n", "\n\n## S\n\n", strings.Repeat("fox ", 150)})
	return strings.Join(rapid.SliceOfN(word, 0, 6).Draw(p.t, "words"), " ")
}

func (p *past) put(*rapid.T) {
	var documents []chunk.Document
	for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d][0-3]`), 1, 3, rapid.ID[string]).Draw(p.t, "ids") {
		d := chunk.Document{ID: id, Name: rapid.SampledFrom([]string{"", "ant"}).Draw(p.t, "name"), Text: p.draw(), Markdown: rapid.Bool().Draw(p.t, "markdown"), Attributes: knowledgetest.DrawAttributes(p.t)}
		documents, p.documents[id] = append(documents, d), d
	}
	_, err := p.library.Put(context.Background(), "kb", documents...)
	p.must(err)
	if n, err := p.library.Put(context.Background(), "kb", documents...); n != 0 || err != nil {
		p.t.Fatalf("put again: %d changed, %v", n, err)
	}
}

func (p *past) remove(*rapid.T) {
	ids := rapid.SliceOfN(rapid.StringMatching(`[a-d][0-3]`), 1, 5).Draw(p.t, "ids")
	for _, id := range ids {
		delete(p.documents, id)
	}
	p.must(p.library.Delete(context.Background(), "kb", ids...))
}

func (p *past) edit(*rapid.T) {
	name := rapid.StringMatching(`(x|y/z)[0-3]\.(md|txt)`).Draw(p.t, "file")
	path := filepath.Join(p.files, name)
	if rapid.IntRange(0, 3).Draw(p.t, "gone") == 0 {
		_ = os.Remove(path)
		delete(p.present, name)
		return
	}
	text := p.draw()
	p.must(os.MkdirAll(filepath.Dir(path), 0o755))
	p.must(os.WriteFile(path, []byte(text), 0o600))
	p.clock = p.clock.Add(time.Hour)
	p.must(os.Chtimes(path, p.clock, p.clock))
	p.present[name] = chunk.Document{ID: name, Text: text, Markdown: strings.HasSuffix(name, ".md")}
}

func (p *past) sync(*rapid.T) {
	report, err := p.library.Sync(context.Background(), folder.Folder{ID: "kb", Path: p.files}, nil)
	p.must(err)
	if report.Files != len(p.present) || len(report.Skipped) > 0 {
		p.t.Fatalf("report %+v of %d files", report, len(p.present))
	}
	p.synced = maps.Clone(p.present)
}

func (p *past) reopen(*rapid.T) {
	p.must(p.library.Close())
	p.open()
}

// damage damages or removes a segment file while the library is closed.
func (p *past) damage(t *rapid.T) {
	p.must(p.library.Close()) // also ends merges, which write and remove files
	defer p.open()
	files, err := filepath.Glob(filepath.Join(p.dir, "segments", "*"))
	p.must(err)
	if len(files) == 0 {
		return
	}
	name := rapid.SampledFrom(files).Draw(t, "file")
	image, err := os.ReadFile(name)
	p.must(err)
	if at := rapid.IntRange(0, 200).Draw(t, "at"); at == 200 {
		p.must(os.Remove(name))
	} else {
		image[at*len(image)/200] ^= 0x10
		p.must(os.WriteFile(name, image, 0o600))
	}
}

func (p *past) check(*rapid.T) {
	all := maps.Clone(p.synced)
	maps.Copy(all, p.documents)
	// A search that finds damage fails, and that segment is repaired shortly after; there may be
	// several.
	for range 15 {
		c, left := p.library.Base("kb").Content(), 0
		for range c.All() {
			left++
		}
		p.library.Quiet()
		if left == c.Chunks() {
			break
		}
	}
	sameAnswers(p.t, p.library.Base("kb"), fresh(p.t, all))
}

// Whatever the history of documents, the answers depend only on the current documents.
func TestPastDoesNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "library")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		p := &past{
			t: t, dir: filepath.Join(dir, "state"), files: filepath.Join(dir, "files"), clock: time.Now().Add(-1e6 * time.Hour / 100),
			documents: map[string]chunk.Document{}, synced: map[string]chunk.Document{}, present: map[string]chunk.Document{},
		}
		p.must(os.Mkdir(p.files, 0o755))
		p.open()
		defer func() { _ = p.library.Close() }()
		p.must(p.library.CreateBase(context.Background(), "kb"))
		step := rapid.SampledFrom([]func(*rapid.T){p.put, p.put, p.put, p.remove, p.edit, p.edit, p.sync, p.reopen, p.damage, p.check})
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			step.Draw(t, "step")(t)
		}
		p.check(t)
	})
}

// Segments do not accumulate, and those of removed documents are removed.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, library.Options{})
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	documents := map[string]chunk.Document{}
	n := 40
	if testing.Short() {
		n = 2*index.MergeAt + 2
	}
	for i := range n {
		d := chunk.Document{ID: fmt.Sprintf("d%d", i), Text: fmt.Sprintf("ant bee %d", i)}
		documents[d.ID] = d
		if _, err := l.Put(t.Context(), "kb", d); err != nil {
			t.Fatal(err)
		}
		l.Quiet()
		if n := len(library.Files(l.Base("kb"))); n > index.MergeAt {
			t.Fatalf("%d segments", n)
		}
	}
	sameAnswers(t, l.Base("kb"), fresh(t, documents))
	for id := range documents {
		if err := l.Delete(t.Context(), "kb", id); err != nil {
			t.Fatal(err)
		}
	}
	l.Quiet()
	if files := library.Files(l.Base("kb")); len(files) != 0 {
		t.Errorf("segments of nothing: %v", files)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "segments")); len(left) != 0 || err != nil {
		t.Errorf("files of nothing: %v, %v", left, err)
	}
}

// Only one process writes a folder, and a second one gets an error that names the first.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	opened(t, dir, library.Options{Address: "127.0.0.1:8081"})
	var locked *store.LockedError
	_, err := library.OpenLoaded(t.Context(), dir, deps(), library.Options{})
	if !errors.As(err, &locked) || locked.Address != "127.0.0.1:8081" {
		t.Errorf("got %v", err)
	}
}

// Row K9 of deploy/CONTRIBUTING.md.
func TestPutRefuses(t *testing.T) {
	l := opened(t, store.Memory, library.Options{})
	if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: "a"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no base: %v", err)
	}
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	for name, documents := range map[string][]chunk.Document{
		"no id":      {{Text: "x"}},
		"twice":      {{ID: "a"}, {ID: "a"}},
		"unprint":    {{ID: "a\nb"}},
		"not UTF-8":  {{ID: "a", Text: "\xff"}},
		"too large":  {{ID: "a"}, {ID: "b", Text: strings.Repeat("word ", 64<<20/5+1)}},
		"wrong name": {{ID: "a", Name: "\xff"}},
		"attribute":  {{ID: "b"}, {ID: "a", Attributes: map[string]any{"k": map[string]any{}}}},
	} {
		if _, err := l.Put(t.Context(), "kb", documents...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := l.Base("kb").Content().Documents(); n != 0 {
		t.Errorf("%d documents of what was refused", n)
	}
	if err := l.DeleteBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteBase(t.Context(), "kb"); !errors.Is(err, store.ErrNotFound) || len(l.Bases()) != 0 {
		t.Errorf("deleted twice: %v, %v", err, l.Bases())
	}
	if _, err := l.Base("kb").Retrieve(t.Context(), retrieval.Query{Text: "x"}); !errors.Is(err, retrieval.ErrUnavailable) {
		t.Errorf("a base that is gone: %v", err)
	}
}
