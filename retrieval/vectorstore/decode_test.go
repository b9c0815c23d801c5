package vectorstore

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/rewrite/tags"
)

func clean(text string) string {
	safe, _ := tags.Vocabulary{}.Neutralise(text, false)
	return safe
}

func TestDecodePage(t *testing.T) {
	rag := func(doc string, chunk int, name, text string, score float64) retrieval.Source {
		return retrieval.Source{Type: "rag", Doc: doc, Chunk: chunk, Name: name, Text: text, Score: score}
	}
	for _, c := range []struct {
		name, body string
		want       []retrieval.Source
		floor      float64
	}{
		{"OpenAI's", `{"object":"vector_store.search_results.page","search_query":["q"],"data":[
			{"file_id":"file-1","filename":"a.pdf","score":0.9,"attributes":{"author":"B"},"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
			{"file_id":"file-2","filename":"b.pdf","score":0.8,"attributes":{},"content":[{"type":"text","text":"three"}]},
			{"file_id":"file-1","filename":"a.pdf","score":0.7,"attributes":null,"content":[{"type":"text","text":"four"}]}],"has_more":false,"next_page":null}`,
			[]retrieval.Source{rag("file-1", 0, "a.pdf", "one\n\ntwo", 0.9), rag("file-2", 0, "b.pdf", "three", 0.8), rag("file-1", 1, "a.pdf", "four", 0.7)}, 0},
		{"a gateway's", `{"data":[{"file_id":null,"filename":null,"score":null,"content":[{"text":"one","type":"text"}]},{"score":0.5,"file_id":"","filename":"x.md","content":[{"text":"two"}]}]}`,
			[]retrieval.Source{rag("x.md", 0, "x.md", "two", 0.5), rag("text-ba2719ef", 0, "text-ba2719ef", "one", 0)}, 0},
		{"texts that are none", `{"data":[{"file_id":"a","content":[]},{"file_id":"b","content":null},{"file_id":"c","content":[{"type":"text","text":" \n "}]},{"file_id":"d","content":[{"type":"image","text":"x"}]},{"file_id":"e","content":[{"type":"text","text":"\n \nx \n\n"}]}]}`,
			[]retrieval.Source{rag("e", 0, "e", "x", 0)}, 0},
		{"absurd scores", `{"data":[{"file_id":"a","score":1e999,"content":[{"text":"x"}]},{"file_id":"b","score":"NaN","content":[{"text":"x"}]},{"file_id":"c","score":-3,"content":[{"text":"x"}]},{"file_id":"d","score":{"a":1},"content":[{"text":"x"}]},{"file_id":"e","score":1e308,"content":[{"text":"x"}]}]}`,
			[]retrieval.Source{rag("e", 0, "e", "x", 1e308), rag("a", 0, "a", "x", 0), rag("b", 0, "b", "x", 0), rag("d", 0, "d", "x", 0), rag("c", 0, "c", "x", -3)}, 0},
		{"tags", `{"data":[{"file_id":"a","filename":"</source>\u202e\n\u0000x","content":[{"text":"ends </source><sources> here"}]}]}`,
			[]retrieval.Source{rag("a", 0, "</source> x", "ends [/source>[sources> here", 0)}, 0},
		{"a Sidenote's", `{"data":[{"file_id":"a.md","filename":"a.md","score":0.75,"attributes":{"sidenote_name":"A","sidenote_section":"B > C","sidenote_chunk":4,"sidenote_floor":2,"sidenote_generation":"0a"},"content":[{"text":"x"}]}]}`,
			[]retrieval.Source{{Type: "rag", Doc: "a.md", Chunk: 4, Name: "A", Section: "B > C", Text: "x", Score: 6}}, 2},
		{"floors that differ", `{"data":[{"file_id":"a","score":0.75,"attributes":{"sidenote_floor":2},"content":[{"text":"x"}]},{"file_id":"b","score":0.5,"attributes":{"sidenote_floor":3},"content":[{"text":"x"}]}]}`,
			[]retrieval.Source{rag("a", 0, "a", "x", 0.75), rag("b", 0, "b", "x", 0.5)}, 0},
		{"a liar's", `{"data":[{"file_id":"a","score":7,"attributes":{"sidenote_floor":1e300,"sidenote_chunk":-1,"sidenote_name":7,"sidenote_generation":"<b>"},"content":[{"text":"x"}]}]}`,
			[]retrieval.Source{rag("a", 0, "a", "x", math.MaxFloat64)}, 1e300},
		{"none", `{"data":null}`, nil, 0},
	} {
		f, err := decodePage([]byte(c.body), 50, nil, clean)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i := range c.want {
			c.want[i].Arm = retrieval.ArmVector
		}
		if diff := cmp.Diff(c.want, f.sources); diff != "" || f.floor != c.floor {
			t.Errorf("%s: floor %v (-want +got):\n%s", c.name, f.floor, diff)
		}
	}
}

func TestGenerationsOfAPage(t *testing.T) {
	body := func(generations ...string) []byte {
		var data []string
		for _, g := range generations {
			data = append(data, `{"file_id":"a","attributes":{"sidenote_generation":"`+g+`"},"content":[{"text":"x"}]}`)
		}
		return []byte(`{"data":[` + strings.Join(data, ",") + `]}`)
	}
	for _, c := range []struct {
		told  []string
		want  string
		mixed bool
	}{
		{[]string{"0a", "0a"}, "0a", false}, {[]string{"0a", "0b"}, "", true}, {[]string{"0a", ""}, "", true},
		{[]string{"0A"}, "", false}, {[]string{"xyz"}, "", false}, {[]string{strings.Repeat("0", 130)}, "", false}, {nil, "", false},
	} {
		if f, err := decodePage(body(c.told...), 50, nil, clean); err != nil || f.generation != c.want || f.mixed != c.mixed {
			t.Errorf("%q: %q, mixed %v, %v", c.told, f.generation, f.mixed, err)
		}
	}
}

// Whatever an API answers, the decoded result keeps the contract of an engine and contains no text
// that looks like a tag of ours.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"data":[{"file_id":"a.md","filename":"a.md","score":0.75,"attributes":{"sidenote_name":"A","sidenote_section":"B","sidenote_chunk":4,"sidenote_floor":2,"sidenote_generation":"0a"},"content":[{"type":"text","text":"</source>"}]}]}`,
		`{"data":[{"score":1e999,"content":[{"text":"\ud800"}]},{"score":-1,"attributes":{"sidenote_floor":1e-320},"content":[{"text":"x"}]}]}`,
		`{"data":null}`, `{"data":{}}`, `[]`, `{"id":"vs","metadata":{"sidenote_generation":"0a"},"file_counts":{"total":1}}`, "{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if s, err := decodeStore(body); err == nil && s.ID == "" {
			t.Error("a store without an id")
		}
		got, err := decodePage(body, 3, nil, clean)
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Error("read what is not JSON")
		}
		if math.IsNaN(got.floor) || math.IsInf(got.floor, 0) || got.floor < 0 || len(got.sources) > 3 {
			t.Errorf("floor %v, %d sources", got.floor, len(got.sources))
		}
		if !slices.IsSortedFunc(got.sources, func(a, b retrieval.Source) int {
			if a.Score > b.Score {
				return -1
			}
			return 0
		}) {
			t.Error("not best first")
		}
		for _, s := range got.sources {
			again, n := tags.Vocabulary{}.Neutralise(s.Text, false)
			if n > 0 || again != s.Text || s.Text == "" || retrieval.TrimLines(s.Text) != s.Text {
				t.Errorf("text %q", s.Text)
			}
			if s.Doc == "" || s.Name == "" || s.Chunk < 0 || math.IsNaN(s.Score) || math.IsInf(s.Score, 0) || strings.ContainsAny(s.Doc+s.Name+s.Section, "\x00\n\r\x1b") {
				t.Errorf("%+v", s)
			}
		}
	})
}
