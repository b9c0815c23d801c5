package analysis_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
)

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"hi":                       "",
		"Hello, thanks! OK?":       "",
		"Could you please help me": "",
		"How many weeks of parental leave do I get?": "week parent leav",
		"running RUNS ran":                           "run run ran",
		"the user's users’ don't":                    "user user",
		"parseURL":                                   "pars url parseurl",
		"HTTPServer2 getX":                           "http server 2 server2 httpserver2 getx",
		"snake_case os.Open":                         "snake case snake_case os open os.open",
		"mRNA":                                       "rna mrna",
		"end.Then":                                   "end end.then",
		"__init__ a.b.":                              "init __init__ a.b",
		"3.14 2024 v1.2.3 1,000":                     "3.14 2024 1.2 1.2.3 v1.2.3 1 000",
		"long-term cats/dogs e.g. x":                 "long term cat dog x",
		"ﬁle ｆｕｌｌ Ⅷ":                                 "file full viii",
		"Prüfgröße Pruefgroesse":                     "pruefgroess pruefgroess",
		"Übung Отпуск ÜBUNG":                         "uebung отпуск uebung",
		"Straße ΣΊΣΥΦΟΣ":                             "strass σίσυφοσ",
		"梵語":                                         "梵語",
		"茶":                                          "茶",
		"印歐語系，也要":                                    "印歐 歐語 語系 也要",
		"iPhone手機2台":                                 "phone iphon 手機 2 台",
		"ひらがな カタカナー 한국어":                             "ひら らが がな カタ タカ カナ ナー 한국 국어",
	} {
		got := strings.Join(analysis.Terms(text), " ")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// A Vocabulary returns the same as Terms, also from its cache.
func TestVocabularyIsTerms(t *testing.T) {
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"cat", "Cats", "parseURL", "os.Open", "梵語學", "hi", "3.14", "don't", strings.Repeat("x", 100), strings.Repeat("a.", 60) + "b"}),
		rapid.StringN(0, 12, -1),
	)
	rapid.Check(t, func(t *rapid.T) {
		var v analysis.Vocabulary
		for _, text := range rapid.SliceOfN(rapid.Map(rapid.SliceOf(word), func(w []string) string { return strings.Join(w, " ") }), 1, 5).Draw(t, "texts") {
			var got []string
			ids, _, err := v.Append(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				got = append(got, string(v.Bytes(id)))
			}
			if diff := cmp.Diff(analysis.Terms(text), got); diff != "" {
				t.Fatalf("%q (-terms +vocabulary):\n%s", text, diff)
			}
			numbers := map[string]uint32{}
			for id := range uint32(v.Len()) {
				if other, twice := numbers[string(v.Bytes(id))]; twice {
					t.Fatalf("%q is number %d and %d", v.Bytes(id), id, other)
				}
				numbers[string(v.Bytes(id))] = id
			}
		}
	})
}

func FuzzTerms(f *testing.F) {
	f.Add("parseURL os.Open 梵語 don't")
	f.Fuzz(func(t *testing.T, text string) {
		for _, term := range analysis.Terms(text) {
			if term == "" || strings.ContainsAny(term, " \n\t") {
				t.Errorf("term %q of %q", term, text)
			}
		}
	})
}

func BenchmarkVocabulary(b *testing.B) {
	text := strings.Repeat("Every parent may take sixteen weeks of paid leave, see parseURL or os.Open. ", 100)
	var v analysis.Vocabulary
	var ids []uint32
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		ids, _, _ = v.Append(ids[:0], text)
	}
}
