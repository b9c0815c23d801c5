package eval_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

func TestRead(t *testing.T) {
	c := tiny(t)
	if len(c.Documents) != 5 || c.Documents[3] != (eval.Document{ID: "d", Title: "Dogs", Text: "On Fridays, in the garden wing."}) {
		t.Errorf("documents %v", c.Documents)
	}
	want := &eval.Collection{
		Documents: c.Documents, Judgments: "qrels/test.tsv",
		Queries: []eval.Query{{ID: "q1", Text: leave}, {ID: "q2", Text: dog}, {ID: "q5", Text: fridays}},
		Grades: map[string]eval.Grades{
			"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"d": 1, "gone": 1}, "q3": {"a": 0}, "q5": {"d": 1}, "q9": {"a": 1},
		},
		LeftOut: 2, UnknownQueries: 1, UnknownDocuments: 1,
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	dev, err := eval.Read(t.Context(), "testdata/tiny", "dev")
	if err != nil || len(dev.Queries) != 1 || dev.Queries[0].ID != "q4" {
		t.Errorf("dev: %+v, %v", dev, err)
	}
}

// A query can have earlier turns.
func TestReadTurns(t *testing.T) {
	c, err := eval.Read(t.Context(), layout(t, map[string]string{"queries.jsonl": `{"_id":"q1","turns":["first","second"],"text":"third"}`}), "")
	if err != nil || len(c.Queries) != 1 || !slices.Equal(c.Queries[0].Turns, []string{"first", "second"}) || c.Queries[0].Text != "third" {
		t.Fatalf("%+v, %v", c, err)
	}
	var asked []retrieval.Query
	engine := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		asked = append(asked, q)
		return retrieval.Result{}, nil
	})
	if _, err := (eval.Trial{Engine: engine, Request: engine}).Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, q := range asked {
		if diff := cmp.Diff([]retrieval.Turn{{Text: "second"}, {Text: "first"}}, q.Previous); diff != "" {
			t.Error(diff)
		}
	}
	if len(asked) != 3 { // with the threshold, without it, and the engine
		t.Errorf("asked %d times", len(asked))
	}
}

// layout writes the files of the tiny collection, with changes: "" removes a file.
func layout(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tiny")); err != nil {
		t.Fatal(err)
	}
	for name, text := range changes {
		name = filepath.Join(dir, name)
		err := os.WriteFile(name, []byte(text), 0o600)
		if text == "" {
			err = os.RemoveAll(name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The file of the grades, with and without a requested split.
func TestSplits(t *testing.T) {
	const grades = "q1\ta\t1\n"
	for name, tc := range map[string]struct {
		changes map[string]string
		split   string
		want    string // file, or the error
	}{
		"test wins":          {nil, "", "qrels/test.tsv"},
		"by name":            {nil, "dev", "qrels/dev.tsv"},
		"unknown":            {nil, "train", `has no split "train"; there are dev, test`},
		"no way out":         {nil, "../qrels/dev", `has no split "../qrels/dev"`},
		"the only one":       {map[string]string{"qrels/test.tsv": ""}, "", "qrels/dev.tsv"},
		"several, no test":   {map[string]string{"qrels/test.tsv": "", "qrels/train.tsv": grades}, "", `has no split "test"; there are dev, train`},
		"beside the others":  {map[string]string{"qrels": "", "qrels.tsv": grades}, "", "qrels.tsv"},
		"folder comes first": {map[string]string{"qrels.tsv": grades}, "", "qrels/test.tsv"},
		"one has no name":    {map[string]string{"qrels": "", "qrels.tsv": grades}, "test", "one only, qrels.tsv"},
		"none":               {map[string]string{"qrels": ""}, "", "has neither qrels/test.tsv nor qrels.tsv"},
		"no corpus":          {map[string]string{"corpus.jsonl": ""}, "", "has no corpus.jsonl"},
		"no queries":         {map[string]string{"queries.jsonl": ""}, "", "has no queries.jsonl"},
	} {
		c, err := eval.Read(t.Context(), layout(t, tc.changes), tc.split)
		switch {
		case err != nil && (!strings.Contains(err.Error(), tc.want) || !errors.Is(err, eval.ErrNoCollection)):
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		case err == nil && c.Judgments != tc.want:
			t.Errorf("%s: read %s, want %s", name, c.Judgments, tc.want)
		}
	}
	if _, err := eval.Read(t.Context(), "eval_test.go", ""); !errors.Is(err, eval.ErrNoCollection) {
		t.Errorf("a file: error %v", err)
	}
}

// Errors name file and line.
func TestBroken(t *testing.T) {
	const doc = `{"_id": "a", "text": "x"}` + "\n"
	for _, tc := range []struct{ file, text, want string }{
		{"corpus.jsonl", doc + `{"_id": "b", "text`, "corpus.jsonl:2: not JSON: unexpected end of JSON input (byte 18 of the line)"},
		{"corpus.jsonl", doc + "\n" + `{"_id": "b"} {}`, "corpus.jsonl:3: not JSON: invalid character '{' after top-level value (byte 14 of the line)"},
		{"corpus.jsonl", `{"_id": 7}`, "corpus.jsonl:1: _id is not a string but a number"},
		{"corpus.jsonl", `["a"]`, "corpus.jsonl:1: array, not an object"},
		{"corpus.jsonl", doc + `{"id": "b"}`, "corpus.jsonl:2: no _id"},
		{"corpus.jsonl", doc + `{"_id": "b"}` + "\n" + doc, `corpus.jsonl:3: _id "a" stands on line 1 too`},
		{"corpus.jsonl", "\n \n", "corpus.jsonl is empty"},
		{"queries.jsonl", doc + doc, `queries.jsonl:2: _id "a" stands on line 1 too`},
		{"queries.jsonl", "\ufeff" + doc, "no query of queries.jsonl has a relevant document in qrels/test.tsv"},
		{"qrels/test.tsv", "q1\ta\t1\nq1 b 1\n", "test.tsv:2: 1 columns; want query id, document id and grade with tabs between them"},
		{"qrels/test.tsv", "q1\ta\tyes\n", `test.tsv:1: grade "yes" is not a whole number`},
		{"qrels/test.tsv", "q1\ta\t1\nq1\ta\t2\n", `test.tsv:2: document "a" of query "q1" has grade 1 already`},
		{"qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "no query of queries.jsonl has a relevant document in qrels/test.tsv"},
	} {
		_, err := eval.Read(t.Context(), layout(t, map[string]string{tc.file: tc.text}), "")
		if err == nil || !strings.HasSuffix(err.Error(), tc.want) || errors.Is(err, eval.ErrNoCollection) {
			t.Errorf("error %v, want %s", err, tc.want)
		}
	}
}
