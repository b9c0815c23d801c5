package dryrun

import (
	"context"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/killswitch"
	"sidenote/proxy/planning"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// A Runner makes dry runs of chats as they would come to the data port. It is safe for
// concurrent use.
type Runner struct {
	Rewriter *rewrite.Rewriter
	Planners *planning.Planners // nil: nobody is asked
	Modes    *killswitch.Switch // may lower the mode of a tenant; nil: nothing does
}

// A Request is a chat that may be sent.
type Request struct {
	Policy  *proxy.Policy // of its tenant
	Body    []byte
	Options rewrite.Options // of its headers

	ContextTokens int  // take the place of the policy's; 0: those of the policy
	Unhelped      bool // no planner, reranker or grader is asked: they cost
}

// chatPath is the path whose overrides hold.
const chatPath = "/v1/chat/completions"

// Run says what would become of a request. An error is the one that its client would get, or
// says that only the caller's token tells what the tenant may see.
func (d *Runner) Run(ctx context.Context, r Request) (Result, error) {
	req, err := rewrite.Parse(r.Body)
	if err != nil && (req == nil || !req.Empty) {
		return Result{}, err
	}
	unread := err // chunks may be its messages
	if err := r.Policy.Models.Allow(req.Model); err != nil {
		return Result{}, err
	}
	of, err := r.Policy.ForChat(chatPath, req)
	if err != nil {
		return Result{}, err
	}
	of, from := of.Limited(d.Modes, time.Now()) // an override, too
	field, err := rewrite.ReadOptions(req)
	if err != nil {
		return Result{}, err
	}
	asked := rewrite.MergeOptions(r.Options, field)
	if err := of.WithoutClaims(); err != nil { // those of an override, too
		return Result{}, err
	}
	if err := rewrite.MistypedBase(asked, of.Rewrite.Knowledge); err != nil {
		return Result{}, err
	}
	if unread != nil && asked.Chunks == nil {
		return Result{}, unread
	}
	policy, unhelped := policyOf(of, r)
	policy, req, asked, err = d.Rewriter.TakeChunks(policy.Narrow(asked), req, asked)
	if err != nil {
		return Result{}, err
	}
	policy.CountWhole = true
	// The caller's credential is for another port, so only keys of Sidenote's go to helpers.
	d.Planners.Help(&policy, planning.DryRun(&policy, req.Model, &of.Budget))

	result := Of(ctx, d.Rewriter, of, policy, req, asked, of.OffReason(from))
	result.Policy, result.PolicyHash, result.Expose, result.SwitchedFrom = of.Name, of.Hash, of.Expose, from
	result.Rules, result.Body, result.Unhelped = policy, req.Body, unhelped
	return result, nil
}

// policyOf returns the policy of rewriting that a request has before its options narrow it, and whether
// that lacks helpers for the request's sake.
func policyOf(of *proxy.Policy, r Request) (p rewrite.Policy, unhelped bool) {
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
