package report

import "github.com/prometheus/client_golang/prometheus"

// observe adds an observation of a request, with its trace as exemplar if it is recorded.
func (r *Report) observe(o prometheus.Observer, value float64) {
	if r.Sampled && r.TraceID.IsValid() {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(value, prometheus.Labels{"trace_id": r.TraceID.String()})
			return
		}
	}
	o.Observe(value)
}
