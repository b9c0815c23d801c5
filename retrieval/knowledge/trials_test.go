package knowledge_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/services/servicestest"
)

// articles returns documents of three sentences about one thing, which each sentence calls by another
// name. The names begin with letters.
func articles(letters string, n int) (list []chunk.Document) {
	for i := range n {
		var text strings.Builder
		for sentence, name := range []string{"car", "auto", "vehicle"} {
			fmt.Fprintf(&text, "Every %s has %ssentence%d about %stopic%d. ", named(letters+name, i), letters, sentence, letters, i%5)
		}
		list = append(list, chunk.Document{ID: fmt.Sprintf("%s%02d", letters, i), Text: text.String()})
	}
	return list
}

// named returns the name of the i-th thing.
func named(name string, i int) string {
	return name + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + "k"
}

// english is a model that knows all words, and which of them mean the same, except those that begin
// with xy: texts with these have almost the same vector.
func english(text string) []float32 {
	if strings.Contains(text, "xy") {
		v := servicestest.Vector(fmt.Sprintf("digest%d", len(text)*31+int(text[len(text)/2])*7+int(text[len(text)/3])), servicestest.Dimensions)
		for i, x := range servicestest.Vector("xy", servicestest.Dimensions) {
			v[i] += 4 * x
		}
		return v
	}
	return servicestest.Vector(wordPairs.ReplaceAllString(text, "thing$1"), servicestest.Dimensions)
}

var wordPairs = regexp.MustCompile(`(?:car|auto|vehicle)([a-z]{2}k)`)

// spelling is a model that knows words, but not what they mean.
func spelling(text string) []float32 { return servicestest.Vector(text, servicestest.Dimensions) }

// spoken returns a group of bases with the vectors of a model.
func spoken(t *testing.T, model func(string) []float32, bases map[string][]chunk.Document) *knowledge.Group {
	t.Helper()
	by := basesByID{}
	for id, documents := range bases {
		c, err := knowledge.Embed(t.Context(), deps(), model, documents)
		if err != nil {
			t.Fatal(err)
		}
		by[id] = knowledge.New(id)
		by[id].Swap(c)
	}
	g := by.group()
	g.Questions = questionFunc(func(_ context.Context, text string) ([]float32, error) { return model(text), nil })
	return g
}

// Vectors have more than half of the weight if they find what words do not find, and none if the
// model does not know the language of a base: then the answer is that of words alone. A weight of
// the policy takes precedence. Of several bases, each has its own weight.
func TestDenseWeightOfALanguage(t *testing.T) {
	known, unknown := articles("", 40), articles("xy", 40)
	g := spoken(t, english, map[string][]chunk.Document{"known": known, "unknown": unknown, "small": known[:knowledge.Fewest-1]})
	for id, want := range map[string]string{"known": "0.7 true", "unknown": "0 true", "small": "0.5 false"} {
		weight, measured := g.Base(id).Content().DenseWeight()
		if got := fmt.Sprint(weight, measured); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	words := &knowledge.Group{Base: g.Base, Start: g.Start, Wait: g.Wait}
	for _, doc := range []int{3, 17, 38} {
		q := questionOf(fmt.Sprintf("what says %s about xytopic%d?", named("xycar", doc), doc%5), "unknown")
		hybrid, alone := documentsOf(t, g, q), documentsOf(t, words, q)
		slices.Sort(hybrid[1:]) // their scores by words are equal
		slices.Sort(alone[1:])
		if !slices.Equal(hybrid, alone) {
			t.Errorf("%s: %v, by words alone %v", q.Text, hybrid, alone)
		}
		res, err := retrieval.WithTexts{Next: g}.Retrieve(t.Context(), q)
		if err != nil || res.Sources[0].Doc != fmt.Sprintf("xy%02d", doc) || res.Sources[0].Score < res.Floor {
			t.Errorf("%s: %v first, floor %v, %v", q.Text, res.Sources[0], res.Floor, err)
		}
		q.Settings.DenseWeight = .9
		if said := documentsOf(t, g, q); slices.Equal(said, alone) {
			t.Errorf("%s: dense_weight .9 changes nothing", q.Text)
		}
	}
	told, err := g.Explain(t.Context(), questionOf(named("car", 3)+" "+named("xycar", 3)+" topic", "known", "unknown"))
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]map[float64]bool{"known": {}, "unknown": {}}
	for _, h := range told.Hits {
		weights[h.Knowledge][h.Weight] = true
	}
	if fmt.Sprint(weights) != "map[known:map[0.7:true] unknown:map[0:true]]" {
		t.Errorf("weights of two bases: %v", weights)
	}
}

// A model that knows no more than words has no weight.
func TestDenseWeightOfSpelling(t *testing.T) {
	documents := articles("", 40)
	for i := range documents {
		documents[i].Text = wordPairs.ReplaceAllString(documents[i].Text, "thing$1 thing$1")
	}
	g := spoken(t, spelling, map[string][]chunk.Document{"a": documents})
	if weight, measured := g.Base("a").Content().DenseWeight(); weight != 0 || !measured {
		t.Errorf("%v, measured %v", weight, measured)
	}
}

// Wrong vectors give no weight: all alike, zero, or random.
func TestDenseWeightOfWrongVectors(t *testing.T) {
	trials := knowledge.Trials(bare(t).Segments())
	for name, vector := range map[string]func(i int) []float32{
		"alike":     func(int) []float32 { return []float32{1, 2, 3} },
		"zero":      func(int) []float32 { return []float32{0, 0, 0} },
		"no number": func(i int) []float32 { return []float32{float32(math.NaN()), float32(i), 1} },
		"infinite":  func(i int) []float32 { return []float32{float32(math.Inf(1)), float32(i), 1} },
		"short":     func(i int) []float32 { return []float32{float32(i % 7), 1}[:1+i%2] },
		"random":    func(i int) []float32 { return spelling(fmt.Sprint("word", i)) },
	} {
		var vectors [][]float32
		for i := range 2 * len(trials) {
			vectors = append(vectors, vector(i))
		}
		weight, measured, err := knowledge.MeasureWeight(t.Context(), trials, vectors)
		if weight != 0 || !measured || err != nil {
			t.Errorf("%s: %v, measured %v, %v", name, weight, measured, err)
		}
	}
	if _, measured, err := knowledge.MeasureWeight(t.Context(), trials, nil); measured || err != nil {
		t.Errorf("without vectors measured %v, %v", measured, err)
	}
}

// bare returns a content without vectors.
func bare(t *testing.T) *knowledge.Content {
	t.Helper()
	c, err := knowledge.Segmented(t.Context(), deps(), articles("", 60))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A text that stands in many documents makes one trial, so that too few are left.
func TestRepeatedTextsMakeNoTrials(t *testing.T) {
	text := articles("", 1)[0].Text
	var documents []chunk.Document
	for i := range 50 {
		documents = append(documents, chunk.Document{ID: fmt.Sprint(i), Text: text})
	}
	c, err := knowledge.Embed(t.Context(), deps(), english, documents)
	if err != nil {
		t.Fatal(err)
	}
	if _, measured := c.DenseWeight(); measured || len(knowledge.Trials(c.Segments())) > 0 {
		t.Error("measured by one text")
	}
}

func documentsOf(t *testing.T, g *knowledge.Group, q retrieval.Query) (ids []string) {
	t.Helper()
	res, err := g.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range res.Sources {
		ids = append(ids, s.Doc)
	}
	return ids
}

// The same texts have the same trials whatever their segments, and a change of some texts changes
// few trials.
func TestTrialsAreSteady(t *testing.T) {
	questions := func(groups ...[]chunk.Document) (list []string) {
		c, err := knowledge.Segmented(t.Context(), deps(), groups...)
		if err != nil {
			t.Fatal(err)
		}
		for _, trial := range knowledge.Trials(c.Segments()) {
			list = append(list, trial.Question)
		}
		return list
	}
	all := articles("", 400)
	one, two := questions(all), questions(all[200:], all[:200])
	if len(one) < 90 || !slices.Equal(one, two) {
		t.Errorf("%d trials in one segment, %d others in two", len(one), len(two))
	}
	same := 0
	for _, q := range questions(all[:396]) {
		if slices.Contains(one, q) {
			same++
		}
	}
	if same < len(one)-4 {
		t.Errorf("without 4 of 400 documents %d of %d trials are the same", same, len(one))
	}
}

func TestMiddleSentence(t *testing.T) {
	const first, second = "The first sentence of this text is this one. ", "The second sentence of it follows it there. "
	const third = "And its third sentence comes at the very end."
	for text, want := range map[string]string{
		first + second + third:                    second,
		first + second:                            second,
		first + "Short. Words? " + second + third: "Short. Words? " + second,
		first: "",
		"":    "",
		"func totalOf(allNumbers []int) (total int) {\n\tfor _, number := range allNumbers {\n\t\ttotal += number\n\t}\n\treturn totalOrZero(total)\n}\n": "\tfor _, number := range allNumbers {\n\t\ttotal += number\n",
		"在歐洲梵語的學術研究由德國學者開創。後來發現印歐語系也要歸功於對梵語的研究。此外也對西方文字學的發展貢獻不少。":                                                                                         "後來發現印歐語系也要歸功於對梵語的研究。",
	} {
		if got := knowledge.MiddleSentence(text); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := knowledge.MiddleSentence(first + strings.Repeat("語", 1000)); len(got) > 400 || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
