package rewrite

import (
	"context"
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // see tracing.SchemaURL
	"go.opentelemetry.io/otel/trace"

	"sidenote/retrieval"
	"sidenote/retrieval/tracing"
)

// endSpan ends the span of a search.
func endSpan(ctx context.Context, span trace.Span, j *job, found *retrieval.Result) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.GenAIOperationNameRetrieval, semconv.GenAIDataSourceID(strings.Join(j.policy.Knowledge, ",")),
		attribute.Int("sidenote.found", len(found.Sources)), attribute.String("sidenote.cache", string(found.Cache)))
	if found.Reason != retrieval.ReasonNone {
		span.SetAttributes(attribute.String("sidenote.reason", string(found.Reason)))
	}
	if found.Reason.Failed() {
		tracing.Fail(span, string(found.Reason))
	}
	tracing.SetText(ctx, span, semconv.GenAIRetrievalQueryTextKey, func() string { return j.query })
	tracing.SetText(ctx, span, semconv.GenAIRetrievalDocumentsKey, func() string { return documents(found.Sources) })
	span.End()
}

// documents returns sources in the form of the attribute gen_ai.retrieval.documents, with their
// texts.
func documents(sources []retrieval.Source) string {
	type document struct {
		ID      string  `json:"id"`
		Score   float64 `json:"score"`
		Content string  `json:"content"`
	}
	all := make([]document, len(sources))
	for i := range sources {
		s := &sources[i]
		all[i] = document{s.Knowledge + "/" + s.Doc, s.Score, s.Text}
	}
	b, err := json.Marshal(all)
	if err != nil { // a score that is no number
		return ""
	}
	return string(b)
}
