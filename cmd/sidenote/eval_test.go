package main

import (
	"context"
	"strings"
	"testing"

	"sidenote/retrieval/eval"
)

// Numbers of fewer queries than were to be asked are told as such.
func TestEvalStopped(t *testing.T) {
	e := evaluation{data: &eval.Collection{Queries: make([]eval.Query, 3)}, outcomes: make([]eval.Outcome, 1)}
	if err := e.undone(); exitCode(err) != exitPart || err.Error() != "done in part: stopped after 1 of 3 queries" {
		t.Errorf("error %v", err)
	}
	e.outcomes = make([]eval.Outcome, 3)
	if err := e.undone(); err != nil {
		t.Errorf("whole, and error %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errs strings.Builder
	env := func(string) (string, bool) { return "", false }
	code := Run(ctx, []string{"eval", "--data", "../../retrieval/eval/testdata/tiny"}, strings.NewReader(""), &out, &errs, env)
	if code != exitFailed || out.Len() > 0 || !strings.Contains(errs.String(), context.Canceled.Error()) {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
}
