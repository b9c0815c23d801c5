package analysis_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
)

// A stop word in capitals is a name, unless everything around it is in capitals too.
func TestStopWordsInCapitals(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if diff := cmp.Diff(want, strings.Join(analysis.Terms(text), " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	f("Who do I ask in the IT department?", "ask it depart")
	f("the it department", "depart")
	f("It is broken. Who repairs it? Tell us!", "broken repair")
	f("guidelines of the WHO", "guidelin who")
	f("taxes in the US", "tax us")
	f("Is it in the US or does WHO's IT have it", "us who it")
	f("WHO’s advice", "who advic")
	f("IT-Abteilung, Text/IT; (IT)", "it abteilung text it it")
	f("who runs IT2 and WHO_IT", "run 2 it2 who_it")
	f("I and A are letters", "letter")
	f("DON'T do IT'S work", "work") // a word in capitals that is only emphasized
	f("OK thanks, PLEASE HELP", "") // small talk is not a name
	f("the ITS fleet", "its fleet") // unchanged: names are not stemmed
	f("ａｓｋ ＩＴ now", "ask it now")   // NFKC

	// It is also a name if it stands alone.
	f("IT", "it")
	f("Who? WHO!", "who")

	// Capitals throughout.
	f("HOW DO I GET IT?", "")
	f("WHO IS IN THE IT DEPARTMENT", "depart")
	f("I NEED IT", "")
	f("WHAT IS IN THE iPhone MANUAL?", "phone iphon manual") // all but one word
	f("IT IS BROKEN! Who repairs IT?", "broken repair it")   // each sentence separately
	f("GETTING IT\n\nAsk IT.\n\nABOUT US\n", "ask it")       // headings
	f("- HR\n- IT\n- US\n", "hr it us")                      // but not lists
	f("US GDP growth", "us gdp growth")

	// Scripts without case do not count as capitals.
	f("IT部門", "it 部門")
	f("отдел IT", "отдел it")
	f("IT 是什麼？WHO 是什麼", "it 是什 什麼 who 是什 什麼")
}

// The index and the question have the same terms, whatever is in capitals.
func TestIndexAndQuestionAgree(t *testing.T) {
	word := rapid.SampledFrom([]string{"IT", "it", "It", "WHO", "WHO's", "US", "us", "NOT", "cat", "CAT", "iPhone", "部門", ".", "?", "\n", "3", "A_B", "getIT"})
	rapid.Check(t, func(t *rapid.T) {
		var v analysis.Vocabulary
		for _, words := range rapid.SliceOfN(rapid.SliceOfN(word, 0, 8), 1, 4).Draw(t, "texts") {
			text := strings.Join(words, " ")
			ids, _, err := v.Append(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, id := range ids {
				got = append(got, string(v.Bytes(id)))
			}
			if diff := cmp.Diff(analysis.Terms(text), got); diff != "" {
				t.Fatalf("%q (-question +index):\n%s", text, diff)
			}
		}
	})
}

// Each sentence is examined once, so that time is linear in the length of the text.
func TestLongSentencesAreRead(t *testing.T) {
	text := strings.Repeat("IT ", 200_000) // one sentence of candidates only
	if got := analysis.Terms(text); got != nil {
		t.Errorf("%d terms of a text in capitals", len(got))
	}
	if got := analysis.Terms("the " + strings.Repeat("IT as ", 200_000)); len(got) != 200_000 {
		t.Errorf("%d terms, want one for each of 200,000 names", len(got))
	}
}
