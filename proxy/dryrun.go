package proxy

import (
	"context"

	"sidenote/proxy/report"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// ToolsDryRun reports how a chat would be rewritten, without sending it. offered holds the names
// under which the model would be offered the tools of the policy, in that policy's order. The
// edits in r are those of the first round, without restored turns, which belong to other callers.
func ToolsDryRun(ctx context.Context, rw *rewrite.Rewriter, of *tools.Policy, p rewrite.Policy, req *chat.Request, asked rewrite.Options) (r report.Report, offered []string) {
	var o *Offering
	if p.Mode == rewrite.Tools {
		o, r.ToolsSkipped = tryOffer(rw, of, req, p.Knowledge)
	}
	if o != nil {
		p = o.FirstSearchPolicy(o.Protecting(p))
	}
	res := &r.Rewrite
	rw.Rewrite(ctx, &p, req, &asked, res)
	r.Outcome, r.Reason = res.Outcome, res.Reason
	if o != nil && res.Outcome != rewrite.Refused {
		res.Edits = o.AddEdits(res.Edits, nil)
		res.Ledger.Edits = res.Edits
		asked.ChunkResult.Record(&res.Ledger)
		r.Outcome, r.Tools, offered = report.WithTools, new(report.Tools), o.offered()
	}
	return r, offered
}

func tryOffer(rw *rewrite.Rewriter, of *tools.Policy, req *chat.Request, knowledge []string) (o *Offering, unoffered string) {
	o, refusal := OfferTools(req, of, rw.Models.Model(req.Model), knowledge)
	if refusal != "" {
		return nil, string(refusal)
	}
	return o, ""
}

// offered returns the names under which tools are offered, in the policy's order.
func (o *Offering) offered() []string {
	names := make([]string, len(o.policy.Offer))
	for name, tool := range o.Names {
		for i := range names {
			if o.policy.Offer[i] == tool {
				names[i] = name
			}
		}
	}
	return names
}
