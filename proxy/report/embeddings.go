package report

import "github.com/prometheus/client_golang/prometheus"

// embeddingMetrics are the metrics of embedding requests.
type embeddingMetrics struct{ asked, sent *prometheus.CounterVec }

func newEmbeddingMetrics(f factory) embeddingMetrics {
	return embeddingMetrics{
		asked: f.counters("embeddings_requests_total", "Requests for vectors, by result.", "result"),
		sent:  f.counters("embeddings_tokens_total", "Tokens embedded: questions (query) and chunks (passage).", "use"),
	}
}

// Embedding counts an embedding request and its tokens. use and result are constants.
func (m *embeddingMetrics) Embedding(use, result string, tokens int) {
	m.asked.WithLabelValues(result).Inc()
	m.sent.WithLabelValues(use).Add(float64(tokens))
}
