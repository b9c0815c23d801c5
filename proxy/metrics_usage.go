package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"sidenote/proxy/report"
)

// usageMetrics compare our token counts with what upstreams bill. Their label "model"
// is a row of the model table.
type usageMetrics struct {
	ratio, offset    *prometheus.GaugeVec
	ignored, retried *prometheus.CounterVec
}

func newUsageMetrics(f factory) usageMetrics {
	return usageMetrics{
		ratio:   f.gauges("token_estimate_ratio", "Tokens that the upstream bills for each one counted, median of the answers that were compared.", "upstream", "model"),
		offset:  f.gauges("token_estimate_offset", "Tokens of a request that the upstream bills beyond those counted, median likewise.", "upstream", "model"),
		ignored: f.counters("usage_ignored_total", "Answers whose usage.prompt_tokens cannot be, or could not be read.", "upstream", "reason"),
		retried: f.counters("context_length_retries_total", "Requests sent again with fewer sources, as the upstream found them too long.", "upstream", "result"),
	}
}

// Calibrated sets how an upstream counts tokens for a row of the model table: ratio is
// tokens billed for each one counted, offset those billed beyond that.
func (m *Metrics) Calibrated(upstream, row string, ratio float64, offset int) {
	upstream = m.name(m.upstreams, upstream)
	m.usage.ratio.WithLabelValues(upstream, row).Set(ratio)
	m.usage.offset.WithLabelValues(upstream, row).Set(float64(offset))
}

// UsageIgnored counts an answer whose usage cannot be used. reason, a constant, says
// why.
func (m *Metrics) UsageIgnored(upstream, reason string) {
	m.usage.ignored.WithLabelValues(m.name(m.upstreams, upstream), reason).Inc()
}

// recordRetry counts a request that was sent twice.
func (m *Metrics) recordRetry(upstream string, r *report.Report) {
	if !r.Retried() {
		return
	}
	result := "failed"
	if r.UpstreamStatus() > 0 && r.UpstreamStatus() < 400 {
		result = "ok"
	}
	m.usage.retried.WithLabelValues(upstream, result).Inc()
}
