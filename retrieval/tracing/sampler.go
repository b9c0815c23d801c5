package tracing

import (
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// A Sampler decides whether the spans of a request are recorded, before anything is made of them.
type Sampler struct {
	// Ratio is the share of traces that are sampled, from 0 to 1. As with the samplers of
	// OpenTelemetry's SDKs, the last 63 bits of the trace id decide, so that services agree.
	Ratio float64
	// ParentBased lets the caller decide for requests that have a parent.
	ParentBased bool
}

// Begin returns the context of a request's span: in the trace of parent if hasParent, else in a new
// one, with TraceFlags that say whether it is sampled.
func (s Sampler) Begin(parent trace.SpanContextConfig, hasParent bool) trace.SpanContextConfig {
	own := trace.SpanContextConfig{TraceID: parent.TraceID, TraceState: parent.TraceState}
	if !hasParent {
		binary.BigEndian.PutUint64(own.TraceID[:8], rand.Uint64())
		binary.BigEndian.PutUint64(own.TraceID[8:], rand.Uint64()|1) // zero is no id
	}
	binary.BigEndian.PutUint64(own.SpanID[:], rand.Uint64()|1)
	sampled := s.Ratio >= 1 || binary.BigEndian.Uint64(own.TraceID[8:])>>1 < uint64(s.Ratio*(1<<63))
	if hasParent && s.ParentBased {
		sampled = parent.TraceFlags.IsSampled()
	}
	own.TraceFlags = own.TraceFlags.WithSampled(sampled)
	return own
}
