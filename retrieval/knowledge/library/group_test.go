package library_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// groupOf returns the group of a library's bases, which measures floors in the background.
func groupOf(t *testing.T, l func() *library.Library) *knowledge.Group {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	return &knowledge.Group{
		Base: func(id string) *knowledge.Base { return l().Base(id) }, Wait: time.Minute,
		Start: func(f func(context.Context)) { running.Go(func() { f(ctx) }) },
	}
}

// A state is the documents of one base at some time.
type state map[string]chunk.Document

// together returns a base of the documents of several, with the ids base/id.
func together(t *testing.T, states map[string]state) *knowledge.Base {
	all := map[string]chunk.Document{}
	for id, s := range states {
		for _, d := range s {
			d.ID = id + "/" + d.ID
			all[d.ID] = d
		}
	}
	return fresh(t, all)
}

// While bases change, each answer is that of one base with all documents of the generations in the
// answer, or is marked as having an estimated floor; the latest changes are used at once.
func TestGroupWhileBasesChange(t *testing.T) {
	var l *library.Library
	var g *knowledge.Group
	l = opened(t, t.TempDir(), library.Options{Changed: func(id string) {
		if g != nil {
			g.Changed(id)
		}
	}})
	g = groupOf(t, func() *library.Library { return l })
	ids := []string{"b0", "b1", "b2"}
	now, past := map[string]state{}, map[retrieval.Ref]state{}
	for _, id := range ids {
		if err := l.CreateBase(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		now[id] = state{}
		past[l.Base(id).Ref()] = state{}
	}
	q := retrieval.Query{Text: "ant bee cat", Settings: retrieval.DefaultSettings()}
	for _, id := range ids {
		q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
	}

	ctx, stop := context.WithCancel(t.Context())
	var searches sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]retrieval.Result{} // by the generations searched
	for range 2 {
		searches.Go(func() {
			for ctx.Err() == nil {
				res, err := retrieval.WithTexts{Next: g}.Retrieve(t.Context(), q)
				if err != nil || len(res.Bases) != len(ids) || res.Partial {
					t.Errorf("while they change: %+v, %v", res, err)
					return
				}
				mu.Lock()
				answers[fmt.Sprint(res.Provisional, res.Bases)] = res
				mu.Unlock()
				runtime.GC() // unmaps unreferenced files
			}
		})
	}
	words := strings.Fields("ant bee cat dog elk fox")
	changes := 45
	if testing.Short() {
		changes = 23 // two of them removals
	}
	for i := range changes {
		id := ids[i%len(ids)]
		d := chunk.Document{ID: fmt.Sprint(i % 7), Text: fmt.Sprintf("%s %s number %d", words[i%len(words)], words[(i*i+1)%len(words)], i)}
		now[id] = maps.Clone(now[id])
		now[id][d.ID] = d
		var err error
		if i%11 == 10 {
			delete(now[id], d.ID)
			err = l.Delete(t.Context(), id, d.ID)
		} else {
			_, err = l.Put(t.Context(), id, d)
		}
		if err != nil {
			t.Fatal(err)
		}
		past[l.Base(id).Ref()] = now[id]
		if res, err := g.Retrieve(t.Context(), q); err != nil || !slices.Contains(res.Bases, l.Base(id).Ref()) {
			t.Fatalf("after a change: %v, %v; want %v", res.Bases, err, l.Base(id).Ref())
		}
	}
	stop()
	searches.Wait()
	for _, got := range answers {
		states := map[string]state{}
		for _, ref := range got.Bases {
			held, known := past[ref]
			if !known {
				t.Fatalf("searched %v, which never was", ref)
			}
			states[ref.Knowledge] = held
		}
		want, err := retrieval.WithTexts{Next: together(t, states)}.Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got.Provisional || got.Floor < want.Floor { // removed states are not measured again; words of other bases may lower a floor
			got.Floor, got.Provisional = want.Floor, false
		}
		for i := range got.Sources {
			got.Sources[i].Doc, got.Sources[i].Knowledge = got.Sources[i].Knowledge+"/"+got.Sources[i].Doc, "kb"
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(retrieval.Result{}, "Took", "Bases"), cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Fatalf("%v (-one +several):\n%s", got.Bases, diff)
		}
	}
	if len(answers) < 3 {
		t.Errorf("%d different answers", len(answers))
	}
}

// A damaged base is left out, reported and repaired, while the others answer.
func TestGroupMeetsDamage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped")
	}
	for name, hurt := range map[string]func(t *testing.T, file string){
		"a text": func(t *testing.T, file string) {
			image, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			if _, err := f.WriteAt([]byte("X"), int64(bytes.Index(image, []byte("16 weeks of paid leave")))); err != nil {
				t.Fatal(err)
			}
		},
		"cut off": func(t *testing.T, file string) {
			if err := os.Truncate(file, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			troubles := make(chan library.Trouble, 100)
			l := opened(t, dir, library.Options{Trouble: func(x library.Trouble) { troubles <- x }})
			for _, id := range []string{"other", "third"} {
				if err := l.CreateBase(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Put(t.Context(), id, chunk.Document{ID: "x.md", Text: "Parental guidance is no leave."}); err != nil {
					t.Fatal(err)
				}
			}
			newFolder(t, knowledgetest.Handbook()).sync(l)
			g := groupOf(t, func() *library.Library { return l })
			p := &retrieval.Pipeline{
				Bases: func(string) retrieval.Retriever { return g }, Joint: func(string) string { return "all" }, Terms: analysis.Terms,
			}
			q := retrieval.Query{Text: "parental leave", Settings: retrieval.DefaultSettings(), Bases: []retrieval.Ref{{Knowledge: "kb"}, {Knowledge: "other"}, {Knowledge: "third"}}}
			q.Settings.Deadline = time.Minute // whatever else runs
			whole, err := p.Retrieve(t.Context(), q)
			if err != nil || whole.Partial {
				t.Fatalf("%+v, %v", whole, err)
			}
			hurt(t, filepath.Join(dir, "segments", library.Files(l.Base("kb"))[0]))
			res, err := p.Retrieve(t.Context(), q)
			if err != nil || !res.Partial || res.Reason != retrieval.ReasonError || len(res.Sources) != 1 || res.Excluded.Len() != 1 || res.Sources[0].Text == "" {
				t.Errorf("damaged: %+v, %v", res, err)
			}
			if diff := cmp.Diff([]retrieval.Ref{l.Base("other").Ref(), l.Base("third").Ref()}, res.Bases); diff != "" {
				t.Errorf("searched (-want +got):\n%s", diff)
			}
			l.Quiet()
			if x := <-troubles; x.Knowledge != "kb" {
				t.Errorf("told %+v", x)
			}
			again, err := p.Retrieve(t.Context(), q)
			if diff := cmp.Diff(whole, again, cmpopts.IgnoreFields(retrieval.Result{}, "Took"), cmpopts.IgnoreFields(retrieval.Source{}, "At")); diff != "" || err != nil {
				t.Errorf("whole again: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
