package library_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/library"
)

// reports are documents of three sentences.
func reports(n int) (list []chunk.Document) {
	for i := range n {
		text := fmt.Sprintf("The report%02d begins with its summary%02d. Its second sentence has figure%02d and others. The report ends with many thanks%02d.", i, i, i, i)
		list = append(list, chunk.Document{ID: fmt.Sprintf("r%02d", i), Text: text})
	}
	return list
}

// The weight of vectors is measured with questions that are embedded once, also across restarts,
// and with a few more after a change. While the embedder fails it is the default; this is another
// generation. A follower measures the same.
func TestWeightIsMeasured(t *testing.T) {
	dir, e := t.TempDir(), new(embedder)
	o := embedded(e)
	troubles, noGain := 0, 0
	o.Trouble = func(trouble library.Trouble) {
		if troubles++; errors.Is(trouble.Err, library.ErrNoGain) {
			noGain++
		}
	}
	l := opened(t, dir, o)
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(t.Context(), "kb", reports(30)...); err != nil {
		t.Fatal(err)
	}
	weight := func(l *library.Library) string {
		w, measured := l.Base("kb").Content().DenseWeight()
		return fmt.Sprint(w, measured)
	}
	e.down.Store(true)
	keep(t, l, "")
	before := l.Base("kb").Ref().Generation
	if got := weight(l); got != "0.5 false" || troubles != 1 {
		t.Errorf("while the service is down: %s, %d troubles", got, troubles)
	}
	e.down.Store(false)
	keep(t, l, "")
	whole := l.Base("kb").Ref().Generation
	if got := weight(l); got != "0 true" || whole == before {
		t.Errorf("measured: %s; generation changed: %v", got, whole != before)
	}
	if noGain != 1 {
		t.Errorf("warned %d times that the vectors are of no use", noGain)
	}
	asked := e.asked.Load()
	keep(t, l, "")
	follower := opened(t, dir, library.Options{ReadOnly: true, Space: o.Space})
	if got := weight(follower); got != "0 true" || follower.Base("kb").Ref().Generation != whole {
		t.Errorf("a follower measures %s", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = opened(t, dir, o)
	keep(t, l, "")
	if got := weight(l); got != "0 true" || l.Base("kb").Ref().Generation != whole || e.asked.Load() != asked {
		t.Errorf("after a restart %s, asked %d times more", got, e.asked.Load()-asked)
	}
	texts := len(e.texts())
	if _, err := l.Put(t.Context(), "kb", reports(31)[30]); err != nil {
		t.Fatal(err)
	}
	keep(t, l, "")
	if got := weight(l); got != "0 true" || len(e.texts()) != texts+2 {
		t.Errorf("after a change %s, %d texts more were embedded", got, len(e.texts())-texts)
	}
	keys := library.MeasureKeys(space(), l.Base("kb").Content())
	if want := len(knowledge.Probes()) + 2*31; len(keys) != want {
		t.Errorf("measured by %d vectors, want %d", len(keys), want)
	}
}

// A model that returns the same vector for all texts has no weight, and everything is found by
// words.
func TestModelThatSaysNothing(t *testing.T) {
	o := embedded(nil)
	o.Questions = constant{}
	l := opened(t, t.TempDir(), o)
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(t.Context(), "kb", reports(30)...); err != nil {
		t.Fatal(err)
	}
	vectors, _ := constant{}.Embed(t.Context(), []string{""})
	keepAs(t, l, func(string) []float32 { return vectors[0] })
	if w, measured := l.Base("kb").Content().DenseWeight(); w != 0 || !measured {
		t.Errorf("%v, measured %v", w, measured)
	}
	g := group(l.Base("kb"), nil)
	g.Questions = constant{}
	q := retrieval.Query{Tenant: "t", Text: "figure17", Bases: []retrieval.Ref{{Knowledge: "kb"}}, Settings: retrieval.DefaultSettings()}
	res, err := retrieval.WithTexts{Next: g}.Retrieve(t.Context(), q)
	if err != nil || !slices.ContainsFunc(res.Sources[:1], func(s retrieval.Source) bool { return s.Doc == "r17" && s.Score >= res.Floor }) {
		t.Errorf("%v, floor %v, %v", res.Sources, res.Floor, err)
	}
}

// constant is an embedder that returns the same vector for all texts.
type constant struct{}

func (constant) Embed(_ context.Context, texts []string) (vectors [][]float32, err error) {
	for range texts {
		vectors = append(vectors, []float32{1, 2, 3, 4, 5, 6, 7, 8})
	}
	return vectors, nil
}

func (c constant) Question(ctx context.Context, _, text string) ([]float32, error) {
	v, err := c.Embed(ctx, []string{text})
	return v[0], err
}
