package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/retrievaltest"
	"sidenote/retrieval/services"
)

// An Opener opens a Server for some bases, which are new and whose names it may make unique by
// prefix. Servers that it returns for the same prefix have the same bases.
type Opener func(t *testing.T, prefix string) engine.Server

// Run tests the contract of a Server by itself, and of a base that it holds.
func Run(t *testing.T, open Opener) {
	t.Helper()
	t.Run("base", func(t *testing.T) {
		retrievaltest.Run(t, func(t *testing.T, docs []retrievaltest.Document) retrieval.Base {
			b := NewBase(t, open, "contract", nil)
			b.Change(t, docs)
			return b
		})
	})
	for name, test := range map[string]func(*testing.T, Opener){
		"words as embedded":          asEmbedded,
		"vectors as embedded":        vectorsAsEmbedded,
		"several bases as one":       several,
		"one id in several bases":    sameID,
		"visible at once":            visible,
		"put again":                  putAgain,
		"one writer":                 oneWriter,
		"taken over":                 takenOver,
		"nothing embedded twice":     embeddedOnce,
		"strange ids and texts":      strange,
		"base that was never made":   absent,
		"filtered by generated rule": generatedFilters,
		"passages":                   passages,
		"restart":                    restart,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// Deps reads documents for tests.
func Deps() knowledge.Deps {
	return knowledge.Deps{Counter: knowledgetest.FourBytes{}, Version: "test"}
}

// A Base is a base in an engine, with its Writer.
type Base struct {
	*engine.Base
	Writer *engine.Writer
	Server engine.Server
}

// NewBase makes a base and opens an Engine for it. vectors is nil for words only.
func NewBase(t *testing.T, open Opener, id string, vectors *Vectors) *Base {
	t.Helper()
	server := open(t, id)
	if err := server.Init(t.Context(), id); err != nil {
		t.Fatalf("init %s: %v", id, err)
	}
	o := engine.Options{
		Server: server, Name: "test", Bases: []string{id}, Version: "test", Neutralise: func(_, text string) string { return text },
		Changed: func(line string, bad bool) { t.Logf("trouble %v: %s", bad, line) },
	}
	w := engine.WriterOptions{Server: open(t, id), Base: id, Owner: "a test", Deps: Deps()}
	if vectors != nil {
		o.Questions, w.Passages = vectors, vectors
		o.Space = func(string) (retrieval.Space, bool) { return vectors.Space(), true }
	}
	e := engine.Open(o)
	b := &Base{e.Base(id), engine.NewWriter(w), server}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Writer.Close(ctx); err != nil {
			t.Logf("give the lease back: %v", err)
		}
		if err := errors.Join(e.Close(), w.Server.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Change replaces all documents.
func (b *Base) Change(t *testing.T, docs []retrievaltest.Document) {
	t.Helper()
	b.Fill(t, documents(docs))
}

// Fill replaces all documents.
func (b *Base) Fill(t *testing.T, docs []chunk.Document) {
	t.Helper()
	if _, err := b.Writer.Fill(t.Context(), docs); err != nil {
		t.Fatalf("fill: %v", err)
	}
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
}

func documents(docs []retrievaltest.Document) (list []chunk.Document) {
	for _, d := range docs {
		list = append(list, chunk.Document{ID: d.ID, Text: d.Text, Markdown: true, Attributes: d.Attributes})
	}
	return list
}

// embedded returns an embedded base with documents.
func embedded(t *testing.T, docs []chunk.Document) *knowledge.Base {
	t.Helper()
	content, _, err := knowledge.FromDocuments(t.Context(), docs, Deps())
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("embedded")
	b.Swap(content)
	return b
}

func query(text string, bases ...retrieval.Ref) retrieval.Query {
	return retrieval.Query{Tenant: "t", Text: text, Bases: bases, Settings: retrieval.DefaultSettings()}
}

func ask(t *testing.T, r retrieval.Retriever, q retrieval.Query) retrieval.Result {
	t.Helper()
	res, err := retrieval.WithTexts{Next: r}.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatalf("%q: %v", q.Text, err)
	}
	return res
}

// Questions are asked of the corpus of retrievaltest.
func Questions() []string {
	return []string{
		"How many weeks of parental leave do I get?", "my laptop is broken", "how long must passwords be", "booking flights for travel",
		"committee discussed the canteen menu", "parentel leave", "room 7", "weather and chairs",
	}
}

// asEmbedded compares results by words with those of an embedded base: order, scores and floor.
func asEmbedded(t *testing.T, open Opener) {
	docs := documents(retrievaltest.Documents())
	b, want := NewBase(t, open, "same", nil), embedded(t, docs)
	b.Fill(t, docs)
	for _, text := range Questions() {
		same(t, text, ask(t, b, query(text)), ask(t, want, query(text)), .02)
	}
}

// same compares two results. The noise is measured by the same questions, but a floor may differ a
// little.
func same(t *testing.T, text string, got, want retrieval.Result, floor float64) {
	t.Helper()
	if len(got.Sources) != len(want.Sources) {
		t.Errorf("%q: %d sources, embedded %d", text, len(got.Sources), len(want.Sources))
	}
	for i := range min(len(got.Sources), len(want.Sources)) {
		g, w := &got.Sources[i], &want.Sources[i]
		if math.Abs(g.Score-w.Score) > .001*max(1, w.Score) {
			t.Errorf("%q: number %d is %s#%d with %.4f, embedded %s#%d with %.4f", text, i, g.Doc, g.Chunk, g.Score, w.Doc, w.Chunk, w.Score)
			return
		}
	}
	if math.Abs(got.Floor-want.Floor) > floor*max(.1, want.Floor) {
		t.Errorf("%q: floor %.4f, embedded %.4f", text, got.Floor, want.Floor)
	}
}

// Vectors makes vectors of texts from their letters, deterministically.
type Vectors struct {
	Dimensions int
	Sent       int    // passages
	Model      string // "" is test-model
}

// Space implements engine.Passages.
func (v *Vectors) Space() retrieval.Space {
	model := v.Model
	if model == "" {
		model = "test-model"
	}
	return retrieval.Space{Model: model}
}

// Fit implements engine.Passages.
func (v *Vectors) Fit(passages []string) (n, tokens int) { return min(100, len(passages)), 10 }

// Passages implements engine.Passages.
func (v *Vectors) Passages(_ context.Context, passages []string) (services.Passages, error) {
	p := services.Passages{Vectors: make([][]float32, len(passages)), Tokens: len(passages)}
	for i, text := range passages {
		p.Vectors[i] = v.of(text)
	}
	v.Sent += len(passages)
	return p, nil
}

// Embed implements engine.Passages.
func (v *Vectors) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = v.of(text)
	}
	return vectors, nil
}

// Question implements knowledge.Questions.
func (v *Vectors) Question(_ context.Context, _, text string) ([]float32, error) {
	return v.of(text), nil
}

// of counts pairs of letters.
func (v *Vectors) of(text string) []float32 {
	out := make([]float32, v.Dimensions)
	text = strings.ToLower(text)
	for i := range len(text) - 1 {
		out[(int(text[i])*31+int(text[i+1]))%v.Dimensions]++
	}
	out[0]++
	return out
}

// vectorsAsEmbedded compares hybrid results with those of an embedded base, by their order.
func vectorsAsEmbedded(t *testing.T, open Opener) {
	docs, v := documents(retrievaltest.Documents()), &Vectors{Dimensions: 64}
	b := NewBase(t, open, "vectors", v)
	b.Fill(t, docs)
	if s := b.State(); s.Embedded != s.Chunks || s.Dimensions != 64 || s.Space != v.Space().String() {
		t.Fatalf("state %+v", s)
	}
	for _, text := range Questions()[:4] {
		res := ask(t, b, query(text))
		if len(res.Sources) == 0 || res.Degraded != "" {
			t.Fatalf("%q: %d sources, degraded %q", text, len(res.Sources), res.Degraded)
		}
		by := res.Sources[0].ByArm
		if by.Vector == 0 || by.Words == 0 {
			t.Errorf("%q: scores by arm %+v", text, by)
		}
		if want := ask(t, embedded(t, docs), query(text)).Sources[0]; res.Sources[0].Doc != want.Doc {
			t.Errorf("%q: best is %s, by words %s", text, res.Sources[0].Doc, want.Doc)
		}
	}
}

// several searches several bases of one server as one: like one base with all their documents.
func several(t *testing.T, open Opener) {
	docs := documents(retrievaltest.Documents())
	server := open(t, "several")
	ids := []string{"several-a", "several-b", "several-c"}
	for i, id := range ids {
		if err := server.Init(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		var own []chunk.Document
		for j, d := range docs {
			if j%len(ids) == i {
				own = append(own, d)
			}
		}
		w := engine.NewWriter(engine.WriterOptions{Server: server, Base: id, Owner: "a test", Deps: Deps()})
		if _, err := w.Fill(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	e := engine.Open(engine.Options{Server: server, Name: "test", Bases: ids, Version: "test", Neutralise: func(_, text string) string { return text }})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	var refs []retrieval.Ref
	for _, id := range ids {
		if err := e.Base(id).Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, e.Base(id).Ref())
	}
	want := embedded(t, docs)
	for _, text := range Questions() {
		got := ask(t, e, query(text, refs...))
		same(t, text, got, ask(t, want, query(text)), .35)
		if len(got.Bases) != len(ids) {
			t.Errorf("%q: searched %v", text, got.Bases)
		}
	}
}

// sameID searches bases that have a document with the same id.
func sameID(t *testing.T, open Opener) {
	s, ids := open(t, "same-id"), []string{"same-id-a", "same-id-b"}
	for _, id := range ids {
		l := acquire(t, s, id, time.Minute)
		check(t, l.Put(t.Context(), []engine.Document{prepared("leave.md", "mango of "+id)}, nil))
		check(t, l.Commit(t.Context(), "01", ""))
	}
	f, err := s.Search(t.Context(), &engine.Search{Bases: ids, Terms: []engine.Term{{Text: "mango", Weight: 1}}, Depth: 10, Neighbours: 5})
	check(t, err)
	got := map[string]string{}
	for _, c := range f.Candidates {
		got[ids[c.Base]] = c.Text
	}
	if len(f.Candidates) != 2 || got[ids[0]] != "mango of "+ids[0] || got[ids[1]] != "mango of "+ids[1] {
		t.Errorf("found %v in %d candidates", got, len(f.Candidates))
	}
}

// A prepared document for tests that use a Lease.
func prepared(id, text string) engine.Document {
	words := strings.Fields(strings.ToLower(text))
	d := engine.Document{ID: id, Name: id, Source: id, Stamp: "1", Attributes: `{"kind":"test"}`, Words: [][]string{words}}
	copy(d.Sum[:], text)
	d.Chunks = []engine.Chunk{{Text: text, Length: len(words), Packed: engine.Pack(words)}}
	counts := map[string]int64{}
	for _, w := range words {
		counts[w]++
	}
	for _, w := range slices.Sorted(slices.Values(words)) {
		if n := len(d.Terms); n == 0 || d.Terms[n-1].Text != w {
			d.Terms = append(d.Terms, engine.TermCount{Text: w, Texts: 1, Total: counts[w]})
		}
	}
	return d
}

func acquire(t *testing.T, s engine.Server, base string, ttl time.Duration) engine.Lease {
	t.Helper()
	if err := s.Init(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	l, err := s.Acquire(t.Context(), base, "a test", ttl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.WithoutCancel(t.Context())) }) // may be lost
	return l
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// found returns the texts that a search for words finds, sorted.
func found(t *testing.T, s engine.Server, base string, words ...string) (texts []string) {
	t.Helper()
	search := engine.Search{Bases: []string{base}, Depth: 100}
	for _, w := range words {
		search.Terms = append(search.Terms, engine.Term{Text: w, Weight: 1})
	}
	f, err := s.Search(t.Context(), &search)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Candidates {
		texts = append(texts, c.Text)
	}
	slices.Sort(texts)
	return texts
}

// visible checks that nothing that was put is visible before Commit, and all of it after.
func visible(t *testing.T, open Opener) {
	s := open(t, "visible")
	l := acquire(t, s, "visible", time.Minute)
	check(t, l.Put(t.Context(), []engine.Document{prepared("a", "apple one"), prepared("b", "apple two")}, nil))
	if got := found(t, s, "visible", "apple"); len(got) > 0 {
		t.Errorf("before the first commit: %q", got)
	}
	check(t, l.Commit(t.Context(), "01", ""))
	if got := found(t, s, "visible", "apple"); !slices.Equal(got, []string{"apple one", "apple two"}) {
		t.Errorf("after the first commit: %q", got)
	}
	check(t, l.Put(t.Context(), []engine.Document{prepared("a", "apple three"), prepared("c", "apple four")}, []string{"b"}))
	if got := found(t, s, "visible", "apple"); !slices.Equal(got, []string{"apple one", "apple two"}) {
		t.Errorf("before the second commit: %q", got)
	}
	check(t, l.Commit(t.Context(), "02", ""))
	if got := found(t, s, "visible", "apple"); !slices.Equal(got, []string{"apple four", "apple three"}) {
		t.Errorf("after the second commit: %q", got)
	}
	states, err := s.States(t.Context(), []string{"visible"})
	check(t, err)
	if st := states[0]; st.Generation != "02" || st.Documents != 2 || st.Chunks != 2 || st.Length != 4 || st.Distinct != 4 {
		t.Errorf("state %+v", st)
	}
	for more := true; more; {
		more, err = l.Clean(t.Context(), 0)
		check(t, err)
	}
	if got := found(t, s, "visible", "apple"); !slices.Equal(got, []string{"apple four", "apple three"}) {
		t.Errorf("after cleaning: %q", got)
	}
	counts(t, s, "visible", map[string]engine.TermCount{"apple": {Texts: 2, Total: 2}, "one": {}, "four": {Texts: 1, Total: 1}})
}

// counts checks the statistics of terms.
func counts(t *testing.T, s engine.Server, base string, want map[string]engine.TermCount) {
	t.Helper()
	search := engine.Search{Bases: []string{base}, Depth: 10}
	for term := range want {
		search.Terms = append(search.Terms, engine.Term{Text: term, Weight: 1})
	}
	f, err := s.Search(t.Context(), &search)
	check(t, err)
	for i, term := range search.Terms {
		if got := f.Counts[i][0]; got.Texts != want[term.Text].Texts || got.Total != want[term.Text].Total {
			t.Errorf("counts of %s: %+v, want %+v", term.Text, got, want[term.Text])
		}
	}
}

// putAgain puts a document several times before Commit, as a writer does that was interrupted.
func putAgain(t *testing.T, open Opener) {
	s := open(t, "again")
	l := acquire(t, s, "again", time.Minute)
	for _, text := range []string{"pear one", "pear two", "pear two"} {
		check(t, l.Put(t.Context(), []engine.Document{prepared("a", text)}, nil))
	}
	check(t, l.Put(t.Context(), []engine.Document{prepared("b", "pear gone")}, nil))
	check(t, l.Put(t.Context(), nil, []string{"b", "never there"}))
	check(t, l.Commit(t.Context(), "01", ""))
	if got := found(t, s, "again", "pear"); !slices.Equal(got, []string{"pear two"}) {
		t.Errorf("found %q", got)
	}
	counts(t, s, "again", map[string]engine.TermCount{"pear": {Texts: 1, Total: 1}, "two": {Texts: 1, Total: 1}, "gone": {}})
	var ids []string
	for k, err := range l.Known(t.Context()) {
		check(t, err)
		ids = append(ids, k.ID+" "+k.Source+" "+k.Stamp)
	}
	if !slices.Equal(ids, []string{"a a 1"}) {
		t.Errorf("known %q", ids)
	}
}

func oneWriter(t *testing.T, open Opener) {
	s := open(t, "one")
	l := acquire(t, s, "one", time.Minute)
	if _, err := s.Acquire(t.Context(), "one", "another", time.Minute); !errors.Is(err, engine.ErrLeaseTaken) || !strings.Contains(err.Error(), "a test") {
		t.Errorf("a second writer: %v", err)
	}
	check(t, l.Release(t.Context()))
	second, err := s.Acquire(t.Context(), "one", "another", time.Minute)
	check(t, err)
	check(t, second.Release(t.Context()))
}

// takenOver lets a lease end, and checks that what was put stays, and that the first writer can do
// nothing more.
func takenOver(t *testing.T, open Opener) {
	s := open(t, "over")
	first := acquire(t, s, "over", time.Millisecond)
	check(t, first.Put(t.Context(), []engine.Document{prepared("a", "plum one")}, nil))
	var second engine.Lease
	deadline := time.Now().Add(time.Minute)
	for second == nil && time.Now().Before(deadline) {
		var err error
		if second, err = s.Acquire(t.Context(), "over", "another", time.Minute); err != nil && !errors.Is(err, engine.ErrLeaseTaken) {
			t.Fatal(err)
		}
	}
	if second == nil {
		t.Fatal("a lease never ends")
	}
	var ids []string
	for k, err := range second.Known(t.Context()) {
		check(t, err)
		ids = append(ids, k.ID)
	}
	if !slices.Equal(ids, []string{"a"}) {
		t.Errorf("the second writer knows %q", ids)
	}
	for name, err := range map[string]error{
		"put":      first.Put(t.Context(), []engine.Document{prepared("b", "plum late")}, nil),
		"commit":   first.Commit(t.Context(), "0bad", ""),
		"renew":    first.Renew(t.Context()),
		"measures": first.SetMeasures(t.Context(), "x", []byte("x")),
	} {
		if !errors.Is(err, engine.ErrLeaseLost) {
			t.Errorf("%s by the first writer: %v", name, err)
		}
	}
	check(t, second.Commit(t.Context(), "01", ""))
	if got := found(t, s, "over", "plum"); !slices.Equal(got, []string{"plum one"}) {
		t.Errorf("found %q", got)
	}
	check(t, second.Release(t.Context()))
}

func embeddedOnce(t *testing.T, open Opener) {
	docs, v := documents(retrievaltest.Documents()), &Vectors{Dimensions: 64}
	b := NewBase(t, open, "once", v)
	b.Fill(t, docs)
	sent := v.Sent
	docs[0].Text += "\n\n## New section\n\nThis was added afterwards.\n"
	docs[1].ID = "moved/" + docs[1].ID
	b.Fill(t, docs)
	if got := v.Sent - sent; got != 1 {
		t.Errorf("%d passages sent for one new section and one moved document", got)
	}
	if s := b.State(); s.Embedded != s.Chunks {
		t.Errorf("%d of %d chunks have a vector", s.Embedded, s.Chunks)
	}
}

// strange uses ids and texts that would break statements built of strings.
func strange(t *testing.T, open Opener) {
	s := open(t, "strange")
	l := acquire(t, s, "strange", time.Minute)
	ids := []string{`o'brien"; drop table x; --.md`, "line\nbreak\ttab", `back\slash\'`, "日本語/ä ö.md", "%_$1 ? ::text", strings.Repeat("long", 120)}
	var docs []engine.Document
	for i, id := range ids {
		docs = append(docs, prepared(id, fmt.Sprintf("cherry it's \"number\" %d \\ \n {} [] é 🍒", i)))
	}
	check(t, l.Put(t.Context(), docs, nil))
	check(t, l.Commit(t.Context(), "01", ""))
	f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"strange"}, Terms: []engine.Term{{Text: "cherry", Weight: 1}, {Text: "it's", Weight: 1}, {Text: `\`, Weight: .5}}, Depth: 100})
	check(t, err)
	var got []string
	for _, c := range f.Candidates {
		got = append(got, c.Doc)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("found %q, want %q", got, ids)
	}
	for _, id := range ids {
		list, err := s.Passage(t.Context(), "strange", id, 0, 9, nil, "")
		if err != nil || len(list) != 1 || list[0].Doc != id {
			t.Errorf("passage of %q: %d chunks, %v", id, len(list), err)
		}
	}
}

// absent reads a base that does not exist.
func absent(t *testing.T, open Opener) {
	s := open(t, "absent")
	states, err := s.States(t.Context(), []string{"absent"})
	if err != nil || len(states) != 1 || states[0] != (engine.State{Base: "absent"}) {
		t.Errorf("states %+v, %v", states, err)
	}
	if _, err := s.Acquire(t.Context(), "absent", "a test", time.Minute); !errors.Is(err, engine.ErrNoBase) {
		t.Errorf("acquire: %v", err)
	}
	f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"absent"}, Terms: []engine.Term{{Text: "x", Weight: 1}}, Depth: 10})
	if err != nil && !errors.Is(err, engine.ErrNoBase) || err == nil && len(f.Candidates) > 0 {
		t.Errorf("search: %+v, %v", f, err)
	}
}

func passages(t *testing.T, open Opener) {
	long := strings.Repeat(" and some more words", 60)
	b := NewBase(t, open, "passages", nil)
	b.Fill(t, []chunk.Document{{ID: "a.md", Markdown: true, Text: "# A\n\n## One\n\nfirst text" + long + "\n\n## Two\n\nsecond text" + long + "\n\n## Three\n\nthird text" + long + "\n", Attributes: map[string]any{"audience": "staff"}}})
	q := query("", b.Ref())
	for _, test := range []struct {
		first, end int
		filter     *filter.Filter
		want       []string
	}{
		{0, 99, nil, []string{"first", "second", "third"}},
		{1, 2, nil, []string{"second"}},
		{3, 9, nil, nil},
		{0, 9, &filter.Filter{Type: filter.Eq, Key: "audience", Value: "staff"}, []string{"first", "second", "third"}},
		{0, 9, &filter.Filter{Type: filter.Eq, Key: "audience", Value: "board"}, nil},
	} {
		q.Filter = test.filter
		list, err := b.Passage(t.Context(), q, retrieval.Passage{Knowledge: "passages", Doc: "a.md", First: test.first, End: test.end})
		if test.want == nil {
			if !errors.Is(err, retrieval.ErrNoHit) {
				t.Errorf("%+v: %d chunks, %v", test, len(list), err)
			}
			continue
		}
		if err != nil || len(list) != len(test.want) {
			t.Errorf("%+v: %d chunks, %v", test, len(list), err)
			continue
		}
		for i := range list {
			if !strings.Contains(list[i].Text, test.want[i]) || list[i].Chunk != test.first+i {
				t.Errorf("%+v: chunk %d is %d %q", test, i, list[i].Chunk, list[i].Text)
			}
		}
	}
	q.Filter, q.Text = nil, "second text"
	res := ask(t, b, q)
	if s := res.Sources[0]; !strings.Contains(s.Before, "first text") || !strings.Contains(s.After, "third text") {
		t.Errorf("neighbours of the best source: %q and %q", s.Before, s.After)
	}
}

// restart writes with one server, and reads and continues with another.
func restart(t *testing.T, open Opener) {
	docs := documents(retrievaltest.Documents())
	b := NewBase(t, open, "restart", nil)
	b.Fill(t, docs)
	check(t, b.Writer.Close(t.Context()))
	again := NewBase(t, open, "restart", nil)
	check(t, again.Refresh(t.Context()))
	if again.Ref() != b.Ref() {
		t.Errorf("generation %v, before %v", again.Ref(), b.Ref())
	}
	report, err := again.Writer.Fill(t.Context(), docs)
	if err != nil || report.Written > 0 || report.Unchanged != len(docs) {
		t.Errorf("the same documents again: %d written, %d unchanged, %v", report.Written, report.Unchanged, err)
	}
	if again.State().Measures == "" {
		t.Error("nothing was measured")
	}
}

// generatedFilters compares filters on the server with filter.Match.
func generatedFilters(t *testing.T, open Opener) {
	docs := documents(retrievaltest.Documents())
	b := NewBase(t, open, "filters", nil)
	b.Fill(t, docs)
	for _, text := range Filters() {
		f, err := filter.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := map[string]bool{}
		for _, d := range docs {
			if f.Match(d.Attributes) {
				want[d.ID] = true
			}
		}
		got := map[string]bool{}
		search := engine.Search{Bases: []string{"filters"}, Depth: 100, Filter: f}
		for _, word := range []string{"committe", "leav", "laptop", "password", "flight", "everi", "parent", "travel"} {
			search.Terms = append(search.Terms, engine.Term{Text: word, Weight: 1})
		}
		res, err := b.Server.Search(t.Context(), &search)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, c := range res.Candidates {
			got[c.Doc] = true
		}
		for id := range want {
			if !got[id] {
				t.Errorf("%s: %s is missing", text, id)
			}
		}
		for id := range got {
			if !want[id] {
				t.Errorf("%s: %s does not match", text, id)
			}
		}
	}
}

// Filters are filters over the attributes of retrievaltest.Documents.
func Filters() []string {
	one := func(kind, key string, value any) string {
		text, _ := json.Marshal(map[string]any{"type": kind, "key": key, "value": value})
		return string(text)
	}
	list := []string{}
	for _, kind := range []string{"eq", "ne", "gt", "gte", "lt", "lte"} {
		for _, c := range [][2]any{{"audience", "staff"}, {"number", 12}, {"number", 12.5}, {"number", -1}, {"tags", "minutes"}, {"tags", "room-3"}, {"day", "2024-03-01"}, {"absent", "x"}, {"number", "12"}, {"audience", 3}, {"version", 2}} {
			list = append(list, one(kind, c[0].(string), c[1]))
		}
	}
	list = append(list, one("eq", "final", true), one("ne", "final", true), one("eq", "final", "true"),
		one("in", "audience", []any{"staff", "board"}), one("nin", "audience", []any{"staff", "board"}), one("in", "number", []any{1, 2, 3}), one("in", "tags", []any{"hr", "it"}),
		one("nin", "tags", []any{"hr", "it"}), one("prefix", "day", "2024-03"), one("prefix", "tags", "room-"), one("prefix", "audience", "%"), one("prefix", "absent", "x"))
	and := func(kind string, parts ...string) string {
		return `{"type":"` + kind + `","filters":[` + strings.Join(parts, ",") + `]}`
	}
	return append(list,
		and("and", one("eq", "audience", "staff"), one("gte", "number", 10)),
		and("or", one("eq", "audience", "board"), one("eq", "final", true)),
		and("and", and("or", one("eq", "tags", "room-1"), one("eq", "tags", "room-2")), one("ne", "final", true), one("lt", "number", 40)))
}
