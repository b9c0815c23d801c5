package report

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/rewrite"
)

// upstreamMetrics are the metrics of calls to upstreams. Their label "model" is a row of the model
// table, or "none" for routes whose bodies are not read.
type upstreamMetrics struct {
	requests, cancelled, truncated *prometheus.CounterVec
	errors                         *prometheus.CounterVec
	firstByte, firstToken, whole   *prometheus.HistogramVec
}

func newUpstreamMetrics(f factory) upstreamMetrics {
	return upstreamMetrics{
		requests:   f.counters("upstream_requests_total", "Requests sent to an upstream, by the status of its answer (none: no answer).", "upstream", "code"),
		cancelled:  f.counters("upstream_cancelled_total", "Upstream requests cancelled because the client left.", "upstream", "phase"),
		truncated:  f.counters("upstream_truncated_total", "Upstream answers cut off.", "upstream", "phase"),
		errors:     f.counters("upstream_errors_total", "Calls of an upstream that failed, by class.", "upstream", "class"),
		firstByte:  f.histograms("upstream_first_byte_seconds", "From a call of an upstream to the head of its answer.", durationBuckets(), "upstream", "model"),
		firstToken: f.histograms("upstream_first_token_seconds", "From a call of an upstream to the first token of its stream.", durationBuckets(), "upstream", "model"),
		whole:      f.histograms("upstream_duration_seconds", "From a call of an upstream to the end of its answer to the client.", durationBuckets(), "upstream", "model"),
	}
}

// durationBuckets range from 5 ms to ten minutes, after which SDKs give up.
func durationBuckets() []float64 {
	return []float64{5e-3, 25e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}

// callSeries holds the series that count the calls of one model of an upstream.
type callSeries struct{ firstByte, firstToken, whole prometheus.Observer }

func (m *upstreamMetrics) callsOf(upstream, model string) callSeries {
	model = cmp.Or(model, "none")
	return callSeries{
		m.firstByte.WithLabelValues(upstream, model), m.firstToken.WithLabelValues(upstream, model), m.whole.WithLabelValues(upstream, model),
	}
}

// recordCalls counts the calls of r by their times and errors. s is for the upstream and model of
// the request itself.
func (m *Metrics) recordCalls(s *requestSeries, r *Report) {
	for i := range r.Calls {
		c := &r.Calls[i]
		of, upstream := s.calls, s.upstream
		if c.Upstream != r.Upstream || c.Model != "" {
			upstream = m.upstreams.label(c.Upstream)
			of = m.upstreamMetrics.callsOf(upstream, cmp.Or(c.Model, r.Model()))
		}
		if c.Error != "" {
			m.upstreamMetrics.errors.WithLabelValues(upstream, c.Error).Inc()
		}
		if c.Status == 0 {
			continue
		}
		r.observe(of.firstByte, c.Took.Seconds())
		if c.FirstToken > 0 {
			r.observe(of.firstToken, c.FirstToken.Seconds())
		}
		if i == len(r.Calls)-1 && !c.Began.IsZero() {
			r.observe(of.whole, r.Time.Add(r.Total).Sub(c.Began).Seconds())
		}
	}
}

// statusClass returns the class of an answer's status, as in "5xx".
func statusClass(status int) string {
	if status < 100 || status > 599 {
		return OtherName
	}
	return strconv.Itoa(status/100) + "xx"
}

// Result returns the outcome as metrics and log show it: Failed if the upstream answered with a
// status of 500 or above, whatever was added to the request.
func (r *Report) Result() rewrite.Outcome {
	if r.Outcome != rewrite.Refused && r.UpstreamStatus() >= http.StatusInternalServerError {
		return Failed
	}
	return r.Outcome
}
