package report

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// mcpMetrics are the metrics of tool calls over MCP.
type mcpMetrics struct {
	callers                 *names
	toolCalls, toolRefusals *prometheus.CounterVec
	toolTime                *prometheus.HistogramVec
}

func newMCPMetrics(f factory, tenants *names) mcpMetrics {
	return mcpMetrics{
		callers:      tenants,
		toolCalls:    f.counters("mcp_calls_total", "Tool calls by MCP, by result.", "tenant", "tool", "result"),
		toolTime:     f.histograms("mcp_call_duration_seconds", "Duration of a tool call by MCP.", overheadBuckets(), "tool"),
		toolRefusals: f.counters("mcp_refused_total", "MCP requests refused before a tool call.", "reason"),
	}
}

// ToolCalled counts a tool call over MCP. tool and result are constants.
func (m *mcpMetrics) ToolCalled(tenant, tool, result string, took time.Duration) {
	m.toolCalls.WithLabelValues(m.callers.label(tenant), tool, result).Inc()
	m.toolTime.WithLabelValues(tool).Observe(took.Seconds())
}

// ToolRefused counts a refused MCP request. reason is a constant.
func (m *mcpMetrics) ToolRefused(reason string) {
	m.toolRefusals.WithLabelValues(strings.ReplaceAll(reason, "-", "_")).Inc()
}
