package knowledge_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// A collection is a test collection in BEIR's layout.
type collection struct {
	documents []knowledge.Document
	queries   []entry
	relevant  map[string]map[string]bool // document ids by query id
}

type entry struct {
	ID    string `json:"_id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// readCollection reads a collection that lies beside the repository.
func readCollection(t *testing.T, name string) collection {
	t.Helper()
	dir := filepath.Join("../../../shared/ir", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test collection: %v", err)
	}
	c := collection{queries: readEntries(t, filepath.Join(dir, "queries.jsonl")), relevant: map[string]map[string]bool{}}
	for _, e := range readEntries(t, filepath.Join(dir, "corpus.jsonl")) {
		c.documents = append(c.documents, knowledge.Document{ID: e.ID, Name: e.Title, Text: e.Text})
	}
	qrels, err := os.ReadFile(filepath.Join(dir, "qrels.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(qrels)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "1" && f[2] != "2" {
			continue // the head, or not relevant
		}
		if c.relevant[f[0]] == nil {
			c.relevant[f[0]] = map[string]bool{}
		}
		c.relevant[f[0]][f[1]] = true
	}
	return c
}

func readEntries(t *testing.T, name string) (entries []entry) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return entries
}

// fourBytes counts a token for every four bytes: about right for English.
type fourBytes struct{}

func (fourBytes) Count(text string) (n int, exact bool) { return (len(text) + 3) / 4, false }

func (c collection) base(t *testing.T) *knowledge.Base {
	t.Helper()
	content, _, err := knowledge.FromDocuments(t.Context(), c.documents, knowledge.Deps{Counter: fourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("test")
	b.Swap(content)
	return b
}

func ask(t *testing.T, b *knowledge.Base, question string) retrieval.Result {
	t.Helper()
	res, err := b.Retrieve(t.Context(), retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// topDocuments returns the best source of each of the ten best documents.
func topDocuments(sources []retrieval.Source) (top []retrieval.Source) {
	seen := map[string]bool{}
	for _, s := range sources {
		if !seen[s.Doc] && len(top) < 10 {
			seen[s.Doc] = true
			top = append(top, s)
		}
	}
	return top
}

// The ranking is as good as it was when it was last looked at.
func TestRanking(t *testing.T) {
	for name, want := range map[string]float64{"scifact": .692, "cranfield": .390, "drcd": .954} {
		t.Run(name, func(t *testing.T) {
			c := readCollection(t, name)
			b := c.base(t)
			sum := 0.0
			for _, q := range c.queries {
				sum += ndcg(topDocuments(ask(t, b, q.Text).Sources), c.relevant[q.ID])
			}
			if got := sum / float64(len(c.queries)); math.Abs(got-want) > .002 {
				t.Errorf("nDCG@10 %.4f, recorded %.3f", got, want)
			}
		})
	}
}

// ndcg is the normalised discounted cumulative gain of a list (Järvelin and
// Kekäläinen, 2002) for grades of 0 and 1.
func ndcg(top []retrieval.Source, relevant map[string]bool) float64 {
	gain, ideal := 0.0, 0.0
	for i := range 10 {
		discount := 1 / math.Log2(float64(i+2))
		if i < len(top) && relevant[top[i].Doc] {
			gain += discount
		}
		if i < len(relevant) {
			ideal += discount
		}
	}
	if ideal == 0 {
		return 0
	}
	return gain / ideal
}

// The floor keeps what answers and turns away questions about something else.
func TestFloor(t *testing.T) {
	for _, tc := range []struct {
		base, others   string
		kept, rejected float64 // at least, of relevant hits and of the others' questions
	}{
		{"scifact", "cranfield", .98, .70},
		{"cranfield", "scifact", .98, .98},
		{"drcd", "scifact", .98, .98},
	} {
		t.Run(tc.base, func(t *testing.T) {
			c := readCollection(t, tc.base)
			b := c.base(t)
			hits, kept := 0, 0
			for _, q := range c.queries {
				res := ask(t, b, q.Text)
				for _, s := range topDocuments(res.Sources) {
					if c.relevant[q.ID][s.Doc] {
						hits++
						if s.Score >= res.Floor {
							kept++
						}
					}
				}
			}
			others, rejected := readCollection(t, tc.others).queries, 0
			for _, q := range others {
				if res := ask(t, b, q.Text); len(res.Sources) == 0 || res.Sources[0].Score < res.Floor {
					rejected++
				}
			}
			gotKept, gotRejected := float64(kept)/float64(hits), float64(rejected)/float64(len(others))
			t.Logf("kept %.3f of relevant hits, rejected %.3f of questions about %s", gotKept, gotRejected, tc.others)
			if gotKept < tc.kept || gotRejected < tc.rejected {
				t.Errorf("kept %.3f, rejected %.3f; want %.3f and %.3f", gotKept, gotRejected, tc.kept, tc.rejected)
			}
		})
	}
}
