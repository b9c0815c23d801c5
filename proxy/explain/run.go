package explain

import (
	"context"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A DryRunner makes dry runs of chats as if they came to the data port. It is safe for concurrent
// use.
type DryRunner struct {
	Rewriter *rewrite.Rewriter
	Planners *proxy.Planners // nil: no helpers are called
	Modes    *tenant.Switch  // may lower the mode of a tenant; may be nil
}

// A DryRunRequest is a chat for a dry run.
type DryRunRequest struct {
	Policy  *tenant.Policy // of the tenant
	Body    []byte
	API     *chat.API       // of the body; nil: guessed from its members
	Options rewrite.Options // from its headers

	ContextTokens int  // overrides the policy's limit; 0 keeps it
	SkipHelpers   bool // skip planner, reranker and grader, which cost money
}

// paths are the paths used to select overrides, by API.
var paths = [...]string{chat.Completions: "/v1/chat/completions", chat.Responses: "/v1/responses", chat.Messages: "/v1/messages"}

// Run says what would happen to a request. An error is the one that the client would get, or says
// that the tenant's filter depends on the caller's token.
func (d *DryRunner) Run(ctx context.Context, r DryRunRequest) (DryRunResult, error) {
	api := chat.APIOf(r.Body)
	if r.API != nil {
		api = *r.API
	}
	req, err := api.Parse(r.Body)
	if err != nil && (req == nil || !req.Empty) {
		return DryRunResult{}, err
	}
	unread := err // chunks may replace its messages
	if err := r.Policy.Models.Allow(req.Model); err != nil {
		return DryRunResult{}, err
	}
	of, err := r.Policy.ForChat(paths[req.API], req)
	if err != nil {
		return DryRunResult{}, err
	}
	of, from := of.Limited(d.Modes, time.Now()) // also of an override
	field, err := rewrite.ReadOptions(req)
	if err != nil {
		return DryRunResult{}, err
	}
	asked := rewrite.MergeOptions(r.Options, field)
	if err := of.WithoutClaims(); err != nil { // also of an override
		return DryRunResult{}, err
	}
	if err := rewrite.MistypedBase(asked, of.Rewrite.Knowledge); err != nil {
		return DryRunResult{}, err
	}
	if unread != nil && asked.Chunks == nil {
		return DryRunResult{}, unread
	}
	policy, unhelped := policyOf(of, r)
	policy, req, asked, err = d.Rewriter.InsertChunks(policy.Narrow(asked), req, asked)
	if err != nil {
		return DryRunResult{}, err
	}
	policy.CountWhole = true
	// The caller's credential is for another port, so helpers only get keys of Sidenote's own.
	d.Planners.SetHelpers(&policy, proxy.PlanDryRun(&policy, req.Model, &of.Budget))

	result := DryRun(ctx, d.Rewriter, of, policy, req, asked, of.OffReason(from))
	result.Policy, result.PolicyHash, result.Expose, result.SwitchedFrom = of.Name, of.Hash, of.Expose, from
	result.Rules, result.Body, result.HelpersSkipped = policy, req.Body, unhelped
	return result, nil
}

// policyOf returns the rewriting policy of a request before its options narrow it, and whether
// helpers were removed from it at the request's wish.
func policyOf(of *tenant.Policy, r DryRunRequest) (p rewrite.Policy, unhelped bool) {
	p = of.Rewrite
	if r.ContextTokens > 0 {
		p.ContextTokens = r.ContextTokens
	}
	if !r.SkipHelpers || p.Planner.MaxQueries == 0 && p.Rerank.Documents == 0 && p.Grade.By == retrieval.GradeByNobody {
		return p, false
	}
	p.Planner, p.Rerank, p.Grade = retrieval.PlanSettings{}, retrieval.RerankSettings{}, retrieval.GradeSettings{}
	return p, true
}
