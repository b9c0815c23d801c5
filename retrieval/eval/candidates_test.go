package eval_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sidenote/retrieval/eval"
)

// What is written is read again, once a person has confirmed it, and no cell is a formula.
func TestCandidatesAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "questions.csv")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"=1+1", "@SUM(A1)", "'=x", "''-", "-2", "+a\nb", "a,\"b\"", "＝1", "'s", "\u200b=1", "\x1b\t-1", "x[1", "a{b", `c\[*`}), rapid.StringN(1, 20, -1)).
			Filter(func(s string) bool {
				return strings.TrimSpace(s) != "" && utf8.ValidString(s) && !strings.ContainsAny(s, "\r\x00\ufeff")
			})
		want := eval.Candidate{Question: strings.TrimSpace(text.Draw(t, "question")), Expected: strings.TrimSpace(text.Draw(t, "document")), Asked: 3, Cited: 2}
		if strings.HasPrefix(want.Expected, "./") {
			t.Skip("ids of documents do not begin so")
		}
		var out strings.Builder
		if err := eval.WriteCandidates(&out, []eval.Candidate{want}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q, %v", rows, err)
		}
		for _, cell := range rows[1] {
			shown := strings.TrimLeftFunc(cell, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
			if shown != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(shown)[0]) {
				t.Fatalf("a formula: %q", cell)
			}
		}
		rows[1][2] = "yes"
		if err := os.WriteFile(path, confirmed(rows), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := eval.ReadQuestions(t.Context(), path)
		if err != nil || len(got.Rows) != 1 || got.Rows[0].Question != want.Question || got.Unconfirmed != 0 {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
		c, unmatched := got.Collection([]eval.Document{{ID: want.Expected}}, false)
		if len(unmatched) > 0 || c.Grades["2"][want.Expected] != 1 {
			t.Fatalf("document %q is not found by %q", want.Expected, got.Rows[0].Expected)
		}
	})
}

func confirmed(rows [][]string) []byte {
	var out strings.Builder
	w := csv.NewWriter(&out)
	_ = w.WriteAll(rows)
	return []byte(out.String())
}

// Rows that no person has confirmed are not asked.
func TestUnconfirmedRows(t *testing.T) {
	q, err := eval.ReadQuestions(t.Context(), table(t, "question,expected,Confirmed\na,x,yes\nb,x,\nc,x,no\nd,x, TRUE \ne,x,1\n"))
	if err != nil || len(q.Rows) != 3 || q.Unconfirmed != 2 {
		t.Errorf("%+v, %v", q, err)
	}
	_, err = eval.ReadQuestions(t.Context(), table(t, "question,expected,confirmed\na,x,\nb,x,no\n"))
	if err == nil || !strings.HasSuffix(err.Error(), "none of 2 rows is confirmed; write yes into the column confirmed of each that is right") {
		t.Errorf("%v", err)
	}
}
