package knowledge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// handbookQuestions are questions to knowledgetest.Handbook with the document that answers.
var handbookQuestions = map[string]string{
	"How many weeks of parental leave do I get?": "leave.md",
	"When do I need a doctor's note?":            "leave.md",
	"what after an adoption":                     "leave.md",
	"can I carry over holidays to next year":     "holidays.md",
	"Who pays for my gym membership?":            "benefits.md",
	"is there a bicycle lease":                   "benefits.md",
	"yearly health check":                        "benefits.md",
	"What is the notice period?":                 "leaving.md",
	"which devices are returned":                 "leaving.md",
	"pension":                                    "pension.md",
	"How do I book flights?":                     "travel.md",
	"where do I hand in receipts":                "travel.md",
	"are hotels booked by me":                    "travel.md",
	"I lost my laptop, what now?":                "laptop.md",
	"What is my training budget?":                "training.md",
	"books and conferences":                      "training.md",
	"report harassment":                          "conduct.md",
	"overtime":                                   "overtime.md",
	"where do visitors sign in":                  "office.md",
	"two factors for customer data":              "passwords.md",
}

// longest returns the place of the longest word.
func longest(question string) (from, to int) {
	for i, c := range question {
		if c == ' ' {
			continue
		}
		end := i + strings.IndexAny(question[i:]+" ", " ?,'")
		if (i == 0 || question[i-1] == ' ') && end-i > to-from {
			from, to = i, end
		}
	}
	return from, to
}

// typo returns the question with two letters of its longest word transposed, from the n-th on.
func typo(question string, n int) string {
	from, to := longest(question)
	w := []byte(question)
	for i := range to - from - 1 {
		if a := from + (n+i)%(to-from-1); w[a] != w[a+1] {
			w[a], w[a+1] = w[a+1], w[a]
			break
		}
	}
	return string(w)
}

// first returns the document of the best source, "" if it is below the floor.
func first(t *testing.T, b retrieval.Retriever, q retrieval.Query) string {
	t.Helper()
	q.Settings = retrieval.DefaultSettings()
	res, err := b.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Sources) == 0 || res.Sources[0].Score < res.Floor {
		return ""
	}
	return res.Sources[0].Doc
}

// Questions whose longest word has two letters transposed find the document that they find without.
func TestTyposAreCorrected(t *testing.T) {
	b := holding(t, "handbook", knowledgetest.Handbook())
	asked, right, missed := 0, 0, []string(nil)
	for question, want := range handbookQuestions {
		if got := first(t, b, retrieval.Query{Text: question}); got != want {
			t.Errorf("%q finds %q, want %q", question, got, want)
		}
		for n := range 4 {
			q := typo(question, n)
			if asked++; first(t, b, retrieval.Query{Text: q}) == want {
				right++
			} else {
				missed = append(missed, q)
			}
		}
	}
	if share := float64(right) / float64(asked); share < .95 {
		t.Errorf("%d of %d are right; not %q", right, asked, missed)
	}
}

// explained returns the terms of a question as "typed→term" or "term", sorted.
func explained(t *testing.T, g *knowledge.Group, q retrieval.Query) string {
	t.Helper()
	q.Settings = retrieval.DefaultSettings()
	told, err := g.Explain(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, term := range told.Terms {
		text := term.Text
		if term.Typed != "" {
			text = term.Typed + "→" + term.Text
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// The words that are searched instead, in the form that was typed. Names, numbers, identifiers and
// known words stay as they are, and so do short words and stop words with an error.
func TestCorrections(t *testing.T) {
	g := basesByID{"pay": holding(t, "pay", map[string]string{
		"a.md": "Payments are due in thirty days. Installation and configuration of printers.",
		"b.md": "The containers hold 4021 retirement forms. ISO9001 and PAY-4021 apply to E0382.",
		"c.md": "Kündigung und Urlaub. Отпуск сотрудника. The format of the forum.",
	})}.group()
	for question, want := range map[string]string{
		"paymnets":                   "paymnets→payments",
		"PAYMNETS":                   "paymnet",
		"pyaments and paymetns":      "paymetns→payments pyaments→payments",
		"payment paymnets":           "payment paymnets→payments",
		"instalaltion":               "instalaltion→installation",
		"configuraton":               "configuraton→configuration",
		"conatinres":                 "conatinres→containes",
		"retriement":                 "retriement→retirement",
		"Kundigung":                  "kundigung→kuendigung",
		"отпукс":                     "отпукс→отпуск",
		"fomrs":                      "fomrs→forms",
		"forrm":                      "forrm→form, forum",
		"duue":                       "duue",
		"becuase whcih":              "becuas whcih",
		"iso9010 4012 PAY-4012":      "4012 9010 pay4012",
		"E0328":                      "0328",
		"pay_mnets":                  "mnet pay",
		"locomotive":                 "locomot",
		"foramt":                     "foramt→format",
		strings.Repeat("x", 10<<10):  "",
		strings.Repeat("pa", 20):     strings.Repeat("pa", 20),
		"forms " + "printesr's":      "form printesr→printers",
		"Contaimers contaimers":      "contaimers→containers",
		"foruum formaat forrmat due": "due formaat→format forrmat→format foruum→forum",
	} {
		if got := explained(t, g, retrieval.Query{Text: question, Bases: refs("pay")}); got != want {
			t.Errorf("%.40q: %q, want %q", question, got, want)
		}
	}
}

// A word that one of the searched bases knows is not corrected for the others.
func TestKnownAnywhereIsNotCorrected(t *testing.T) {
	g := basesByID{
		"a": holding(t, "a", map[string]string{"a.md": "Payments are due."}),
		"b": holding(t, "b", map[string]string{"b.md": "Paymnets is a name."}),
	}.group()
	for bases, want := range map[string]string{"a": "paymnets→payments", "b": "paymnet", "a b": "paymnet"} {
		if got := explained(t, g, retrieval.Query{Text: "paymnets", Bases: refs(strings.Fields(bases)...)}); got != want {
			t.Errorf("bases %s: %q, want %q", bases, got, want)
		}
	}
}

// Under a filter no word of a hidden document is an alternative.
func TestCorrectionsRevealNothing(t *testing.T) {
	c, _, err := knowledge.FromDocuments(t.Context(), []chunk.Document{
		{ID: "secret", Text: "The acquisition is planned.", Attributes: map[string]any{"audience": "board"}},
		{ID: "open", Text: "Lunch is at noon.", Attributes: map[string]any{"audience": "staff"}},
	}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("a")
	b.Swap(c)
	g := basesByID{"a": b}.group()
	staff, err := filter.Parse([]byte(`{"type": "eq", "key": "audience", "value": "staff"}`))
	if err != nil {
		t.Fatal(err)
	}
	q := retrieval.Query{Text: "acqiusition lnuch", Bases: refs("a")}
	if got, want := explained(t, g, q), "acqiusition→acquisition lnuch→lunch"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	q.Filter = staff
	if got, want := explained(t, g, q), "acqiusit lnuch→lunch"; got != want {
		t.Errorf("filtered: %q, want %q", got, want)
	}
}

// A corrected word adds less to a score than the right one, however many alternatives it has.
func TestCorrectedWordsAddLess(t *testing.T) {
	b := holding(t, "a", map[string]string{
		"a.md": "lunch format forest", "b.md": "lunch forrest formal", "c.md": "dinner and supper", "d.md": "breakfast",
	})
	score := func(question, doc string) float64 {
		res, err := b.Retrieve(t.Context(), retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range res.Sources {
			if s.Doc == doc {
				return s.Score
			}
		}
		return 0
	}
	if exact, near := score("lunch format", "a.md"), score("lunch forma", "a.md"); near >= exact || near <= score("lunch", "a.md") {
		t.Errorf("format %v, forma %v, nothing %v", exact, near, score("lunch", "a.md"))
	}
}

// Questions of nothing but errors, and of thousands of unknown words, are answered; only some of
// the words are corrected.
func TestManyUnknownWords(t *testing.T) {
	g := basesByID{"handbook": holding(t, "handbook", knowledgetest.Handbook())}.group()
	if got, want := explained(t, g, retrieval.Query{Text: "paretnal laeve wekes", Bases: refs("handbook")}),
		"laeve→leave paretnal→parental wekes→weeks"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	n := 5000
	if testing.Short() {
		n = 1000
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "hloidays%c%c%c ", 'a'+i%26, 'a'+i/26%26, 'a'+i/676)
	}
	for _, text := range []string{b.String(), strings.Repeat("paretnal ", n), strings.Repeat("hloiday laeve offcie booksk persion trianing overitme repotr ", n/50)} {
		got := explained(t, g, retrieval.Query{Text: text, Bases: refs("handbook")})
		if n := strings.Count(got, "→"); n > knowledge.MostCorrected {
			t.Errorf("%d words are corrected: %.200q", n, got)
		}
	}
}
