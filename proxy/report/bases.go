package report

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/retrieval"
)

// baseMetrics are the metrics of knowledge bases.
type baseMetrics struct {
	names                                 *names
	documents, chunks, bytes, lastSuccess *prometheus.GaugeVec
	embedded                              *prometheus.GaugeVec
	searches, files, neutralised          *prometheus.CounterVec
}

func newBaseMetrics(f factory, n *names) baseMetrics {
	return baseMetrics{
		names:       n,
		documents:   f.gauges("knowledge_documents", "Documents in a knowledge base.", "knowledge"),
		chunks:      f.gauges("knowledge_chunks", "Chunks in a knowledge base.", "knowledge"),
		embedded:    f.gauges("knowledge_embedded_chunks", "Chunks of a knowledge base that have a vector.", "knowledge"),
		bytes:       f.gauges("knowledge_bytes", "Bytes of text in a knowledge base.", "knowledge"),
		lastSuccess: f.gauges("knowledge_last_success_timestamp_seconds", "Time of the last complete read of a knowledge base, Unix time.", "knowledge"),
		searches:    f.counters("knowledge_searches_total", "Searches of a knowledge base.", "knowledge", "result"),
		files:       f.counters("ingest_files_total", "Files seen by ingest.", "knowledge", "result"),
		neutralised: f.counters("tags_neutralised_total", "Look-alikes of Sidenote's tags, and tokens of chat templates, neutralised in documents.", "knowledge"),
	}
}

// Knowledge sets the figures of a base that was read completely at the given time.
func (m *baseMetrics) Knowledge(id string, documents, chunks int, bytes int64, at time.Time) {
	id = m.names.label(id)
	m.documents.WithLabelValues(id).Set(float64(documents))
	m.chunks.WithLabelValues(id).Set(float64(chunks))
	m.bytes.WithLabelValues(id).Set(float64(bytes))
	m.lastSuccess.WithLabelValues(id).Set(float64(at.UnixMilli()) / 1e3)
}

// Embedded sets how many chunks of a base have a vector.
func (m *baseMetrics) Embedded(id string, chunks int) {
	m.embedded.WithLabelValues(m.names.label(id)).Set(float64(chunks))
}

// Searched counts a search of a base: "ok" if it found sources, else the reason why not.
func (m *baseMetrics) Searched(id string, reason retrieval.Reason) {
	if reason == retrieval.ReasonNone {
		reason = "ok"
	}
	m.searches.WithLabelValues(m.names.label(id), string(reason)).Inc()
}

// Ingested counts files that were read into a base by result, a constant ("indexed",
// "unsupported", …), and the look-alikes of tags neutralised in them.
func (m *baseMetrics) Ingested(id, result string, files, neutralised int) {
	id = m.names.label(id)
	m.files.WithLabelValues(id, result).Add(float64(files))
	m.neutralised.WithLabelValues(id).Add(float64(neutralised))
}
