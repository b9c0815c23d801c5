package synonyms_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/synonyms"
)

func TestParse(t *testing.T) {
	list, err := synonyms.Parse([]byte("\ufeff# a comment\n\nrefund, money back\r\ncron => every night, nightly\na\\,b \\=> c, dd ee\nxx => yy\nyy => xx\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := func(first string, want ...retrieval.SynonymRule) {
		t.Helper()
		if d := cmp.Diff(want, list.Rules[first]); d != "" {
			t.Errorf("%s (-want +got):\n%s", first, d)
		}
	}
	f("refund", retrieval.SynonymRule{Terms: []string{"refund"}, Alternatives: [][]string{{"money", "back"}}})
	f("money", retrieval.SynonymRule{Terms: []string{"money", "back"}, Alternatives: [][]string{{"refund"}}})
	f("cron", retrieval.SynonymRule{Terms: []string{"cron"}, Alternatives: [][]string{{"everi", "night"}, {"night"}}})
	f("night")
	f("b", retrieval.SynonymRule{Terms: []string{"b", "c"}, Alternatives: [][]string{{"dd", "ee"}}})
	f("xx", retrieval.SynonymRule{Terms: []string{"xx"}, Alternatives: [][]string{{"yy"}}})
	f("yy", retrieval.SynonymRule{Terms: []string{"yy"}, Alternatives: [][]string{{"xx"}}})
}

func TestMistakes(t *testing.T) {
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, ", word%dx", i)
	}
	for text, want := range map[string]string{
		"refund":                          "line 1, column 1: has a single word; a rule lists two or more, or has =>",
		"refund, , money":                 "line 1, column 9: a word is missing",
		"# x\nrefund =>":                  "line 2, column 10: a word is missing",
		"=> refund":                       "line 1, column 1: a word is missing",
		"a1 => b1 => c1":                  "line 1, column 10: a second =>",
		"ab, the":                         `line 1, column 5: "the" has only words`,
		"ab, \x00\xff":                    "line 1, column 1: is not UTF-8 text",
		"ab, cd\\":                        `line 1, column 7: \ ends the line`,
		"ab, one1 t2 t3 t4 t5 t6 t7":      "words; a phrase has at most 6",
		"word" + many.String():            "is the word 65 of a rule; it has at most 64",
		strings.Repeat("ab, cd\n", 1e5+1): "line 100001, column 1: is rule 100001; a list has at most 100000",
	} {
		_, err := synonyms.Parse([]byte(text))
		place := (*synonyms.Error)(nil)
		if !errors.As(err, &place) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	long := ""
	for i := range 100 {
		long += fmt.Sprintf("ab => w%dx\n", i)
	}
	if _, err := synonyms.Parse([]byte(long)); err == nil || !strings.Contains(err.Error(), `line 65, column 7: "ab" has more than 64 synonyms`) {
		t.Error(err)
	}
}

func TestDefault(t *testing.T) {
	if n := len(synonyms.Default().Rules); n < 50 {
		t.Errorf("%d words", n)
	}
}

// A phrase of two lists gets the alternatives of both, in their order; the lists stay as they were.
func TestJoin(t *testing.T) {
	parse := func(text string) *retrieval.Synonyms {
		list, err := synonyms.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	a, b := parse("refund, money back\n"), parse("refund => chargeback\ncron => nightly\n")
	all := synonyms.Join(nil, a, nil, b)
	want := map[string][]retrieval.SynonymRule{
		"refund": {{Terms: []string{"refund"}, Alternatives: [][]string{{"money", "back"}, {"chargeback"}}}},
		"money":  a.Rules["money"], "cron": b.Rules["cron"],
	}
	if d := cmp.Diff(want, all.Rules); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := len(a.Rules["refund"][0].Alternatives); n != 1 {
		t.Errorf("the first list has %d alternatives now", n)
	}
	if all.ID() == a.ID() || all.ID() == b.ID() || synonyms.Join(b, a).ID() == all.ID() {
		t.Error("different lists have one digest")
	}
	if synonyms.Join(nil, nil) != nil || synonyms.Join() != nil || synonyms.Join(nil, a) != a {
		t.Error("nil adds a list")
	}
}
