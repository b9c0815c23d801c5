package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An eval that is stopped before its first query fails.
func TestEvalStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errs strings.Builder
	env := func(string) (string, bool) { return "", false }
	code := Run(ctx, []string{"eval", "--data", "../../retrieval/eval/testdata/tiny"}, strings.NewReader(""), &out, &errs, env)
	if code != exitFailed || out.Len() > 0 || !strings.Contains(errs.String(), context.Canceled.Error()) {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
}

// An evalAnswer is the part of the output of `eval --json` that tests read.
type evalAnswer struct {
	NDCG     float64 `json:"ndcg_at_10"`
	Lost     float64 `json:"lost"`
	OffTopic struct {
		Messages int            `json:"messages"`
		Injected []offTopicLine `json:"worst"`
	} `json:"off_topic"`
}

type offTopicLine struct {
	ID        string `json:"_id,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	Text      string `json:"text"`
}

// The score threshold excludes messages that no document answers and loses few right answers;
// without it the ranking is unchanged. The messages, and the questions of other collections, are
// not those that the threshold's constants were tuned on.
func TestFloor(t *testing.T) {
	const collections, messages = "../../../shared/ir", "../../retrieval/eval/testdata/off-topic/test.jsonl"
	if _, err := os.Stat(collections); err != nil {
		t.Skipf("no test collections: %v", err)
	}
	// This is the binary that users run: with the race detector it would take ten times as long.
	binary := released(t)
	for _, tc := range []struct {
		data, others                            string
		ndcg, lost, injected, english, answered float64 // at least, at most, at most …
	}{
		{"scifact", "cranfield", .705, .037, .15, .25, .18},
		{"cranfield", "scifact", .405, .035, .10, .25, .04},
		{"drcd", "scifact", .950, .035, .10, .25, .02}, // of the first 2,000; of all .952
	} {
		t.Run(tc.data, func(t *testing.T) {
			asked, list := map[string]float64{}, filepath.Join(t.TempDir(), "off-topic.jsonl")
			ask := func(path, set string) {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(list, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				for line := range strings.Lines(string(text)) {
					var m offTopicLine
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatal(err)
					}
					m.ID = set + m.ID
					asked[kindOf(m.ID)]++
					if err := json.NewEncoder(f).Encode(m); err != nil {
						t.Fatal(err)
					}
				}
			}
			ask(messages, "messages/")
			ask(filepath.Join(collections, tc.others, "queries.jsonl"), "questions/")
			out, err := exec.CommandContext(t.Context(), binary, "eval", "--data", filepath.Join(collections, tc.data),
				"--off-topic", list, "--worst", "100000", "--queries", "2000", "--json").Output()
			if err != nil {
				t.Fatal(err)
			}
			var e evalAnswer
			if err := json.Unmarshal(out, &e); err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, m := range e.OffTopic.Injected {
				got[kindOf(m.MessageID)]++
			}
			of := func(kinds ...string) float64 {
				var n, all float64
				for _, kind := range kinds {
					n, all = n+got[kind], all+asked[kind]
				}
				return n / all
			}
			all, english, answered := of("English", "other"), of("English"), of("questions")
			t.Logf("nDCG@10 %.4f, lost %.4f; get sources: messages %.4f, English ones %.4f, other questions %.4f of %d in all",
				e.NDCG, e.Lost, all, english, answered, e.OffTopic.Messages)
			if e.NDCG < tc.ndcg || e.Lost > tc.lost || all > tc.injected || english > tc.english || answered > tc.answered {
				t.Errorf("want %+v", tc)
				for _, m := range e.OffTopic.Injected {
					t.Log(m.MessageID, m.Text)
				}
			}
		})
	}
}

// kindOf returns the kind under which TestFloor counts a message.
func kindOf(id string) string {
	switch {
	case strings.HasPrefix(id, "questions/"):
		return "questions"
	case strings.HasPrefix(id, "messages/en-"):
		return "English"
	}
	return "other"
}
