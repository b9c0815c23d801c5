package proxy

import (
	"net/http"
	"strings"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// useHelpers sets the planner, the reranker and the grader of p for this request, if p uses them.
func (x *exchange) useHelpers(p *rewrite.Policy, req *rewrite.Request) {
	if p.Planner.MaxQueries+p.Rerank.Documents == 0 && p.Grade.By == "" || p.Mode == rewrite.Off {
		return
	}
	of := PlanRequest{
		Tenant: x.policy.Tenant, ID: x.report.ID, Upstream: x.policy.Upstream, Model: req.Model, Settings: p.Planner, Rerank: p.Rerank, Grade: p.Grade, Terms: &x.policy.Budget,
		Path: transport.TargetOn(x.upstream.of.BaseURL, x.ctx.Request.Header.RequestURI(), p.Planner.Model), Credentials: credentials(&x.request),
	}
	if p.Mode != rewrite.Shadow { // a shadow request has reserved its budget already
		of.Bare = x.bare(p, req)
	}
	x.planner = x.setup.planners.Help(p, of)
}

// bare returns the estimated cost of the request without sources; zero if it is not metered.
func (x *exchange) bare(p *rewrite.Policy, req *rewrite.Request) budget.Amount {
	if x.metered == nil {
		return budget.Amount{}
	}
	of := Demand{Prompt: int64(x.setup.rewriter.Count(*p, req)), Refers: req.Attachments > 0}
	x.fitAnswer(of.Prompt)
	return estimateCall(&x.policy.Budget, SpendRequest{Route: x.target.Route, Body: x.metered, Row: x.row}, of)
}

// credentials returns a copy of the caller's credentials for the upstream of its request. It
// returns nil if Sidenote has its own key for that upstream, or if they must not be forwarded.
func credentials(q *request) http.Header {
	if q.upstream.replace != nil || q.caller.By == report.ByJWT || q.caller.StripCredential {
		return nil
	}
	var h http.Header
	for name, value := range q.ctx.Request.Header.All() {
		canonical := http.CanonicalHeaderKey(string(name))
		switch canonical {
		case "Authorization", "Api-Key", "X-Api-Key", "Openai-Organization", "Openai-Project":
			if text := string(value); !strings.Contains(text, tenant.KeyPrefix) {
				if h == nil {
					h = http.Header{}
				}
				h.Add(canonical, text)
			}
		}
	}
	return h
}

// OwnKey returns the header lines with Sidenote's own key for an upstream; nil if it has none.
func OwnKey(u Upstream) (h http.Header) {
	for _, line := range keyHeaders(u) {
		if line.Value != "" {
			h = http.Header{line.Name: {line.Value}}
		}
	}
	return h
}
