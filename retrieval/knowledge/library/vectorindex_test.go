package library_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index/dense"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/services/servicestest"
)

// space is the vector space in tests.
func space() retrieval.Space { return retrieval.Space{Model: "words"} }

// An embedder makes vectors from words.
type embedder struct {
	down  atomic.Bool
	asked atomic.Int64

	mu    sync.Mutex
	embed []string // the requested texts
}

// texts returns the texts that were embedded.
func (e *embedder) texts() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.embed
}

func (e *embedder) Embed(_ context.Context, texts []string) (vectors [][]float32, err error) {
	e.asked.Add(1)
	if e.down.Load() {
		return nil, errors.New("down")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.embed = append(e.embed, texts...)
	for _, text := range texts {
		vectors = append(vectors, servicestest.Vector(text, servicestest.Dimensions))
	}
	return vectors, nil
}

func (e *embedder) Question(ctx context.Context, _, text string) ([]float32, error) {
	v, err := e.Embed(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

// embedded returns options for bases that are searched by vectors.
func embedded(e *embedder) library.Options {
	return library.Options{Space: func(string) (retrieval.Space, bool) { return space(), true }, Questions: e}
}

// keep stores vectors for the chunks of a base that have none, except those that contain a word,
// and indexes them.
func keep(t *testing.T, l *library.Library, without string) (embedded, of int) {
	t.Helper()
	return keepAs(t, l, func(passage string) []float32 {
		if without != "" && strings.Contains(passage, without) {
			return nil
		}
		return servicestest.Vector(passage, servicestest.Dimensions)
	})
}

// keepAs is keep with other vectors; nil is none.
func keepAs(t *testing.T, l *library.Library, vector func(passage string) []float32) (embedded, of int) {
	t.Helper()
	kept := map[store.VectorKey][]byte{}
	for passage := range l.Base("kb").Content().Unembedded() {
		made := vector(passage)
		if made == nil {
			continue
		}
		v, err := dense.Quantize(made)
		if err != nil {
			t.Fatal(err)
		}
		kept[space().Key(passage)] = v
	}
	if err := l.PutVectors(t.Context(), "words", kept); err != nil {
		t.Fatal(err)
	}
	embedded, of, err := l.IndexVectors(t.Context(), "kb")
	if err != nil {
		t.Fatal(err)
	}
	return embedded, of
}

// notes returns documents of two words each, and one on another topic.
func notes(n int) (documents []chunk.Document) {
	for i := range n {
		documents = append(documents, chunk.Document{ID: fmt.Sprintf("n%02d", i), Text: fmt.Sprintf("subject%d common text number%d", i%7, i)})
	}
	return append(documents, chunk.Document{ID: "rare", Text: "holidays beach"})
}

func group(b *knowledge.Base, e *embedder) *knowledge.Group {
	g := &knowledge.Group{Base: func(string) *knowledge.Base { return b }, Start: func(f func(context.Context)) { f(context.Background()) }, Wait: time.Second}
	if e != nil {
		g.Questions = e
	}
	return g
}

// found searches a base, and returns the result and the arms of its sources by document.
func found(t *testing.T, b *knowledge.Base, e *embedder, question string) (retrieval.Result, map[string]retrieval.Arm) {
	t.Helper()
	q := retrieval.Query{Tenant: "t", Text: question, Bases: []retrieval.Ref{{Knowledge: "kb"}}, Settings: retrieval.DefaultSettings()}
	res, err := group(b, e).Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	arms := map[string]retrieval.Arm{}
	for _, s := range res.Sources {
		arms[s.Doc] = s.Arm
	}
	return res, arms
}

// A base answers by words until it has vectors, then by both; each state is another generation,
// which is the same on all machines once everything is embedded. Stored vectors are used again
// after changes, after a restart and in a follower.
func TestVectorsJoinTheSearch(t *testing.T) {
	dir, e := t.TempDir(), new(embedder)
	l := opened(t, dir, embedded(e))
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	put := func(l *library.Library, documents ...chunk.Document) {
		t.Helper()
		if _, err := l.Put(t.Context(), "kb", documents...); err != nil {
			t.Fatal(err)
		}
	}
	put(l, notes(40)...)
	b := l.Base("kb")
	generations := []string{b.Ref().Generation}
	next := func(what string) {
		t.Helper()
		if g := b.Ref().Generation; slices.Contains(generations, g) {
			t.Errorf("%s: the generation is one of before", what)
		} else {
			generations = append(generations, g)
		}
	}
	res, arms := found(t, b, e, "subject3 holidays")
	if len(arms) == 0 || res.Degraded != "" || arms["rare"] != retrieval.ArmNone || e.asked.Load() != 0 {
		t.Errorf("without vectors: %v, degraded %q, asked %d times", arms, res.Degraded, e.asked.Load())
	}
	if n, of := keep(t, l, "subject3"); n == 0 || n == of || of != 41 {
		t.Fatalf("%d of %d are embedded", n, of)
	}
	next("in part")
	if n, of := keep(t, l, ""); n != of || of != 41 {
		t.Fatalf("%d of %d are embedded", n, of)
	}
	next("whole")
	if _, arms = found(t, b, e, "holidays sea"); arms["rare"] == retrieval.ArmNone || len(arms) < 20 {
		t.Errorf("with vectors: %v", arms)
	}
	whole := b.Ref().Generation

	put(l, chunk.Document{ID: "new", Text: "nobody has seen it"})
	next("a document more")
	if n, of := b.Content().Embedded(); n != 41 || of != 42 {
		t.Errorf("%d of %d are embedded", n, of)
	}
	if err := l.Delete(t.Context(), "kb", "new", "n01"); err != nil {
		t.Fatal(err)
	}
	put(l, notes(2)[1])
	if g := b.Ref().Generation; g != whole {
		t.Error("the same documents, all embedded, have another generation than before")
	}

	follower := opened(t, dir, library.Options{ReadOnly: true, Space: embedded(e).Space})
	fresh := opened(t, t.TempDir(), embedded(e))
	if err := fresh.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(notes(40), 9) { // in other segments
		put(fresh, part...)
	}
	keep(t, fresh, "")
	words := opened(t, dir, library.Options{ReadOnly: true})
	if g := words.Base("kb").Ref().Generation; g != generations[0] {
		t.Error("without a space the generation is not that of the words")
	}
	for name, other := range map[string]*knowledge.Base{"follower": follower.Base("kb"), "another machine": fresh.Base("kb")} {
		if other.Ref() != b.Ref() {
			t.Errorf("%s: another generation", name)
		}
		for _, question := range []string{"holidays sea", "subject3 number10", "common"} {
			want, _ := found(t, b, e, question)
			got, _ := found(t, other, e, question)
			if want.Floor != got.Floor || !slices.EqualFunc(want.Sources, got.Sources, func(x, y retrieval.Source) bool {
				return x.Doc == y.Doc && x.Score == y.Score && x.Arm == y.Arm
			}) {
				t.Errorf("%s: %q: floor %v, want %v: %v, want %v", name, question, got.Floor, want.Floor, got.Sources, want.Sources)
			}
		}
	}
}

// If the embedder fails, the base answers as if it had no vectors, and the answer is marked.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestQuestionsWithoutVectors(t *testing.T) {
	e := new(embedder)
	l := opened(t, t.TempDir(), embedded(e))
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(t.Context(), "kb", notes(40)...); err != nil {
		t.Fatal(err)
	}
	b := l.Base("kb")
	want, _ := found(t, b, e, "holidays sea")
	keep(t, l, "")
	if res, _ := found(t, b, e, "holidays sea"); res.Degraded != "" || len(res.Sources) <= len(want.Sources) {
		t.Errorf("degraded %q, %d sources", res.Degraded, len(res.Sources))
	}
	for name, wrong := range map[string]knowledge.Questions{
		"down": questionFunc(func() ([]float32, error) { return nil, errors.New("down") }), "panic": questionFunc(func() ([]float32, error) { panic("no") }),
		"short": questionFunc(func() ([]float32, error) { return []float32{1, 2}, nil }), "none": questionFunc(func() ([]float32, error) { return nil, nil }),
	} {
		g := group(b, e)
		g.Questions = wrong
		q := retrieval.Query{Text: "holidays sea", Bases: []retrieval.Ref{{Knowledge: "kb"}}, Settings: retrieval.DefaultSettings()}
		got, err := g.Retrieve(t.Context(), q)
		if err != nil || got.Degraded != retrieval.StageEmbed || got.Floor != want.Floor || !slices.EqualFunc(want.Sources, got.Sources, func(x, y retrieval.Source) bool {
			return x.Doc == y.Doc && x.Score == y.Score && y.Arm == retrieval.ArmNone
		}) {
			t.Errorf("%s: %v, degraded %q: %v, want %v", name, err, got.Degraded, got.Sources, want.Sources)
		}
	}
}

// A questionFunc embeds any question.
type questionFunc func() ([]float32, error)

func (f questionFunc) Question(context.Context, string, string) ([]float32, error) { return f() }

// A file of vectors that is truncated, changed or of another model costs only the vectors until it
// is made again; the base always answers.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestDamagedVectors(t *testing.T) {
	for name, damage := range map[string]func(image []byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"cut":   func(image []byte) []byte { return image[:len(image)/2] },
		"header": func(image []byte) []byte {
			image[9] ^= 1
			return image
		},
		"vectors": func(image []byte) []byte { // noticed when they are read
			for at := len(image) / 2; at < len(image); at += 16 {
				image[at] ^= 1
			}
			return image
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, e := t.TempDir(), new(embedder)
			l := opened(t, dir, embedded(e))
			if err := l.CreateBase(t.Context(), "kb"); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Put(t.Context(), "kb", notes(40)...); err != nil {
				t.Fatal(err)
			}
			keep(t, l, "")
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "segments", "*.vec"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			image, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(files[0], damage(image), 0o600); err != nil {
				t.Fatal(err)
			}
			var told atomic.Int64
			o := embedded(e)
			o.Trouble = func(trouble library.Trouble) {
				if told.Add(1); !strings.HasSuffix(trouble.File, ".vec") || !strings.Contains(trouble.Err.Error(), trouble.File) {
					t.Errorf("trouble: %+v", trouble)
				}
			}
			l = opened(t, dir, o)
			found(t, l.Base("kb"), e, "holidays sea")
			l.Quiet()
			if told.Load() == 0 {
				t.Error("nothing is told")
			}
			if _, _, err := l.IndexVectors(t.Context(), "kb"); err != nil {
				t.Fatal(err)
			}
			res, _ := found(t, l.Base("kb"), e, "holidays sea")
			if n, of := l.Base("kb").Content().Embedded(); n != of || res.Degraded != "" {
				t.Errorf("%d of %d are embedded, degraded %q", n, of, res.Degraded)
			}
		})
	}
}

// Truncating a file of vectors while it is searched costs that search its vectors; the file is
// made again.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestVectorsAreCut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped")
	}
	dir, e := t.TempDir(), new(embedder)
	o := embedded(e)
	var told atomic.Int64
	o.Trouble = func(trouble library.Trouble) {
		if told.Add(1); !strings.HasSuffix(trouble.File, ".vec") {
			t.Errorf("trouble: %+v", trouble)
		}
	}
	l := opened(t, dir, o)
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(t.Context(), "kb", notes(40)...); err != nil {
		t.Fatal(err)
	}
	keep(t, l, "")
	files, err := filepath.Glob(filepath.Join(dir, "segments", "*.vec"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 10); err != nil {
		t.Fatal(err)
	}
	if res, arms := found(t, l.Base("kb"), e, "subject3 holidays"); res.Degraded != retrieval.StageEmbed || len(arms) == 0 {
		t.Errorf("degraded %q, %v", res.Degraded, arms)
	}
	l.Quiet()
	if res, arms := found(t, l.Base("kb"), e, "subject3 holidays"); res.Degraded != "" || len(arms) == 0 || told.Load() == 0 {
		t.Errorf("afterwards: degraded %q, %v, %d told", res.Degraded, arms, told.Load())
	}
	if n, of := l.Base("kb").Content().Embedded(); n != of {
		t.Errorf("%d of %d are embedded", n, of)
	}
}

// After a merge the vectors are still there, and a follower never sees the merged segment without
// them.
func TestVectorsAreMerged(t *testing.T) {
	dir, e := t.TempDir(), new(embedder)
	l := opened(t, dir, library.Before(embedded(e), func(step string) {
		if step != "committed" {
			return
		}
		follower, err := library.OpenLoaded(context.Background(), dir, deps(), library.Options{ReadOnly: true, Space: embedded(e).Space, Trouble: func(library.Trouble) {}})
		if err != nil {
			t.Error(err)
			return
		}
		if c := follower.Base("kb").Content(); c != nil {
			if n, of := c.Embedded(); n < of-1 { // a new document has none yet
				t.Errorf("a follower sees %d vectors of %d, in %d segments", n, of, len(c.Segments()))
			}
		}
		if err := follower.Close(); err != nil {
			t.Error(err)
		}
	}))
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	for _, d := range notes(12) {
		if _, err := l.Put(t.Context(), "kb", d); err != nil {
			t.Fatal(err)
		}
		keep(t, l, "")
	}
	l.Quiet()
	c := l.Base("kb").Content()
	if n, of := c.Embedded(); n != 13 || of != 13 || len(c.Segments()) >= 13 {
		t.Errorf("%d of %d are embedded, in %d segments", n, of, len(c.Segments()))
	}
}
