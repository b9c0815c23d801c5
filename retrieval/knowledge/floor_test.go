package knowledge_test

import (
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// floorOf returns the floor of a question.
func floorOf(t *testing.T, b retrieval.Retriever, q retrieval.Query) float64 {
	t.Helper()
	q.Settings = retrieval.DefaultSettings()
	res, err := b.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return res.Floor
}

// A word that no base has does not raise the floor of a question that a base can answer, nor does
// a contraction without its apostrophe.
func TestUnknownWordsDoNotRaiseTheFloor(t *testing.T) {
	b := holding(t, "handbook", knowledgetest.Handbook())
	for question, longer := range map[string]string{
		"notice period in months":             "notice period in months at Globotrans",
		"weeks of parental leave after birth": "whats the number of weeks of parental leave after birth",
		"yearly health check by the company":  "yearly health check by the company in Ulaanbaatar",
	} {
		plain, more := floorOf(t, b, retrieval.Query{Text: question}), floorOf(t, b, retrieval.Query{Text: longer})
		if more > plain+1e-9 || plain == 0 {
			t.Errorf("%q has floor %v, %q %v", question, plain, longer, more)
		}
	}
}

// A question that has hardly any word of the base is about something else.
func TestMostlyUnknownWordsRaiseTheFloor(t *testing.T) {
	b := holding(t, "handbook", knowledgetest.Handbook())
	plain, foreign := floorOf(t, b, retrieval.Query{Text: "notice period"}), floorOf(t, b, retrieval.Query{Text: "notice period magnetohydrodynamic turbulence vortices plasma"})
	if foreign <= plain {
		t.Errorf("%v, with unknown words %v", plain, foreign)
	}
}

// A word that only another base has does not raise the floor for the texts of a base, either.
func TestWordsOfOtherBasesDoNotRaiseTheFloor(t *testing.T) {
	bases := basesByID{
		"handbook": holding(t, "handbook", knowledgetest.Handbook()),
		"other": holding(t, "other", map[string]string{
			"a.md": "Globotrans ships timber.", "b.md": "The harbour is closed.", "c.md": "Cranes are inspected.", "d.md": "Ships wait outside.",
		}),
	}
	g := bases.group()
	<-g.Prepare("handbook", "other")
	floor := func(question string) float64 {
		return floorOf(t, g, retrieval.Query{Text: question, Bases: refs("handbook", "other")})
	}
	plain, more := floor("notice period in months"), floor("notice period in months at Globotrans")
	if more > plain+1e-9 || plain == 0 {
		t.Errorf("%v, with a word of the other base %v", plain, more)
	}
}

// Pairs of characters that are the end of one word and the start of the next do not raise the
// floor.
func TestPairsAcrossWordsDoNotRaiseTheFloor(t *testing.T) {
	texts := map[string]string{}
	for id, text := range map[string]string{
		"a.md": "年假每年二十天。", "b.md": "年假可以结转。", "c.md": "病假需要证明。", "d.md": "有薪年假不能转让。", "e.md": "假期申请要经理批准。",
		"f.md": "天气好的时候可以休息。", "g.md": "几天内答复。", "h.md": "几天前提出申请。", "i.md": "年假有效期一年。", "j.md": "没有几天。",
	} {
		texts[id] = text
	}
	b := knowledge.New("zh")
	b.Swap(build(t, texts))
	apart, joined := floorOf(t, b, retrieval.Query{Text: "年假 几天"}), floorOf(t, b, retrieval.Query{Text: "年假几天"})
	if joined > apart+1e-9 || apart == 0 {
		t.Errorf("apart %v, joined %v", apart, joined)
	}
}
