package eval_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

func TestReadMessages(t *testing.T) {
	f := func(name, text string, want []eval.Message, wantErr string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := eval.ReadMessages(t.Context(), path)
		if wantErr != "" {
			if err == nil || !strings.HasSuffix(err.Error(), wantErr) || errors.Is(err, eval.ErrNoCollection) {
				t.Errorf("%s %q: error %v, want %s", name, text, err, wantErr)
			}
			return
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s %q: %v\n%s", name, text, err, diff)
		}
	}
	f("small-talk.txt", "\ufeffthanks!\r\n\n  # it's {\"_id\": 1}\n", []eval.Message{{ID: "1", Text: "thanks!"}, {ID: "3", Text: `# it's {"_id": 1}`}}, "")
	f("small-talk.jsonl", `{"_id": "a", "text": "thanks,\nthat helped!"}`+"\n", []eval.Message{{ID: "a", Text: "thanks,\nthat helped!"}}, "")
	f("none.txt", " \n\n", nil, "none.txt is empty")
	f("none.jsonl", "", nil, "none.jsonl is empty")
	f("plain.jsonl", "thanks!", nil, "plain.jsonl:1: not JSON: invalid character 'h' in literal true (expecting 'r') (byte 2 of the line)")
	for _, path := range []string{"testdata/none.txt", "testdata"} {
		if _, err := eval.ReadMessages(t.Context(), path); !errors.Is(err, eval.ErrNoCollection) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// The repository's own messages are many, in several languages, and no message is in both halves.
func TestOffTopicMessages(t *testing.T) {
	languages, seen := map[string]int{}, map[string]string{}
	for _, half := range []string{"tune", "test"} {
		messages, err := eval.ReadMessages(t.Context(), "testdata/off-topic/"+half+".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			language, _, _ := strings.Cut(m.ID, "-")
			languages[language]++
			if other, twice := seen[m.Text]; twice {
				t.Errorf("%q is message %s and %s", m.Text, other, m.ID)
			}
			seen[m.Text] = m.ID
		}
	}
	if len(seen) < 150 || len(languages) < 4 {
		t.Errorf("%d messages of %v", len(seen), languages)
	}
}

// withFloor is an engine with decreasing scores; with the automatic threshold it returns only the
// first two sources.
func withFloor(byText map[string]string) retrieval.Func {
	all := answers(byText, 0)
	return func(ctx context.Context, q retrieval.Query) (res retrieval.Result, err error) {
		found, err := all(ctx, q)
		for _, s := range found.Sources {
			if q.Settings.ScoreThreshold != retrieval.AutoThreshold || s.Score >= 99 {
				res.Sources = append(res.Sources, s)
			}
		}
		return res, err
	}
}

// A query is lost if the threshold removes a relevant document, and counts only if there was one.
func TestLost(t *testing.T) {
	for _, tc := range []struct {
		leave, dog, fridays string // documents found; two of them reach the threshold
		lost                float64
	}{
		{"a#0 b#0", "d#0", "d#0", 0},
		{"c#0 a#0 a#1", "d#0", "d#0", 0}, // another chunk of it stays
		{"c#0 c#1 a#0", "d#0", "d#0", 1. / 3},
		{"a#0 c#0 b#0", "d#0", "d#0", 1. / 3}, // one of two is lost
		{"c#0 c#1 a#0", "e#0", "e#0 e#1", 1},
		{"c#0", "e#0 e#1 e#2", "", 0},
	} {
		engine := withFloor(map[string]string{leave: tc.leave, dog: tc.dog, fridays: tc.fridays})
		trial := eval.Trial{Engine: engine, Request: engine, Query: retrieval.Query{Settings: retrieval.DefaultSettings()}}
		outcomes, err := trial.Run(t.Context(), tiny(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := eval.Summarise(outcomes).Lost; got != tc.lost {
			t.Errorf("%+v: lost %v", tc, got)
		}
	}
}

func TestOffTopic(t *testing.T) {
	messages := []eval.Message{{ID: "1", Text: "thanks!"}, {ID: "2", Text: "hello"}, {ID: "3", Text: "ok"}}
	asked := 0
	trial := eval.Trial{Request: withFloor(map[string]string{"hello": "a#0 a#1 b#0"}), Query: retrieval.Query{Settings: retrieval.DefaultSettings()}}
	trial.Progress = func(done int) { asked = done }
	results, err := trial.OffTopic(t.Context(), messages)
	if err != nil || len(results) != 3 || asked != 3 {
		t.Fatalf("%+v, %v; %d asked", results, err, asked)
	}
	if got := eval.Injected(results); len(got) != 1 || got[0].Message.ID != "2" || len(got[0].Sources) != 2 {
		t.Errorf("injected %+v", got)
	}

	ctx, stop := context.WithCancel(t.Context())
	trial.Progress = func(int) { stop() }
	if got, err := trial.OffTopic(ctx, messages); err != nil || len(got) != 1 {
		t.Errorf("stopped: %+v, %v", got, err)
	}
	trial.Request = retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{}, errors.New("broken")
	})
	if _, err := trial.OffTopic(t.Context(), messages); err == nil || err.Error() != "message 1: broken" {
		t.Errorf("error %v", err)
	}
}
