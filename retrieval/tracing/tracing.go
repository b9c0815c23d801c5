// Package tracing starts spans of OpenTelemetry below the span in a context, and passes trace
// contexts on in headers. It uses OpenTelemetry's API alone: who puts the first span into the
// context chooses where spans go. Without a recorded span in the context it does nothing.
package tracing

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version with the conventions for generative AI
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Scope is the name of the instrumentation scope of all spans.
const Scope = "sidenote"

// SchemaURL is the version of the semantic conventions that names and attributes of spans follow.
const SchemaURL = semconv.SchemaURL

// The headers of W3C Trace Context.
const (
	HeaderParent = "Traceparent"
	HeaderState  = "Tracestate"
)

// parentLength is the length of a traceparent of version 00: version, trace id, parent id and flags
// in hexadecimal, joined by dashes.
const parentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseParent parses a traceparent as W3C Trace Context, section 3.2, says. ok is false if there
// is none, or if it is invalid.
func ParseParent(header []byte) (parent trace.SpanContextConfig, ok bool) {
	if len(header) < parentLength || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return trace.SpanContextConfig{}, false
	}
	var version, flags [1]byte
	ok = decodeHex(version[:], header[:2]) && decodeHex(parent.TraceID[:], header[3:35]) &&
		decodeHex(parent.SpanID[:], header[36:52]) && decodeHex(flags[:], header[53:55])
	longer := len(header) > parentLength
	switch {
	case !ok, !parent.TraceID.IsValid(), !parent.SpanID.IsValid(), version[0] == 0xff,
		longer && (version[0] == 0 || header[parentLength] != '-'):
		return trace.SpanContextConfig{}, false
	}
	parent.TraceFlags, parent.Remote = trace.TraceFlags(flags[0])&trace.FlagsSampled, true
	return parent, true
}

// decodeHex decodes lower-case hexadecimal digits.
func decodeHex(dst, src []byte) bool {
	for _, c := range src {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, src)
	return err == nil
}

// FormatParent returns the traceparent for calls made within the span of c.
func FormatParent(c trace.SpanContext) string {
	id, span := c.TraceID(), c.SpanID()
	var text [parentLength]byte
	b := append(text[:0], "00-"...)
	b = append(hex.AppendEncode(b, id[:]), '-')
	b = append(hex.AppendEncode(b, span[:]), "-00"...)
	if c.IsSampled() {
		b[len(b)-1] = '1'
	}
	return string(b)
}

// Inject sets the headers of a call made within the span in ctx, if there is one.
func Inject(ctx context.Context, header http.Header) {
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return
	}
	header.Set(HeaderParent, FormatParent(c))
	if state := c.TraceState(); state.Len() > 0 {
		header.Set(HeaderState, state.String())
	}
}

// Start starts a span within the one in ctx, and returns a context that holds it. Its name is
// operation and subject, which may be "". If the span in ctx is not recorded, Start allocates nothing
// and returns ctx and a span that does nothing.
func Start(ctx context.Context, operation, subject string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{}
	}
	name := operation
	if subject != "" {
		name += " " + Clean(subject)
	}
	return parent.TracerProvider().Tracer(Scope, trace.WithSchemaURL(SchemaURL)).Start(ctx, name, options...)
}

// Fail marks a span as failed. kind, its error.type, is from a closed list.
func Fail(span trace.Span, kind string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, "")
}

type textsKey struct{}

// WithTexts returns a context whose spans may hold texts: questions, prompts and sources.
func WithTexts(ctx context.Context) context.Context {
	return context.WithValue(ctx, textsKey{}, true)
}

// MaxText is the maximum length of an attribute that holds a text, in bytes.
const MaxText = 32 << 10

// SetText sets an attribute of a span that holds a text, if ctx is of WithTexts. The text is cut to
// MaxText bytes.
func SetText(ctx context.Context, span trace.Span, key attribute.Key, text func() string) {
	if !span.IsRecording() || ctx.Value(textsKey{}) == nil {
		return
	}
	t := text()
	span.SetAttributes(key.String(Clean(t[:min(len(t), MaxText)])))
}

// Clean returns a text of strangers with U+FFFD for what is not UTF-8, which OTLP does not carry.
func Clean(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
