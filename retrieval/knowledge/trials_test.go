package knowledge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/services/servicestest"
)

// articles returns documents of three sentences, each with unique words that begin with letters.
func articles(letters string, n int) (list []chunk.Document) {
	for i := range n {
		var text strings.Builder
		for sentence := range 3 {
			fmt.Fprintf(&text, "Every %sarticle%d has %ssentence%d about %stopic%d. ", letters, i, letters, sentence, letters, i%5)
		}
		list = append(list, chunk.Document{ID: fmt.Sprintf("%s%02d", letters, i), Text: text.String()})
	}
	return list
}

// english is a model that knows all words except those that begin with xy: texts with these have
// almost the same vector.
func english(text string) []float32 {
	if strings.Contains(text, "xy") {
		v := servicestest.Vector(fmt.Sprintf("digest%d", len(text)*31+int(text[len(text)/2])*7+int(text[len(text)/3])), servicestest.Dimensions)
		for i, x := range servicestest.Vector("xy", servicestest.Dimensions) {
			v[i] += 4 * x
		}
		return v
	}
	return servicestest.Vector(text, servicestest.Dimensions)
}

// spoken returns a group of bases with the vectors of english.
func spoken(t *testing.T, bases map[string][]chunk.Document) *knowledge.Group {
	t.Helper()
	by := basesByID{}
	for id, documents := range bases {
		c, err := knowledge.Embed(t.Context(), deps(), english, documents)
		if err != nil {
			t.Fatal(err)
		}
		by[id] = knowledge.New(id)
		by[id].Swap(c)
	}
	g := by.group()
	g.Questions = questionFunc(func(_ context.Context, text string) ([]float32, error) { return english(text), nil })
	return g
}

// Vectors have half of the weight if the model knows the language of a base, and none if it does
// not: then the order is that of words alone, and everything found by words passes. A weight of
// the policy takes precedence. Of several bases, each has its own weight.
func TestDenseWeightOfALanguage(t *testing.T) {
	known, unknown := articles("", 40), articles("xy", 40)
	g := spoken(t, map[string][]chunk.Document{"known": known, "unknown": unknown, "small": known[:knowledge.Fewest-1]})
	for id, want := range map[string]string{"known": "0.5 true", "unknown": "0 true", "small": "0.5 false"} {
		weight, measured := g.Base(id).Content().DenseWeight()
		if got := fmt.Sprint(weight, measured); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	words := &knowledge.Group{Base: g.Base, Start: g.Start, Wait: g.Wait}
	for _, doc := range []int{3, 17, 38} {
		q := questionOf(fmt.Sprintf("what says xyarticle%d about xytopic%d?", doc, doc%5), "unknown")
		hybrid, alone := documentsOf(t, g, q), documentsOf(t, words, q)
		n := len(alone)
		slices.Sort(hybrid[1:n]) // their scores by words are equal
		slices.Sort(alone[1:])
		if !slices.Equal(hybrid[:n], alone) {
			t.Errorf("%s: %v, by words alone %v", q.Text, hybrid, alone)
		}
		res, err := retrieval.WithTexts{Next: g}.Retrieve(t.Context(), q)
		if err != nil || res.Sources[0].Doc != fmt.Sprintf("xy%02d", doc) || res.Sources[0].Score < res.Floor {
			t.Errorf("%s: %v first, floor %v, %v", q.Text, res.Sources[0], res.Floor, err)
		}
		q.Settings.DenseWeight = .9
		if said := documentsOf(t, g, q); slices.Equal(said[:len(alone)], alone) {
			t.Errorf("%s: dense_weight .9 changes nothing", q.Text)
		}
	}
	told, err := g.Explain(t.Context(), questionOf("article3 xyarticle3 topic", "known", "unknown"))
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]map[float64]bool{"known": {}, "unknown": {}}
	for _, h := range told.Hits {
		weights[h.Knowledge][h.Weight] = true
	}
	if fmt.Sprint(weights) != "map[known:map[0.5:true] unknown:map[0:true]]" {
		t.Errorf("weights of two bases: %v", weights)
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
