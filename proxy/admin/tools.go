package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
)

// ToolsPath begins the paths of tools.
const ToolsPath = "/v1/tools"

// tooling serves tool calls for the tenant of ?tenant=, or over all bases if no tenant is named.
type tooling struct{ request }

// endpoint returns the endpoint for "/v1/tools", which lists the tools, or for one of the tools
// below it.
func (t tooling) endpoint(path string) (endpoint, bool) {
	name, ok := strings.CutPrefix(path, ToolsPath)
	switch {
	case !ok || name != "" && name[0] != '/':
		return endpoint{}, false
	case name == "":
		return endpoint{method: "GET", path: ToolsPath, handle: t.list}, true
	}
	return endpoint{method: "POST", path: ToolsPath + "/{name}", handle: func(ctx *fasthttp.RequestCtx) error { return t.call(ctx, tools.ToolName(name[1:])) }}, true
}

// list returns the tools as they are described to models.
func (t tooling) list(ctx *fasthttp.RequestCtx) error {
	who, err := t.caller(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, ref := range who.Query.Bases {
		ids = append(ids, ref.Knowledge)
	}
	return writeJSON(ctx, fasthttp.StatusOK, map[string]any{"object": "list", "data": tools.Define(tools.ToolNames(), t.Tools.Described(ids))})
}

// call runs a tool with the body as its arguments.
func (t tooling) call(ctx *fasthttp.RequestCtx, name tools.ToolName) error {
	if name.Check() != nil {
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("There is no tool %q; GET %s lists them.", name, ToolsPath))
		return nil
	}
	who, err := t.caller(ctx)
	if err != nil {
		return err
	}
	arguments, err := body(ctx)
	if err != nil {
		return err
	}
	res := t.Tools.Call(context.Background(), who, name, arguments)
	wrong, isWrong := errors.AsType[*tools.ArgumentError](res.Err)
	switch {
	case isWrong:
		return optionError(wrong.Argument, "%s.", wrong.Error())
	case res.Err != nil:
		return &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: "The search failed.", Err: res.Err}
	}
	return writeJSON(ctx, fasthttp.StatusOK, res.Data)
}

// caller returns the caller of a tool, with tokens counted for ?model=.
func (t tooling) caller(ctx *fasthttp.RequestCtx) (tools.Caller, error) {
	who, err := t.viewer(ctx)
	if err != nil {
		return tools.Caller{}, err
	}
	policy, model := rewrite.DefaultPolicy(), string(ctx.QueryArgs().Peek("model"))
	if ctx.QueryArgs().Has("tenant") {
		tenant, err := t.tenant(ctx)
		if err != nil {
			return tools.Caller{}, err
		}
		policy = tenant.Rewrite
		t.Planners.SetHelpers(&policy, proxy.PlanDryRun(&policy, model, &tenant.Budget))
	}
	policy.Tenant, policy.Knowledge, policy.Filter, policy.Search = who.Tenant, who.Bases, who.Filter, who.Settings
	return tools.NewCaller(&policy, t.Rewriter.Models.Model(model)), nil
}
