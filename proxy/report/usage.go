package report

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/cache/budget"
	"sidenote/retrieval"
)

// usageMetrics compare our token counts with those that upstreams bill. Their label "model" is a
// row of the model table.
type usageMetrics struct {
	upstreams        *names
	ratio, offset    *prometheus.GaugeVec
	window           *prometheus.GaugeVec
	ignored, retried *prometheus.CounterVec
	edits            *prometheus.CounterVec
}

// tokenKinds are the kinds of reported tokens, in the order of tokenCounters. Cached tokens and
// cache writes are included in input, reasoning in output.
var tokenKinds = [...]string{"input", "cached_input", "cache_write", "cache_write_1h", "output", "reasoning"}

// tokenCounters count the tokens of tokenKinds.
type tokenCounters [len(tokenKinds)]prometheus.Counter

// recordUsage counts the reported usage of an answer.
func (m *Metrics) recordUsage(t *requestSeries, r *Report) {
	u := &r.Usage
	for i, n := range [len(tokenKinds)]int64{u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning} {
		if n > 0 {
			t.used[i].Add(float64(n))
		}
	}
}

// HelperUsed counts the tokens of planner, reranker or grader calls, prompts and answers together.
func HelperUsed(m *Metrics, tenant string, kind budget.Kind, tokens int64) {
	m.tokens.WithLabelValues(m.tenants.label(tenant), string(kind)).Add(float64(tokens))
}

func newUsageMetrics(f factory, upstreams *names) usageMetrics {
	return usageMetrics{
		upstreams: upstreams,
		ratio:     f.gauges("token_estimate_ratio", "Tokens that the upstream bills for each one counted, median of the answers that were compared.", "upstream", "model"),
		offset:    f.gauges("token_estimate_offset", "Tokens of a request that the upstream bills beyond those counted, median likewise.", "upstream", "model"),
		window:    f.gauges("model_served_window_tokens", "Window at which the upstream was seen to truncate prompts; 0: not any more.", "upstream", "model"),
		ignored:   f.counters("usage_ignored_total", "Answers whose usage cannot be, or could not be read.", "upstream", "reason"),
		retried:   f.counters("context_length_retries_total", "Requests sent again with fewer sources, as the upstream found them too long.", "upstream", "result"),
		edits:     f.counters("edit_retries_total", "Edits left out of requests that were sent again, as the upstream had refused them.", "upstream", "edit", "result"),
	}
}

// Calibrated sets how an upstream counts tokens for a row of the model table: ratio is the tokens
// billed per token counted, offset the tokens billed beyond that.
func (m *usageMetrics) Calibrated(upstream, row string, ratio float64, offset int) {
	upstream = m.upstreams.label(upstream)
	m.ratio.WithLabelValues(upstream, row).Set(ratio)
	m.offset.WithLabelValues(upstream, row).Set(float64(offset))
}

// ServedWindow sets the window at which an upstream was seen to truncate prompts for a row of the
// model table; 0 if it no longer does.
func (m *usageMetrics) ServedWindow(upstream, row string, tokens int) {
	m.window.WithLabelValues(m.upstreams.label(upstream), row).Set(float64(tokens))
}

// UsageIgnored counts an answer whose usage cannot be used. reason is from a closed list.
func (m *usageMetrics) UsageIgnored(upstream, reason string) {
	m.ignored.WithLabelValues(m.upstreams.label(upstream), reason).Inc()
}

// recordRetry counts retries and their results.
func (m *usageMetrics) recordRetry(upstream string, r *Report) {
	if !r.Retried() && r.Refused == 0 {
		return
	}
	result := "failed"
	if r.UpstreamStatus() > 0 && r.UpstreamStatus() < 400 {
		result = "ok"
	}
	for _, edit := range r.Refused.Names() {
		m.edits.WithLabelValues(upstream, edit, result).Inc()
	}
	if !r.Retried() {
		return
	}
	m.retried.WithLabelValues(upstream, result).Inc()
}

// recordGraded counts the outcome of grading.
func recordGraded(m *Metrics, r *Report) {
	if why := r.GradeFailed(); why != "" {
		m.degraded.WithLabelValues(string(retrieval.StageGrade), string(why)).Inc()
	}
	by := r.Rewrite.Ledger.Graded
	if by == nil {
		return
	}
	m.graded.WithLabelValues(string(by.Reason), cmp.Or(string(by.Verdict), "none")).Inc()
	if by.Documents > 0 && by.Reason != retrieval.RerankDisabled {
		m.stages.WithLabelValues(string(retrieval.StageGrade)).Observe(by.Took.Seconds())
	}
}
