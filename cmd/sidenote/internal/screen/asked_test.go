package screen

import (
	"bytes"
	"testing"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// stagedAnswer returns an answer made by a draft and a review.
func stagedAnswer() client.Answer {
	r := report.Report{
		Outcome: report.Staged, Usage: answer.Usage{Input: 1200, Output: 30, Known: true},
		Stages: &report.Stages{Total: 3, Answer: "final", Called: []report.Stage{
			{Name: "draft", At: 1, Model: "m", Calls: 1, Took: 1500 * time.Millisecond, Outcome: report.StageOK, Usage: answer.Usage{Input: 400, Output: 10, Known: true}, Output: "It is 12\x1b[2J [1].\n"},
			{Name: "review", At: 2, Model: "m", Took: time.Millisecond, Outcome: report.StageOK, Output: "\"12\": source 1 says 16."},
			{Name: "final", At: 3, Model: "m2", Calls: 1, Took: 2 * time.Second, Outcome: report.StageOK, Output: "It is 16 [1], not [9]."},
		}},
	}
	r.Rewrite.Outcome = rewrite.Injected
	r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 1, Doc: "leave.md\n", Section: "Parental leave"}, {ID: 2, Doc: "pay.md"}}
	return client.Answer{Text: "It is 16 [1], not [9].", Took: 4200 * time.Millisecond, Report: r}
}

// The screen shows each stage when it ends, then the answer while it arrives, then its sources.
func TestAsked(t *testing.T) {
	for name, c := range map[string]struct {
		stages bool
		change func(a *client.Answer)
		want   string
	}{
		"as it comes": {false, func(*client.Answer) {},
			"stage 1/3  draft  1.5 s\nstage 2/3  review  250 ms\nstage 3/3  final\nIt is 16 [1],· not [9].\n\n" +
				"[1] leave.md·, Parental leave\n[9] is the id of no source\nstaged, 3 stages, 2 sources, 4.2 s, 1,200 tokens in, 30 out\n"},
		"with stages": {true, func(*client.Answer) {},
			"stage 1/3  draft  1.5 s\nstage 2/3  review  250 ms\n" +
				"=== stage 1/3 draft: m, 1.5 s, 400 tokens in, 10 out\nIt is 12·[2J [1].\n\n=== stage 2/3 review: m, remembered\n\"12\": source 1 says 16.\n\n=== stage 3/3 final: m2, 2.0 s\n" +
				"It is 16 [1], not [9].\n\n" +
				"[1] leave.md·, Parental leave\n[9] is the id of no source\nstaged, 3 stages, 2 sources, 4.2 s, 1,200 tokens in, 30 out\n"},
		"failed": {false, func(a *client.Answer) {
			a.Report.Stages.Called = a.Report.Stages.Called[:2]
			a.Report.Stages.Called[1].Outcome, a.Report.Stages.Answer, a.Report.Usage, a.Text = report.StageTimeout, "draft", answer.Usage{}, "It is."
		},
			"stage 1/3  draft  1.5 s\nstage 2/3  review  250 ms\nstage 3/3  final\nIt is 16 [1],· not [9].\n\n" +
				"the answer cites none of 2 sources\nreview failed: timeout; the answer is what draft said\nstaged, 2 stages, 2 sources, 4.2 s\n"},
	} {
		var screen bytes.Buffer
		now := time.Unix(0, 0)
		s := &AnswerView{Out: &screen, Err: &screen, Terminal: true, Stages: c.stages, Now: func() time.Time { return now }}
		s.Begin([]string{"draft", "review", "final"})
		f := s.Follow()
		f.Head("staged; stages=3")
		f.Stage(1, 3, "draft")
		now = now.Add(1500 * time.Millisecond)
		f.Stage(2, 3, "review")
		f.Stage(2, 3, "review")
		now = now.Add(250 * time.Millisecond)
		f.Stage(3, 3, "final")
		f.Stage(9, 9, "unknown")
		f.Text("It is 16 [1],\a")
		f.Text(" not [9].")
		a := stagedAnswer()
		c.change(&a)
		s.End(&a, true)
		if screen.String() != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, screen.String(), c.want)
		}
	}
}

// On a terminal a line shows the progress until the answer arrives, also without stages.
func TestAskedShowsWhatGoesOn(t *testing.T) {
	var out, errs bytes.Buffer
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	s := &AnswerView{Out: &out, Err: &errs, Live: &terminal.Progress{Writer: &errs, Terminal: true, Now: clock}, Now: clock}
	s.show() // nothing is in progress
	s.Begin([]string{"draft", "final"})
	now = now.Add(3100 * time.Millisecond)
	s.show()
	f := s.Follow()
	f.Head("injected; unstaged=no-question")
	now = now.Add(time.Second)
	s.show()
	f.Text("Hello\x1b")
	s.show()
	s.End(&client.Answer{Text: "Hello\x1b"}, false)
	if want := "\rstage 1/2  draft  3.1 s\rwaiting for the answer  4.1 s\r                             \r"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
	if out.String() != "Hello\x1b\n" { // piped output is unchanged
		t.Errorf("%q", out.String())
	}
}
