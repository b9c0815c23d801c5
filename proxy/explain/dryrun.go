package explain

import (
	"context"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// A DryRunResult is what would become of a chat.
type DryRunResult struct {
	report.Report                // its Rewrite has the edits of what goes up first; in stages, of what goes up where they fail
	Tools         []string       // that its model would be offered, by the names that it would read
	Stages        []DryRunPrompt // what each stage would be asked; nil where there are none, or nothing is asked

	// Of Run: the policy of rewriting as request and options leave it, and the body that the edits
	// are of, which is not the one that came where chunks are its messages.
	Rules rewrite.Policy
	Body  []byte
	// Unhelped, likewise: the policy has a planner, reranker or grader that was not asked, as the request wants.
	Unhelped bool
}

// A DryRunPrompt is what a stage would be asked. In the place of what an earlier stage would say stands its
// placeholder, such as {{draft}}.
type DryRunPrompt struct {
	*staged.Stage
	System, User string
}

// DryRun says what would become of a request under p, which is of's policy of rewriting as the request
// and its options leave it. off is the reason under mode off.
func DryRun(ctx context.Context, rw *rewrite.Rewriter, of *tenant.Policy, p rewrite.Policy, req *rewrite.Request, asked rewrite.Options, off rewrite.Reason) (r DryRunResult) {
	switch p.Mode {
	case rewrite.Off:
		r.Outcome, r.Reason = rewrite.Untouched, off
		r.Rewrite = rewrite.Result{Outcome: r.Outcome, Reason: off, Edits: rewrite.StripEdits(req, p.Placement)}
		asked.Taken.Tell(&r.Rewrite.Ledger)
	case rewrite.Staged:
		inStages(ctx, &r, rw, &of.Stages, p, req, asked)
	default:
		r.Report, r.Tools = proxy.ToolsDryRun(ctx, rw, &of.Tools, p, req, asked)
	}
	return r
}

func inStages(ctx context.Context, r *DryRunResult, rw *rewrite.Rewriter, of *staged.Policy, p rewrite.Policy, req *rewrite.Request, asked rewrite.Options) {
	chat := staged.Read(req)
	unfit := chat.Unfit()
	if r.Unstaged = string(unfit); unfit != "" && of.RefuseUnfit {
		r.Outcome, r.Reason = rewrite.Refused, report.ReasonUnfit
		r.Rewrite.Outcome, r.Rewrite.Reason = r.Outcome, r.Reason
		return
	}
	if unfit == "" {
		p = p.Protecting(of.Chain.Tags())
	}
	res := rw.Rewrite(ctx, p, req, asked)
	r.Rewrite, r.Outcome, r.Reason = res, res.Outcome, res.Reason
	if unfit != "" || res.Outcome == rewrite.Refused || res.Outcome == rewrite.Answered {
		return
	}
	r.Outcome, r.Report.Stages = report.Staged, &report.Stages{Of: len(of.Chain.Stages)}
	r.Stages = prompts(of.Chain, staged.Inputs{
		Question: chat.Question, Context: res.Block, History: chat.History(res.Model.Counter), Counter: res.Model.Counter,
	})
}

func prompts(c *staged.Chain, in staged.Inputs) []DryRunPrompt {
	list := make([]DryRunPrompt, len(c.Stages))
	for i := range list {
		s := &c.Stages[i]
		list[i].Stage = s
		list[i].System, list[i].User = c.Prompt(i, in)
		in.Outputs = append(in.Outputs, "{{"+s.Name+"}}")
	}
	return list
}
