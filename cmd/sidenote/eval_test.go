package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// The line of progress covers what was there before, at most ten times a second.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := &progress{w: &screen}
		p.line("reading %s", "scifact")
		p.line("too soon")
		<-time.After(progressEvery)
		p.line("1 of 2")
		p.clear()
		p.clear()
		if want := "\rreading scifact\r1 of 2         \r      \r"; screen.String() != want {
			t.Errorf("got %q, want %q", screen.String(), want)
		}
	})
	var none *progress
	none.line("nobody watches")
	none.clear()
}

// A title takes no more columns than there are.
func TestFit(t *testing.T) {
	for _, tc := range []struct {
		text    string
		columns int
		want    string
	}{
		{"Leave", 5, "Leave"},
		{"Leave policy", 6, "Leave…"},
		{"索馬利亞", 8, "索馬利亞"},
		{"索馬利亞", 7, "索馬…"},
		{"two\nlines", 20, "two·lines"},
	} {
		if got := fit(tc.text, tc.columns); got != tc.want {
			t.Errorf("fit(%q, %d) = %q, want %q", tc.text, tc.columns, got, tc.want)
		}
	}
}
