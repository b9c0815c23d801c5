package replay_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/proxy/record"
	"sidenote/proxy/record/recordtest"
	"sidenote/retrieval/eval"
)

// Questions are merged, and those that say nothing about documents are left out and counted.
func TestCandidates(t *testing.T) {
	cited := func(question string, docs ...string) *record.Record {
		r := &record.Record{Question: question}
		for i, doc := range docs {
			r.Sources = append(r.Sources, record.Source{ID: i + 1, Knowledge: "kb", Doc: doc, Cited: 1})
		}
		return r
	}
	bad := -1.0
	followUp, standing, disliked, uncited := cited("And how much?", "pay.md"), cited("How long is the probation period of interns?", "dogs.md"), cited("How long is leave", "pay.md"), cited("How long is leave")
	followUp.Earlier, standing.Earlier, disliked.Feedback = []string{"When am I paid?"}, []string{"When am I paid?"}, &bad
	uncited.Sources = []record.Source{{Knowledge: "kb", Doc: "leave.md"}}
	records := recordtest.List{
		cited("How long is leave?", "leave.md"), cited(" how  LONG is leave ", "leave.md", "leave.md", "law.md"), cited("How long is leave?", "leave.md"),
		followUp, standing, disliked, uncited, cited(" ?"),
	}
	got, e, err := replay.Candidates(t.Context(), records, record.Query{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	want := []eval.Candidate{
		{Question: "How long is leave?", Expected: "leave.md", Asked: 3, Cited: 3}, {Question: "How long is leave?", Expected: "law.md", Asked: 3, Cited: 1},
		{Question: "How long is the probation period of interns?", Expected: "dogs.md", Asked: 1, Cited: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if want := (replay.Export{Object: "replay.export", Records: 8, Questions: 2, Rows: 3, FollowUps: 1, Uncited: 1, Disliked: 1, NoQuestion: 1, Bases: 1}); e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
	other := cited("Who has the keys?", "keys.md")
	other.Sources[0].Knowledge = "office"
	got, _, err = replay.Candidates(t.Context(), append(records, other), record.Query{}, func(int) {})
	if err != nil || got[0].Expected != "kb/leave.md" || got[3].Expected != "office/keys.md" {
		t.Errorf("of two bases: %+v, %v", got, err)
	}
	if _, _, err := replay.Candidates(t.Context(), recordtest.List{}, record.Query{}, func(int) {}); !errors.Is(err, replay.ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
}
