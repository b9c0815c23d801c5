package admin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A rewriteAnswer is the answer of a dry run without its last field, "request": the bytes that
// would be sent to the upstream, or null if none would.
type rewriteAnswer struct {
	Outcome rewrite.Outcome `json:"outcome"`
	Reason  rewrite.Reason  `json:"reason,omitempty"`
	Mode    string          `json:"mode"`   // of the policy; in mode shadow the request shows what injecting would do
	Status  string          `json:"status"` // value of the header Sidenote-Status
	Sources string          `json:"sources,omitempty"`
	Answer  string          `json:"answer,omitempty"` // sent instead of a request, under on_empty: refuse
	Timings timings         `json:"timings_ms"`
	Ledger  rewrite.Ledger  `json:"ledger"`

	Tools        []string `json:"tools,omitempty"`     // names of the tools that the model would be offered, as it would see them
	ToolsSkipped string   `json:"unoffered,omitempty"` // why no tools would be offered though the policy has them

	Stages        []stagePrompt `json:"stages,omitempty"`   // prompts of all stages; the request is the one used if they fail
	StagesSkipped string        `json:"unstaged,omitempty"` // why there are no stages though the policy has them
}

// A stagePrompt is the prompt of a stage, with placeholders for the output of models.
type stagePrompt struct {
	Name        string   `json:"stage"`
	Model       string   `json:"model,omitempty"`    // if the stage has its own
	Upstream    string   `json:"upstream,omitempty"` // if the stage has its own
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"` // limit of its output; the request may ask for less
	StopIf      string   `json:"stop_if,omitempty"`
	EmptyIf     string   `json:"empty_if,omitempty"`
	System      string   `json:"system,omitempty"` // sent after the application's own messages
	User        string   `json:"user"`
}

type timings struct {
	Plan     float64 `json:"plan,omitempty"`
	Retrieve float64 `json:"retrieve"`
	Rerank   float64 `json:"rerank,omitempty"` // part of Retrieve
	Grade    float64 `json:"grade,omitempty"`  // part of Retrieve
	Fit      float64 `json:"fit"`
	Edit     float64 `json:"edit"`
}

// rewrite shows what would happen to the chat request in the body, with its options, for the
// tenant of ?tenant= (default: callers without a key).
func (h *Handler) rewrite(ctx *fasthttp.RequestCtx) error {
	owner, err := h.tenant(ctx)
	if err != nil {
		return err
	}
	asked, err := tenant.ReadHeaderOptions(&ctx.Request.Header, false)
	if err != nil {
		return err
	}
	b, err := body(ctx)
	if err != nil {
		return err
	}
	runner := explain.DryRunner{Rewriter: h.Rewriter, Planners: h.Planners, Modes: h.Modes}
	r, err := runner.Run(context.Background(), explain.DryRunRequest{Policy: owner, Body: b, Options: asked})
	if err != nil {
		return err
	}
	return writeDryRun(ctx, &r)
}

// writeDryRun writes the answer of a dry run. The request in it is copied byte for byte, since an
// encoder would change its white space.
func writeDryRun(ctx *fasthttp.RequestCtx, r *explain.DryRunResult) error {
	res := &r.Rewrite
	a := rewriteAnswer{
		Outcome: r.Outcome, Reason: r.Reason, Mode: r.Rules.Mode.String(), Tools: r.Tools, ToolsSkipped: r.ToolsSkipped, Stages: stagePrompts(r.Stages), StagesSkipped: r.StagesSkipped,
		Status:  string(report.AppendStatus(nil, &r.Report)),
		Sources: string(report.AppendSources(nil, res.Ledger.Sources, r.Expose)),
		Ledger:  res.Ledger.WithExcluded(),
		Timings: timings{planTook(res), report.Milliseconds(res.RetrieveTook), rerankTook(res), gradeTook(res), report.Milliseconds(res.FitTook), report.Milliseconds(res.EditTook)},
	}
	request := []byte("null")
	switch res.Outcome {
	case rewrite.Answered:
		a.Answer = r.Rules.EmptyAnswer
	case rewrite.Refused:
	default:
		request = rewrite.ApplyEdits(nil, r.Body, res.Edits)
	}
	out, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode ledger: %w", err)
	}
	out = append(out[:len(out)-1], `,"request":`...)
	out = append(append(out, request...), '}')
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(out)
	return nil
}

func stagePrompts(of []explain.DryRunPrompt) (list []stagePrompt) {
	for _, p := range of {
		list = append(list, stagePrompt{p.Name, p.Model, p.Upstream, p.Temperature, p.MaxTokens, p.StopIf, p.EmptyIf, p.System, p.User})
	}
	return list
}

func planTook(res *rewrite.Result) float64 {
	if res.Ledger.Planned == nil {
		return 0
	}
	return report.Milliseconds(res.Ledger.Planned.Took)
}

func rerankTook(res *rewrite.Result) float64 {
	if res.Ledger.Reranked == nil {
		return 0
	}
	return report.Milliseconds(res.Ledger.Reranked.Took)
}

func gradeTook(res *rewrite.Result) float64 {
	if res.Ledger.Graded == nil {
		return 0
	}
	return report.Milliseconds(res.Ledger.Graded.Took)
}

// tenant returns the policy of the tenant named by ?tenant=.
func (h *Handler) tenant(ctx *fasthttp.RequestCtx) (*tenant.Policy, error) {
	return explain.PolicyOf(h.Tenants, string(ctx.QueryArgs().Peek("tenant")))
}
