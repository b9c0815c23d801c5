package report

import (
	"github.com/prometheus/client_golang/prometheus"
)

// answerStageMetrics count the stages of answers. They have no series before the first chat that
// is to be answered in stages.
type answerStageMetrics struct {
	names                     *names
	ended, unstaged, tokensBy *prometheus.CounterVec
	took                      *prometheus.HistogramVec
}

// newAnswerStageMetrics limits the label stage to the names in stages.
func newAnswerStageMetrics(f factory, stages *names) answerStageMetrics {
	return answerStageMetrics{
		names:    stages,
		ended:    f.counters("answer_stages_total", "Stages of answers, by outcome.", "stage", "outcome"),
		took:     f.histograms("answer_stage_duration_seconds", "Duration of one stage of an answer.", []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}, "stage"),
		tokensBy: f.counters("answer_stage_tokens_total", "Tokens reported for stages.", "stage", "direction"),
		unstaged: f.counters("unstaged_total", "Chats not answered in stages despite their policy.", "reason"),
	}
}

// recordStages counts the stages of a chat by outcome.
func (m *answerStageMetrics) recordStages(r *Report) {
	if r.StagesSkipped != "" {
		m.unstaged.WithLabelValues(r.StagesSkipped).Inc()
	}
	if r.Stages == nil {
		return
	}
	for i := range r.Stages.Called {
		s := &r.Stages.Called[i]
		stage := m.names.label(s.Name)
		m.ended.WithLabelValues(stage, string(s.Outcome)).Inc()
		if s.Calls == 0 { // its output came from the cache, or nothing was sent
			continue
		}
		m.took.WithLabelValues(stage).Observe(s.Took.Seconds())
		m.tokensBy.WithLabelValues(stage, "input").Add(float64(max(s.Usage.Input, 0)))
		m.tokensBy.WithLabelValues(stage, "output").Add(float64(max(s.Usage.Output, 0)))
	}
}
