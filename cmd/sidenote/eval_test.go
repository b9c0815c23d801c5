package main

import (
	"context"
	"strings"
	"testing"
)

// An eval that is stopped before it has asked anything fails.
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
