package server

import (
	"context"
	"log/slog"
	"net/url"

	"sidenote/proxy"
	"sidenote/proxy/mcp"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite/model"
)

// MCPServer returns the server for MCP clients. Call it once, after DataServer and AdminServer; it
// has the same callers as the admin port.
func MCPServer(e *Engine, log *slog.Logger) *mcp.Server {
	requests := report.LogVerbosity(e.Config.Telemetry.Log.Requests)
	knowledge := MCP(e)
	knowledge.Models = runningModels{e}
	knowledge.Planners = func() *proxy.Planners { return e.admin.Load().Planners }
	knowledge.OnCall = func(c mcp.Call) {
		e.Metrics.ToolCalled(c.Caller.Policy.Tenant, c.Tool, string(c.Result), c.Took)
		if requests == report.LogAll || requests == report.LogErrors && c.Result != mcp.Done {
			LogCall(log, c)
		}
	}
	s := mcp.NewServer(mcp.Options{
		Addresses: e.addresses, Shed: e.Metrics.Shed,
		Knowledge: knowledge, Switch: e.modes, Callers: func() *tenant.Directory { return e.admin.Load().Tenants },
		Refused: func(r mcp.Refusal) {
			e.Metrics.ToolRefused(string(r.Error.Reason))
			if requests != report.LogNone {
				log.Info("mcp request refused", "tenant", r.Tenant, "status", r.Error.Status(), "reason", string(r.Error.Reason), "denied", r.Denied)
			}
		},
	})
	e.Metrics.Watch("mcp_sessions", "Open MCP sessions.", nil, false, func() float64 { return float64(s.Sessions()) })
	return s
}

// MCP returns the tools and knowledge for MCP clients.
func MCP(e *Engine) mcp.Knowledge {
	version, _ := Version()
	return mcp.Knowledge{
		Tools: e.Toolbox(), Models: e.Rewriter.Models, Planners: func() *proxy.Planners { return e.Planners },
		Link: e.catalogue.link, Version: version, Panicked: e.Panicked,
	}
}

// LogCall logs a tool call: names and numbers, never arguments or results.
func LogCall(log *slog.Logger, c mcp.Call) {
	level, attrs := slog.LevelInfo, []any{"tenant", c.Caller.Policy.Tenant, "tool", c.Tool, "result", string(c.Result), "duration_ms", float64(c.Took.Microseconds()) / 1000}
	if c.Caller.By != "" {
		attrs = append(attrs, "by", string(c.Caller.By), "key", c.Caller.Key, "policy", c.Caller.Name)
	}
	if c.Err != nil {
		level, attrs = slog.LevelWarn, append(attrs, "error", c.Err.Error())
	}
	log.Log(context.Background(), level, "mcp call", attrs...)
}

// runningModels resolves models with the running configuration.
type runningModels struct{ *Engine }

// Model implements rewrite.Models.
func (m runningModels) Model(name string) model.Model {
	return m.admin.Load().Rewriter.Models.Model(name)
}

// link returns the web address of a document, from its attribute url, or "".
func (c *catalogue) link(knowledge, doc string) string {
	text := c.urlOf(knowledge, doc)
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return text
}
