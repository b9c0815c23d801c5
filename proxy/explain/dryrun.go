package explain

import (
	"context"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/staged"
)

// A DryRunResult says what would happen to a chat.
type DryRunResult struct {
	report.Report                // with the edits of the first upstream request; in stages, of the one used if they fail
	Tools         []string       // names of the tools that the model would be offered, as it would see them
	Stages        []DryRunPrompt // prompts of all stages; nil without stages, or if nothing would be sent

	// Set by Run: the rewriting policy as narrowed by request and options, and the body that the
	// edits apply to, which differs from the one received if its messages are given as chunks.
	Rules rewrite.Policy
	Body  []byte
	// HelpersSkipped, set by Run: a planner, reranker or grader of the policy was skipped, as
	// requested.
	HelpersSkipped bool
}

// A DryRunPrompt is the prompt of a stage. Placeholders such as {{draft}} stand for the output of
// earlier stages.
type DryRunPrompt struct {
	*staged.Stage
	System, User string
}

// DryRun says what would happen to a request under p, the rewriting policy of of as narrowed by
// the request and its options. off is the reason in mode off. Rules about headers match nothing.
func DryRun(ctx context.Context, rw *rewrite.Rewriter, of *tenant.Policy, p rewrite.Policy, req *chat.Request, asked rewrite.Options, off rewrite.Reason) (r DryRunResult) {
	rule := p.Background(req, &asked, nil)
	if rule != "" {
		p.Mode, off = rewrite.Off, rewrite.ReasonBackground
	}
	switch p.Mode {
	case rewrite.Off:
		r.Outcome, r.Reason = rewrite.Untouched, off
		r.Rewrite = rewrite.Result{Outcome: r.Outcome, Reason: off, Edits: rewrite.StripEdits(req, p.Placement)}
		asked.ChunkResult.Record(&r.Rewrite.Ledger)
		r.Rewrite.Ledger.Background = rule
	case rewrite.Staged:
		inStages(ctx, &r, rw, &of.Stages, p, req, asked)
	default:
		r.Report, r.Tools = proxy.ToolsDryRun(ctx, rw, &of.Tools, p, req, asked)
	}
	return r
}

func inStages(ctx context.Context, r *DryRunResult, rw *rewrite.Rewriter, of *staged.Policy, p rewrite.Policy, req *chat.Request, asked rewrite.Options) {
	chat := staged.Read(req)
	unfit := chat.Unfit()
	if r.StagesSkipped = string(unfit); unfit != "" && of.RefuseUnfit {
		r.Outcome, r.Reason = rewrite.Refused, report.ReasonUnfit
		r.Rewrite.Outcome, r.Rewrite.Reason = r.Outcome, r.Reason
		return
	}
	if unfit == "" {
		p = p.Protecting(of.Chain.Tags())
	}
	res := &r.Rewrite
	rw.Rewrite(ctx, &p, req, &asked, res)
	r.Outcome, r.Reason = res.Outcome, res.Reason
	if unfit != "" || res.Outcome == rewrite.Refused || res.Outcome == rewrite.Answered {
		return
	}
	r.Outcome, r.Report.Stages = report.Staged, &report.Stages{Total: len(of.Chain.Stages)}
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
