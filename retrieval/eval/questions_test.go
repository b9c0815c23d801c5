package eval_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/eval"
)

// table writes a CSV file and returns its path.
func table(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "q.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Spreadsheets write commas, semicolons or tabs, a byte order mark, other columns, their own line
// ends, and texts with several lines.
func TestReadQuestions(t *testing.T) {
	want := []eval.Row{{2, "How much leave?", "leave.md"}, {3, "Who pays, and when?", "pay/*.md"}, {5, "a \"b\"\nc", "x.md"}}
	for name, text := range map[string]string{
		"commas":     "question,expected\nHow much leave?,leave.md\n\"Who pays, and when?\",./pay/*.md\n\n\"a \"\"b\"\"\nc\",x.md\n",
		"spaces":     " Question , Expected \n How much leave? , leave.md \n\"Who pays, and when?\", pay/*.md\n\n\"a \"\"b\"\"\nc\", x.md",
		"semicolons": "\ufeffid;EXPECTED;question\r\n1;leave.md;How much leave?\r\n2;pay/*.md;Who pays, and when?\r\n\r\n3;x.md;\"a \"\"b\"\"\r\nc\"\r\n",
		"tabs":       "question\texpected\tnote\nHow much leave?\tleave.md\t\nWho pays, and when?\tpay/*.md\tcheck\n\n\"a \"\"b\"\"\nc\"\tx.md\t\n",
	} {
		q, err := eval.ReadQuestions(t.Context(), table(t, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(eval.Questions{File: "q.csv", Rows: want}, q); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// All unusable rows are named at once, with their lines.
func TestBrokenQuestions(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "q.csv is empty",
		"question,expected\n":               "q.csv has no questions",
		"question,expect\na,b\n":            `q.csv:1: the first line names the columns "question,expect"; question and expected must be among them`,
		"question,expected\na,b\n,b\na, \n": "q.csv:3: no question; q.csv:4: no expected document; messages that no document answers are for --off-topic",
		"question,expected\na,b,c\n":        `q.csv:2: 3 columns where the first line has 2; a text with ',' in it needs quotes around it`,
		"question,expected\na,[b\nc,d":      `q.csv:2: "[b" is no pattern: syntax error in pattern`,
		"question,expected\n\xe4,b":         "q.csv:2: not in UTF-8; save the file in that encoding",
		"question,expected\na,b\nc,\"d":     "q.csv:3:5: not CSV: extraneous or missing \" in quoted-field",
		"question,expected\n" + strings.Repeat("a\n", 7): strings.Join([]string{
			`q.csv:2: 1 columns where the first line has 2; a text with ',' in it needs quotes around it`,
			`q.csv:3: 1 columns where the first line has 2; a text with ',' in it needs quotes around it`,
			`q.csv:4: 1 columns where the first line has 2; a text with ',' in it needs quotes around it`,
			`q.csv:5: 1 columns where the first line has 2; a text with ',' in it needs quotes around it`,
			`q.csv:6: 1 columns where the first line has 2; a text with ',' in it needs quotes around it`, "and 2 rows more",
		}, "; "),
	} {
		path := table(t, text)
		_, err := eval.ReadQuestions(t.Context(), path)
		if err == nil || strings.ReplaceAll(err.Error(), path, "q.csv") != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none.csv")} {
		if _, err := eval.ReadQuestions(t.Context(), path); !errors.Is(err, eval.ErrNoCollection) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := eval.ReadQuestions(ended, table(t, "question,expected\na,b\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// A question has one entry however many rows it has, and a pattern stands for all documents that
// it matches; a row without a match counts as a document that cannot be found.
func TestQuestionsAsCollection(t *testing.T) {
	q := eval.Questions{File: "q.csv", Rows: []eval.Row{
		{2, "leave", "leave.md"}, {3, "pay", "pay/**/*.md"}, {4, "leave", "old/leave.md"}, {5, "odd", "[a].md"}, {6, "pay", "pay/a.md"}, {7, "lost", "no/*.md"},
	}}
	documents := []eval.Document{{ID: "leave.md"}, {ID: "pay/a.md"}, {ID: "pay/b/c.md"}, {ID: "pay.txt"}, {ID: "[a].md"}, {ID: "a.md"}}
	want := &eval.Collection{
		Documents: documents, Judgments: "q.csv",
		Queries: []eval.Query{{ID: "2", Text: "leave"}, {ID: "3", Text: "pay"}, {ID: "5", Text: "odd"}, {ID: "7", Text: "lost"}},
		Grades: map[string]eval.Grades{
			"2": {"leave.md": 1, "old/leave.md": 1}, "3": {"pay/a.md": 1, "pay/b/c.md": 1}, "5": {"[a].md": 1}, "7": {"no/*.md": 1},
		},
	}
	got, unmatched := q.Collection(documents, false)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]eval.Row{q.Rows[2], q.Rows[5]}, unmatched); diff != "" {
		t.Error(diff)
	}
	// With several bases a row may name a base, or leave it open.
	got, unmatched = eval.Questions{Rows: []eval.Row{{2, "a", "leave.md"}, {3, "b", "hr/leave.md"}, {4, "c", "it/*"}, {5, "d", "hr/pay/*"}, {6, "e", "pay/*"}}}.
		Collection([]eval.Document{{ID: "hr/leave.md"}, {ID: "it/leave.md"}, {ID: "hr/pay/a.md"}}, true)
	if diff := cmp.Diff(map[string]eval.Grades{
		"2": {"hr/leave.md": 1, "it/leave.md": 1}, "3": {"hr/leave.md": 1}, "4": {"it/leave.md": 1}, "5": {"hr/pay/a.md": 1}, "6": {"hr/pay/a.md": 1},
	}, got.Grades); diff != "" || unmatched != nil {
		t.Error(diff, unmatched)
	}
}

// Documents can come from elsewhere than the queries and grades.
func TestReadFor(t *testing.T) {
	dir := layout(t, nil)
	if err := os.Remove(filepath.Join(dir, "corpus.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.Read(t.Context(), dir, ""); !errors.Is(err, eval.ErrNoCollection) {
		t.Errorf("without a corpus: %v", err)
	}
	whole, err := eval.Read(t.Context(), layout(t, nil), "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := eval.ReadFor(t.Context(), dir, "", whole.Documents)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, c); diff != "" {
		t.Error(diff)
	}
	if c, err = eval.ReadFor(t.Context(), dir, "", nil); err != nil || c.UnknownDocuments == 0 {
		t.Errorf("of no documents: %+v, %v", c, err)
	}
}
