package services

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // see tracing.SchemaURL
	"go.opentelemetry.io/otel/trace"

	"sidenote/retrieval/tracing"
)

// rerankOperation is the operation of a Reranker, for which the conventions have no name.
const rerankOperation = "rerank"

// clientKind is allocated once. It is never changed.
var clientKind = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}

// startSpan starts the span of a call. model may be "".
func (c *Remote) startSpan(ctx context.Context, operation, model string) (context.Context, trace.Span) {
	ctx, span := tracing.Start(ctx, operation, model, clientKind...)
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(semconv.GenAIOperationNameKey.String(operation))
	if model != "" {
		span.SetAttributes(semconv.GenAIRequestModel(tracing.Clean(model)))
	}
	if at, err := url.Parse(c.base); err == nil {
		span.SetAttributes(semconv.ServerAddress(at.Hostname()))
		if port, err := strconv.Atoi(at.Port()); err == nil {
			span.SetAttributes(semconv.ServerPort(port))
		}
	}
	return ctx, span
}

// endSpan ends the span of a call. tokens is the size of its input, 0 if unknown.
func endSpan(span trace.Span, tokens int, err error) {
	if !span.IsRecording() {
		return
	}
	if tokens > 0 {
		span.SetAttributes(semconv.GenAIUsageInputTokens(tokens))
	}
	status, answered := errors.AsType[*StatusError](err)
	switch {
	case answered:
		span.SetAttributes(semconv.HTTPResponseStatusCode(status.Status))
		tracing.Fail(span, strconv.Itoa(status.Status))
	case err != nil:
		tracing.Fail(span, string(resultOf(err)))
	default:
		span.SetAttributes(semconv.HTTPResponseStatusCode(http.StatusOK))
	}
	span.End()
}
