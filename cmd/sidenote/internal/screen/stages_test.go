package screen

import (
	"strings"
	"testing"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// Each stage is a line, with its prompt and output below it in readable form. Their texts cannot
// be mistaken for lines of ours or change the terminal.
func TestExplanationOfStages(t *testing.T) {
	e := &explain.Explanation{
		ID: "a", Outcome: report.Staged, Status: 200, Client: report.ClientCompleted,
		Calls: []explain.Call{{Upstream: "u", Purpose: report.ToStage, Status: 200}, {Upstream: "u", Purpose: report.ToStage, Status: 429}},
		Usage: &explain.Usage{Input: 12900, Output: 120},
		Sent:  &explain.Body{Text: "the last of the stages' requests"},
		Stages: &explain.Stages{Total: 4, Answer: "answer_generator", Called: []explain.Stage{
			{
				Name: "answer_generator", At: 2, Upstream: "u", Model: "gpt-5-mini", Calls: 1, Status: 200, Took: 1512.34, Outcome: report.StageOK, Finish: "length",
				Usage:   &explain.StageUsage{Input: 12900, Output: 120},
				Request: &explain.Body{Bytes: 9000, Text: `{"messages":[{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":"Two\nlines\u001b[31m"}]}`},
				Output:  &explain.Body{Bytes: 20, Text: "16 weeks [1].\n  3  forged\x1b[31m\n"},
			},
			{Name: "critic", At: 3, Upstream: "other", Model: "judge", Calls: 2, Status: 429, Outcome: report.StageLimited, Request: &explain.Body{Bytes: 70000, Text: `{"messages":[{"role" … 70 bytes …`}},
			{Name: "final", At: 4, Outcome: report.StageConnect},
		}},
	}
	var w strings.Builder
	Explanation(&w, e)
	const want = `staged, status 200
0 ms, first byte after 0 ms; 0 ms of Sidenote's: search 0, fit 0, edit 0
stages: 3 of 4, the answer is that of answer_generator; all used 12,900 tokens of input, 120 of output
  STAGE  NAME                      CALLS  STATUS         MS     INPUT    OUTPUT  OUTCOME       MODEL
      2  answer_generator              1     200     1512.3    12,900       120  ok (length)   gpt-5-mini on u
         asked, 9,000 bytes
         | system:
         | [{"type":"text","text":"Be brief."}]
         | user:
         | Two
         | lines·[31m
         said, 20 bytes
         | 16 weeks [1].
         |   3  forged·[31m
      3  critic                        2     429        0.0         -         -  rate-limit    judge on other
         asked, 70,000 bytes
         | {"messages":[{"role" … 70 bytes …
      4  final                         0       -        0.0         -         -  connect
`
	if _, got, _ := strings.Cut(w.String(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.Reset()
	e.Outcome = rewrite.Injected // instead of the stages
	if Explanation(&w, e); !strings.Contains(w.String(), "\nsent 0 bytes\nthe last of") {
		t.Errorf("no sign of what was sent:\n%s", w.String())
	}
	w.Reset()
	Explanation(&w, &explain.Explanation{StagesSkipped: "choices\x1b"})
	if !strings.Contains(w.String(), "\nnot answered in stages: choices·\n") || strings.Contains(w.String(), "\nstages: ") {
		t.Errorf("%q", w.String())
	}
}
