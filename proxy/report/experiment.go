package report

import "github.com/prometheus/client_golang/prometheus"

// An Experiment says how a request takes part in a comparison of two policies.
type Experiment struct {
	Name     string
	Arm      string // "a" or "b"
	Unit     uint64 // hash of the conversation, tenant or user that was assigned to the arm as a whole
	Counted  bool   // its outcomes count
	FollowUp bool   // there is an earlier question
	Repeats  bool   // the question repeats the one before
}

// experimentMetrics count the requests of experiments, and feedback.
type experimentMetrics struct {
	experiments *names
	assigned    *prometheus.CounterVec
	feedback    *prometheus.CounterVec
}

func newExperimentMetrics(f factory, names *names) experimentMetrics {
	m := experimentMetrics{
		experiments: names,
		assigned:    f.counters("experiment_requests_total", "Chats in experiments, by the arm that they were assigned to.", "experiment", "arm"),
		feedback:    f.counters("feedback_total", "Scores of answers from applications: kept, or of an unknown request.", "result"),
	}
	m.feedback.WithLabelValues("kept")
	m.feedback.WithLabelValues("unknown")
	return m
}

func (m *experimentMetrics) recordExperiment(e *Experiment) {
	if e.Name != "" {
		m.assigned.WithLabelValues(m.experiments.label(e.Name), e.Arm).Inc()
	}
}

// Rated counts a score that an application gave an answer.
func (m *experimentMetrics) Rated(kept bool) {
	if kept {
		m.feedback.WithLabelValues("kept").Inc()
		return
	}
	m.feedback.WithLabelValues("unknown").Inc()
}
