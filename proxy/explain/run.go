package explain

import (
	"context"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// A DryRunner makes dry runs of chats as they would come to the data port. It is safe for
// concurrent use.
type DryRunner struct {
	Rewriter *rewrite.Rewriter
	Planners *proxy.Planners // nil: nobody is asked
	Modes    *tenant.Switch  // may lower the mode of a tenant; nil: nothing does
}

// A DryRunRequest is a chat that may be sent.
type DryRunRequest struct {
	Policy  *tenant.Policy // of its tenant
	Body    []byte
	Options rewrite.Options // of its headers

	ContextTokens int  // take the place of the policy's; 0: those of the policy
	Unhelped      bool // no planner, reranker or grader is asked: they cost
}

// chatPath is the path whose overrides hold.
const chatPath = "/v1/chat/completions"

// Run says what would become of a request. An error is the one that its client would get, or
// says that only the caller's token tells what the tenant may see.
func (d *DryRunner) Run(ctx context.Context, r DryRunRequest) (DryRunResult, error) {
	req, err := rewrite.Parse(r.Body)
	if err != nil && (req == nil || !req.Empty) {
		return DryRunResult{}, err
	}
	unread := err // chunks may be its messages
	if err := r.Policy.Models.Allow(req.Model); err != nil {
		return DryRunResult{}, err
	}
	of, err := r.Policy.ForChat(chatPath, req)
	if err != nil {
		return DryRunResult{}, err
	}
	of, from := of.Limited(d.Modes, time.Now()) // an override, too
	field, err := rewrite.ReadOptions(req)
	if err != nil {
		return DryRunResult{}, err
	}
	asked := rewrite.MergeOptions(r.Options, field)
	if err := of.WithoutClaims(); err != nil { // those of an override, too
		return DryRunResult{}, err
	}
	if err := rewrite.MistypedBase(asked, of.Rewrite.Knowledge); err != nil {
		return DryRunResult{}, err
	}
	if unread != nil && asked.Chunks == nil {
		return DryRunResult{}, unread
	}
	policy, unhelped := policyOf(of, r)
	policy, req, asked, err = d.Rewriter.TakeChunks(policy.Narrow(asked), req, asked)
	if err != nil {
		return DryRunResult{}, err
	}
	policy.CountWhole = true
	// The caller's credential is for another port, so only keys of Sidenote's go to helpers.
	d.Planners.Help(&policy, proxy.PlanDryRun(&policy, req.Model, &of.Budget))

	result := DryRun(ctx, d.Rewriter, of, policy, req, asked, of.OffReason(from))
	result.Policy, result.PolicyHash, result.Expose, result.SwitchedFrom = of.Name, of.Hash, of.Expose, from
	result.Rules, result.Body, result.Unhelped = policy, req.Body, unhelped
	return result, nil
}

// policyOf returns the policy of rewriting that a request has before its options narrow it, and whether
// that lacks helpers for the request's sake.
func policyOf(of *tenant.Policy, r DryRunRequest) (p rewrite.Policy, unhelped bool) {
	p = of.Rewrite
	if r.ContextTokens > 0 {
		p.ContextTokens = r.ContextTokens
	}
	if !r.Unhelped || p.Planner.MaxQueries == 0 && p.Rerank.Documents == 0 && p.Grade.By == retrieval.GradeByNobody {
		return p, false
	}
	p.Planner, p.Rerank, p.Grade = retrieval.PlanSettings{}, retrieval.RerankSettings{}, retrieval.GradeSettings{}
	return p, true
}
