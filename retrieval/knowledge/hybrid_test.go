package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/services/servicestest"
)

// A questionFunc embeds questions.
type questionFunc func(ctx context.Context, text string) ([]float32, error)

func (f questionFunc) Question(ctx context.Context, _, text string) ([]float32, error) {
	return f(ctx, text)
}

// Embed implements an embedder.
func (f questionFunc) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	v, err := f(ctx, texts[0])
	return [][]float32{v}, err
}

func byWords(_ context.Context, text string) ([]float32, error) {
	return servicestest.Vector(text, servicestest.Dimensions), nil
}

// withVectors returns a group of bases all of whose chunks have vectors, except those that contain
// the word without.
func withVectors(t fatal, without string, bases map[string][]chunk.Document) *knowledge.Group {
	t.Helper()
	by := basesByID{}
	for id, documents := range bases {
		c, err := knowledge.Embed(context.Background(), deps(), func(passage string) []float32 {
			if without != "" && strings.Contains(passage, without) {
				return nil
			}
			return servicestest.Vector(passage, servicestest.Dimensions)
		}, documents)
		if err != nil {
			t.Fatal(err)
		}
		by[id] = knowledge.New(id)
		by[id].Swap(c)
	}
	g := by.group()
	g.Questions = questionFunc(byWords)
	return g
}

// fatal is a test, benchmark or rapid test.
type fatal interface {
	Helper()
	Fatal(...any)
}

// staff returns documents about leave, and others.
func staff() (list []chunk.Document) {
	for i, text := range []string{
		"Parental leave takes fourteen weeks.", "Holidays are thirty days a year.", "The laptop is replaced after three years.",
		"Error E0382 means that a value was moved.", "Visitors sign in at the desk.", "Training has a budget for courses and books.",
		"The office in Lisbon opens at seven.", "Expenses are paid within a month.", "Overtime is taken as time off.", "Bicycles stand in the cellar.",
	} {
		list = append(list, chunk.Document{ID: fmt.Sprintf("d%d", i), Text: text, Attributes: map[string]any{"even": i%2 == 0}})
	}
	return list
}

func questionOf(text string, bases ...string) retrieval.Query {
	q := retrieval.Query{Tenant: "t", Text: text, Bases: refs(bases...), Settings: retrieval.DefaultSettings()}
	return q
}

// Hits by vector alone and hits by words are returned together, each with its arm; documents
// hidden by a filter are found by neither. A name that occurs in one text is found first.
func TestArms(t *testing.T) {
	g := withVectors(t, "Visitors", map[string][]chunk.Document{"a": staff()[:5], "b": staff()[5:]})
	res, err := g.Retrieve(t.Context(), questionOf("E0382 leave", "a", "b"))
	if err != nil || res.Degraded != "" {
		t.Fatal(res, err)
	}
	arms := map[string]retrieval.Arm{}
	for i, s := range res.Sources {
		arms[s.Doc] = s.Arm
		if i > 0 && s.Score > res.Sources[i-1].Score {
			t.Errorf("%v after %v", s, res.Sources[i-1])
		}
	}
	if res.Sources[0].Doc != "d3" || arms["d3"] != retrieval.ArmWords || arms["d6"] != retrieval.ArmVector || len(arms) != 9 {
		t.Errorf("first %s, arms %v", res.Sources[0].Doc, arms)
	}
	if _, found := arms["d4"]; found {
		t.Error("a chunk without a vector or a word of the question")
	}
	q := questionOf("E0382 leave", "a", "b")
	q.Filter = &filter.Filter{Type: filter.Eq, Key: "even", Value: true}
	if res, err = g.Retrieve(t.Context(), q); err != nil || len(res.Sources) != 4 { // d4 has no vector
		t.Fatal(res, err)
	}
	for _, s := range res.Sources {
		if s.Doc[1]%2 != 0 {
			t.Errorf("%s is hidden by the filter", s.Doc)
		}
	}
}

// Vectors have the weight of the policy, and words the rest.
func TestDenseWeight(t *testing.T) {
	g := withVectors(t, "", map[string][]chunk.Document{"a": staff()})
	g.Questions = questionFunc(func(context.Context, string) ([]float32, error) {
		return servicestest.Vector("The office in Lisbon opens at seven.", servicestest.Dimensions), nil
	})
	for weight, want := range map[float64]string{0.05: "d3", 0: "d3", 0.5: "d3", 1: "d6"} {
		q := questionOf("E0382", "a")
		q.Settings.DenseWeight = weight
		res, err := g.Retrieve(t.Context(), q)
		if err != nil || res.Sources[0].Doc != want {
			t.Errorf("weight %v: %v first, %v; want %s", weight, res.Sources, err, want)
		}
	}
}

// With fusion by ranks, the score of an answer is computed from the weighted ranks by words and by
// vector, which also order what the floor rejects.
func TestFusedByRanks(t *testing.T) {
	g := withVectors(t, "", map[string][]chunk.Document{"a": staff()})
	words := &knowledge.Group{Base: g.Base, Start: g.Start, Wait: g.Wait}
	vectors := &knowledge.Group{Base: g.Base, Start: g.Start, Wait: g.Wait, Questions: g.Questions, VectorsOnly: true}
	q := questionOf("leave in Lisbon: how many holidays a year?", "a")
	q.Settings.Fusion, q.Settings.DenseWeight = retrieval.FusionRanks, .25
	want := map[string]float64{}
	for i, doc := range documentsOf(t, words, q) {
		want[doc] += .75 * retrieval.ReciprocalRank(i+1)
	}
	for i, doc := range documentsOf(t, vectors, q) {
		want[doc] += .25 * retrieval.ReciprocalRank(i+1)
	}
	res, err := g.Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) != len(want) || !(res.Sources[0].Score > res.Floor) {
		t.Fatalf("%d of %d, floor %v, %v", len(res.Sources), len(want), res.Floor, err)
	}
	below := 0
	for i, s := range res.Sources {
		if s.Score >= res.Floor && math.Abs(s.Score-want[s.Doc]) > 1e-6 {
			t.Errorf("%s has %v, want %v", s.Doc, s.Score, want[s.Doc])
		}
		if s.Score >= res.Floor {
			continue
		}
		if below++; below > 1 && want[s.Doc] > want[res.Sources[i-1].Doc] {
			t.Errorf("%s is after %s", s.Doc, res.Sources[i-1].Doc)
		}
	}
	if below == 0 || below == len(res.Sources) {
		t.Errorf("%d of %d are below the floor", below, len(res.Sources))
	}
	q.Text = "tell me a joke"
	if res, err = g.Retrieve(t.Context(), q); err != nil || len(res.Sources) > 0 && res.Sources[0].Score >= res.Floor {
		t.Errorf("small talk: %v, floor %v, %v", res.Sources, res.Floor, err)
	}
}

// No chunk is returned twice, and Explain agrees with the search.
func TestHybridIsExplained(t *testing.T) {
	g := withVectors(t, "laptop", map[string][]chunk.Document{"a": staff()[:6], "b": staff()[6:]})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom(strings.Fields("leave holidays laptop E0382 desk office time year zebra")), 1, 5).Draw(t, "question")
		q := questionOf(strings.Join(words, " "), rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}}).Draw(t, "bases")...)
		q.Settings.NumCandidates = rapid.IntRange(1, 12).Draw(t, "candidates")
		if rapid.Bool().Draw(t, "filtered") {
			q.Filter = &filter.Filter{Type: filter.Eq, Key: "even", Value: false}
		}
		want, err := g.Retrieve(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Explain(context.Background(), q)
		if err != nil || len(got.Hits) != len(want.Sources) || got.Floor != want.Floor {
			t.Fatalf("%v: %+v, want %+v", err, got, want)
		}
		seen := map[string]bool{}
		for i, s := range want.Sources {
			h := got.Hits[i]
			if h.Doc != s.Doc || h.Arm != s.Arm || h.Arm == retrieval.ArmNone || seen[s.Doc] {
				t.Fatalf("%d. %+v, found is %+v", i, h, s)
			}
			if by := (retrieval.ArmScores{Words: float32(h.Words), Vector: float32(h.Cosine)}); s.ByArm != by {
				t.Fatalf("%d. by arm %v, want %v", i, s.ByArm, by)
			}
			seen[s.Doc] = true
			if (h.Words > 0) != (len(h.Terms) > 0) || h.Words == 0 && h.Arm == retrieval.ArmWords {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// A question whose vector is late is answered by words in time, and the result is not complete;
// the next one has the vector.
func TestLateVector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		slow := questionFunc(func(ctx context.Context, text string) ([]float32, error) {
			asked++
			select {
			case <-time.After(2 * time.Second):
				return byWords(ctx, text)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		g := withVectors(t, "", map[string][]chunk.Document{"a": staff()})
		memory := func() cache.Tier {
			store, err := cache.NewMemory(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return cache.Tier{Name: "memory", Store: store, TTL: time.Hour, EmptyTTL: time.Hour}
		}
		g.Questions = cache.NewQuestions(slow, func() retrieval.Space { return retrieval.Space{} }, memory(), nil)
		candidates := cache.NewRetriever(g, cache.Candidates, []cache.Tier{memory()}, nil)
		r := cache.NewRetriever(&retrieval.Pipeline{
			Bases: func(string) retrieval.Retriever { return candidates }, Terms: strings.Fields, Punctual: true,
		}, cache.Selected, []cache.Tier{memory()}, nil)
		q := questionOf("leave of parents", "a")
		q.Bases = []retrieval.Ref{g.Base("a").Ref()}
		q.Settings.ScoreThreshold = 0
		type answer struct {
			Degraded retrieval.Stage
			Vector   bool
			Cache    retrieval.CacheState
		}
		ask := func() answer {
			t.Helper()
			start := time.Now()
			res, err := r.Retrieve(t.Context(), q)
			if took := time.Since(start); err != nil || res.Reason != "" || took > q.Settings.Deadline || len(res.Sources) == 0 {
				t.Fatalf("%v, %q after %v: %v", err, res.Reason, took, res.Sources)
			}
			return answer{res.Degraded, slices.ContainsFunc(res.Sources, func(s retrieval.Source) bool { return s.Arm == retrieval.ArmVector }), res.Cache}
		}
		late := answer{retrieval.StageEmbed, false, retrieval.CacheMiss}
		for range 2 {
			if got := ask(); got != late {
				t.Errorf("%+v, want %+v", got, late)
			}
		}
		<-time.After(2 * time.Second)
		for _, want := range []answer{{"", true, retrieval.CacheMiss}, {"", true, retrieval.CacheHit}} {
			if got := ask(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		if asked != 1 {
			t.Errorf("the service was asked %d times", asked)
		}
	})
}

// A failing embedder, or one that returns unsuitable vectors, costs only the search by vector.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestWrongVectors(t *testing.T) {
	g := withVectors(t, "", map[string][]chunk.Document{"a": staff()})
	words := withVectors(t, "", map[string][]chunk.Document{"a": staff()})
	words.Questions = nil
	want, err := words.Retrieve(t.Context(), questionOf("leave", "a"))
	if err != nil || want.Degraded != "" {
		t.Fatal(want, err)
	}
	for name, f := range map[string]questionFunc{
		"down":  func(context.Context, string) ([]float32, error) { return nil, errors.New("down") },
		"short": func(context.Context, string) ([]float32, error) { return []float32{1, 2}, nil },
		"zero":  func(context.Context, string) ([]float32, error) { return make([]float32, servicestest.Dimensions), nil },
		"panic": func(context.Context, string) ([]float32, error) { panic("broken") },
	} {
		g.Questions = f
		got, err := g.Retrieve(t.Context(), questionOf("leave", "a"))
		if err != nil || got.Degraded != retrieval.StageEmbed || got.Floor != want.Floor || !slices.Equal(got.Sources, want.Sources) {
			t.Errorf("%s: %v, %q: %v, want %v", name, err, got.Degraded, got.Sources, want.Sources)
		}
	}
}

// Previous turns are part of the embedded question.
func TestVectorOfFollowUp(t *testing.T) {
	g := withVectors(t, "", map[string][]chunk.Document{"a": staff()})
	var asked []string
	g.Questions = questionFunc(func(ctx context.Context, text string) ([]float32, error) {
		asked = append(asked, text)
		return byWords(ctx, text)
	})
	q := questionOf("and for adopted children?", "a")
	q.Previous = []retrieval.Turn{{Text: "is it paid?", Weight: .2}, {Text: "how long is parental leave?", Weight: .4}}
	if _, err := g.Retrieve(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if want := []string{"how long is parental leave?\nis it paid?\nand for adopted children?"}; !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
}

// The cosine floor is measured: messages about nothing get no source, a question that uses a
// synonym gets one.
func TestFloorOfCosines(t *testing.T) {
	var documents []chunk.Document
	topics := strings.Fields("leave holiday laptop visitor training office expense overtime bicycle canteen")
	for i := range 200 { // similar texts have one topic
		topic := topics[i%len(topics)]
		text := fmt.Sprintf("%s rules for every %s %s number%d", topic, topic, topic, i)
		if i == 17 {
			text += " emergency kill switch: the kill switch"
		}
		documents = append(documents, chunk.Document{ID: fmt.Sprintf("d%03d", i), Text: text})
	}
	vector := func(text string) []float32 { // a synonym is embedded like the word
		return servicestest.Vector(strings.ReplaceAll(text, "vacation", "holiday"), servicestest.Dimensions)
	}
	c, err := knowledge.Embed(t.Context(), deps(), vector, documents)
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New("a")
	base.Swap(c)
	g := basesByID{"a": base}.group()
	g.Questions = questionFunc(func(_ context.Context, text string) ([]float32, error) {
		if text == "emergency kill switch" { // the model does not know names
			text = "zebra"
		}
		return vector(text), nil
	})
	above := func(text string) (n int) {
		t.Helper()
		res, err := g.Retrieve(t.Context(), questionOf(text, "a"))
		if err != nil || res.Degraded != "" {
			t.Fatal(res, err)
		}
		for _, s := range res.Sources {
			if s.Score >= res.Floor {
				n++
			}
		}
		return n
	}
	if n := above("vacation vacation rules"); n == 0 {
		t.Error("a question in other words gets no source")
	}
	if n := above("emergency kill switch"); n == 0 {
		t.Error("names that the model does not know get no source")
	}
	for _, message := range []string{"thanks a lot, that helped", "tell me a joke about rules", "zebra crossing"} {
		if n := above(message); n > 0 {
			t.Errorf("%q gets %d sources", message, n)
		}
	}
}

// The arms of a hybrid search can be used alone: words without Questions, cosine with VectorsOnly,
// best first. With VectorsOnly nothing is found if the question has no vector.
func TestVectorsOnly(t *testing.T) {
	g := withVectors(t, "Visitors", map[string][]chunk.Document{"a": staff()[:5], "b": staff()[5:]})
	g.VectorsOnly = true
	q := questionOf("E0382 leave", "a", "b")
	res, err := g.Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) != 9 || res.Floor != 0 { // d4 has no vector
		t.Fatal(res, err)
	}
	for i, s := range res.Sources {
		if s.Arm != retrieval.ArmVector || i > 0 && s.Score > res.Sources[i-1].Score {
			t.Errorf("%d: %+v", i, s)
		}
	}
	q.Filter = &filter.Filter{Type: filter.Eq, Key: "even", Value: true}
	if res, err = g.Retrieve(t.Context(), q); err != nil || len(res.Sources) != 4 {
		t.Error(res, err)
	}
	g.Questions = questionFunc(func(context.Context, string) ([]float32, error) { return nil, errors.New("down") })
	if res, err = g.Retrieve(t.Context(), q); err != nil || len(res.Sources) != 0 || res.Degraded != retrieval.StageEmbed {
		t.Error(res, err)
	}
}
