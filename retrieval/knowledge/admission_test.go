package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/services/servicestest"
)

// topicBase returns a group with one base, a, of documents about ten topics, and the model with
// which it is embedded. The model knows that vacation means holiday, and no names.
func topicBase(t *testing.T, n int) (g *knowledge.Group, words *knowledge.Group) {
	t.Helper()
	var documents []chunk.Document
	topics := strings.Fields("leave holiday laptop visitor training office expense overtime bicycle canteen")
	for i := range n {
		topic := topics[i%len(topics)]
		text := fmt.Sprintf("%s rules for every %s %s number%d", topic, topic, topic, i)
		if i == 7 {
			text += " emergency kill switch: the kill switch"
		}
		documents = append(documents, chunk.Document{ID: fmt.Sprintf("d%03d", i), Text: text})
	}
	vector := func(text string) []float32 {
		text = strings.ReplaceAll(text, "vacation", "holiday")
		if text == "emergency kill switch" {
			text = "zebra"
		}
		return servicestest.Vector(text, servicestest.Dimensions)
	}
	c, err := knowledge.Embed(t.Context(), deps(), vector, documents)
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New("a")
	base.Swap(c)
	g = basesByID{"a": base}.group()
	g.Questions = questionFunc(func(_ context.Context, text string) ([]float32, error) { return vector(text), nil })
	return g, &knowledge.Group{Base: g.Base, Start: g.Start, Wait: g.Wait}
}

// answersTo returns the documents that are answers to a question, sorted.
func answersTo(t *testing.T, g *knowledge.Group, text string, weight float64) (ids []string) {
	t.Helper()
	q := questionOf(text, "a")
	q.Settings.DenseWeight = weight
	res, err := g.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range res.Sources {
		if s.Score >= max(res.Floor, res.Least) {
			ids = append(ids, s.Doc)
		}
		relevance := retrieval.Relevance(s.Score, res.Floor)
		if s.ByArm.Words == 0 && s.ByArm.Vector < .05 && relevance >= .5 && g.Questions != nil {
			t.Errorf("%q: %s has relevance %.2f at cosine %.2f", text, s.Doc, relevance, s.ByArm.Vector)
		}
	}
	slices.Sort(ids)
	return ids
}

var topicQuestions = []string{"holiday rules", "what about laptop rules?", "emergency kill switch", "number12", "bicycle canteen", "tell me a joke", "zebra crossing", "vacation vacation rules"}

// What words find is an answer whatever its cosine; a high cosine makes an answer of what words
// miss.
func TestCosineIsNoVeto(t *testing.T) {
	g, words := topicBase(t, 200)
	some := 0
	for _, text := range topicQuestions {
		byWords, both := answersTo(t, words, text, 0), answersTo(t, g, text, 0)
		for _, id := range byWords {
			some++
			if !slices.Contains(both, id) {
				t.Errorf("%q: %s is an answer by words only", text, id)
			}
		}
	}
	if some < 5 {
		t.Errorf("%d answers by words", some)
	}
	if n := len(answersTo(t, g, "vacation vacation vacation", 0)); n == 0 || len(answersTo(t, words, "vacation vacation vacation", 0)) > 0 {
		t.Errorf("%d answers to a question in other words", n)
	}
}

// In a small base words alone decide what is an answer.
func TestVectorsOfASmallBase(t *testing.T) {
	for _, n := range []int{1, 2, 18, 60} {
		g, words := topicBase(t, n)
		for _, text := range topicQuestions {
			if byWords, both := answersTo(t, words, text, 0), answersTo(t, g, text, 0); !slices.Equal(byWords, both) {
				t.Errorf("%d texts, %q: %v, by words %v", n, text, both, byWords)
			}
		}
	}
}

// A weight that the policy sets counts for the floor as for the order: with all weight, words make no
// answer; with hardly any, cosines make none.
func TestDenseWeightMovesTheFloor(t *testing.T) {
	g, _ := topicBase(t, 200)
	for _, tc := range []struct {
		question string
		weight   float64
		answered bool
	}{
		{"emergency kill switch", .05, true}, {"emergency kill switch", .5, true}, {"emergency kill switch", 1, false},
		{"vacation vacation vacation", .05, false}, {"vacation vacation vacation", .5, true}, {"vacation vacation vacation", 1, true},
	} {
		if n := len(answersTo(t, g, tc.question, tc.weight)); n > 0 != tc.answered {
			t.Errorf("%q with weight %v: %d answers", tc.question, tc.weight, n)
		}
	}
}

// Bad vectors of questions leave the answer of words alone, or what words find in it; a base of one
// text, repeated or not, is searched, too.
func TestStrangeVectors(t *testing.T) {
	same := staff()[:1]
	for i := range 120 {
		same = append(same, chunk.Document{ID: fmt.Sprintf("copy%d", i), Text: same[0].Text})
	}
	mixed := append(staff(), chunk.Document{ID: "de", Text: "Der Resturlaub verfällt am 31. März."}, chunk.Document{ID: "zh", Text: "年假为三十天，病假另计。"})
	for name, documents := range map[string][]chunk.Document{"one": staff()[:1], "same": same, "mixed": mixed} {
		g := withVectors(t, "", map[string][]chunk.Document{"a": documents})
		for kind, vector := range map[string]func() ([]float32, error){
			"none":     func() ([]float32, error) { return nil, errors.New("down") },
			"zero":     func() ([]float32, error) { return make([]float32, servicestest.Dimensions), nil },
			"NaN":      func() ([]float32, error) { return []float32{float32(math.NaN())}, nil },
			"shorter":  func() ([]float32, error) { return []float32{1, 2, 3}, nil },
			"opposite": func() ([]float32, error) { return opposite(documents[0].Text), nil },
		} {
			g.Questions = questionFunc(func(context.Context, string) ([]float32, error) { return vector() })
			for _, text := range []string{"How long is parental leave?", "Resturlaub", "年假", "joke"} {
				q := questionOf(text, "a")
				res, err := g.Retrieve(t.Context(), q)
				if err != nil || math.IsNaN(res.Floor) {
					t.Fatalf("%s, %s, %q: floor %v, %v", name, kind, text, res.Floor, err)
				}
				for i, s := range res.Sources {
					if math.IsNaN(s.Score) || s.Score < 0 || i > 0 && s.Score > res.Sources[i-1].Score {
						t.Errorf("%s, %s, %q: %d. %+v", name, kind, text, i, s)
					}
				}
				if text != "joke" && len(res.Sources) > 0 && name == "one" && strings.Contains(text, "leave") && res.Sources[0].Score < res.Floor {
					t.Errorf("%s, %s, %q: no answer", name, kind, text)
				}
			}
		}
	}
}

func opposite(text string) []float32 {
	v := servicestest.Vector(text, servicestest.Dimensions)
	for i := range v {
		v[i] = -v[i]
	}
	return v
}

// Other hits by words need a fraction of the best score.
func TestFarBelowTheBest(t *testing.T) {
	documents := staff()
	documents = append(documents, chunk.Document{ID: "right", Text: "The parental leave allowance form is called LV-17."})
	by := basesByID{"a": bareBase(t, documents)}
	res, err := by.group().Retrieve(t.Context(), questionOf("parental leave allowance form LV-17", "a"))
	if err != nil || res.Sources[0].Doc != "right" || res.Least <= 0 || res.Least >= res.Sources[0].Score {
		t.Fatalf("%+v, %v", res, err)
	}
	p := &retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return by.group() }, Terms: func(text string) []string { return strings.Fields(text) }}
	q := questionOf("parental leave allowance form LV-17", "a")
	selected, err := p.Retrieve(t.Context(), q)
	if err != nil || len(selected.Sources) != 1 {
		t.Errorf("%d sources, %v", len(selected.Sources), err)
	}
	q.Settings.Thresholds = []retrieval.Threshold{{Knowledge: "a", Relevance: 0}} // a policy wants everything
	if selected, err = p.Retrieve(t.Context(), q); err != nil || len(selected.Sources) < 2 {
		t.Errorf("%d sources without a threshold, %v", len(selected.Sources), err)
	}
}

func bareBase(t *testing.T, documents []chunk.Document) *knowledge.Base {
	t.Helper()
	c, err := knowledge.Segmented(t.Context(), deps(), documents)
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("a")
	b.Swap(c)
	return b
}
