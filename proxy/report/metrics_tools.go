package report

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// toolMetrics count tool calls by models. They have no series before the first chat that is
// offered tools.
type toolMetrics struct {
	calls, unoffered *prometheus.CounterVec
	took             *prometheus.HistogramVec
	rounds, results  *prometheus.HistogramVec // without labels
}

func newToolMetrics(f factory) toolMetrics {
	return toolMetrics{
		calls:     f.counters("tool_calls_total", "Tool calls by models, by outcome.", "tool", "outcome"),
		unoffered: f.counters("tools_unoffered_total", "Chats whose model was offered no tools though their policy has them.", "reason"),
		took:      f.histograms("tool_call_duration_seconds", "Time of one call of a tool.", overheadBuckets(), "tool"),
		rounds:    f.histograms("tool_rounds", "Calls of the upstream for one chat whose model was offered tools.", []float64{1, 2, 3, 4, 5, 6, 8, 10, 15, 20}),
		results:   f.histograms("tool_result_tokens", "Tokens per tool result.", []float64{0, 100, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000}),
	}
}

// recordTools counts the tool calls of a chat.
func (m *toolMetrics) recordTools(r *Report) {
	if r.ToolsSkipped != "" {
		m.unoffered.WithLabelValues(r.ToolsSkipped).Inc()
	}
	t := r.Tools
	if t == nil || t.Rounds == 0 { // the upstream has not answered
		return
	}
	m.rounds.WithLabelValues().Observe(float64(t.Rounds))
	for i := range t.Calls {
		c := &t.Calls[i]
		tool := cmp.Or(c.Name, OtherName)
		m.calls.WithLabelValues(tool, string(c.Outcome)).Inc()
		m.results.WithLabelValues().Observe(float64(c.Tokens))
		if c.Took > 0 { // the call was made
			m.took.WithLabelValues(tool).Observe(c.Took.Seconds())
		}
	}
}
