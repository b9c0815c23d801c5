package tracing_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sidenote/retrieval/tracing"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func TestParentIsParsedAsW3CSays(t *testing.T) {
	f := func(header string, sampled bool) {
		t.Helper()
		parent, ok := tracing.ParseParent([]byte(header))
		if !ok || parent.TraceID.String() != traceID || parent.SpanID.String() != spanID || parent.TraceFlags.IsSampled() != sampled || !parent.Remote {
			t.Errorf("%s: got %+v, %v", header, parent, ok)
		}
	}
	f("00-"+traceID+"-"+spanID+"-01", true)
	f("00-"+traceID+"-"+spanID+"-00", false)
	f("00-"+traceID+"-"+spanID+"-03", true)           // an unknown flag
	f("01-"+traceID+"-"+spanID+"-01", true)           // a later version
	f("cc-"+traceID+"-"+spanID+"-01-what-ever", true) // with more fields
}

func TestInvalidParentIsNoParent(t *testing.T) {
	f := func(header string) {
		t.Helper()
		if parent, ok := tracing.ParseParent([]byte(header)); ok || parent.TraceID.IsValid() {
			t.Errorf("%q: got %+v, %v", header, parent, ok)
		}
	}
	f("")
	f("00")
	f("ff-" + traceID + "-" + spanID + "-01")
	f("00-" + traceID + "-" + spanID + "-01-more")
	f("01-" + traceID + "-" + spanID + "-01more")
	f("00-" + strings.Repeat("0", 32) + "-" + spanID + "-01")
	f("00-" + traceID + "-" + strings.Repeat("0", 16) + "-01")
	f("00-" + strings.ToUpper(traceID) + "-" + spanID + "-01")
	f("00-" + traceID + "-" + spanID[:15] + "g-01")
	f("00_" + traceID + "-" + spanID + "-01")
	f("00-" + traceID + "_" + spanID + "-01")
	f("00-" + traceID + "-" + spanID + "_01")
	f("0x-" + traceID + "-" + spanID + "-01")
	f("00-" + traceID + "-" + spanID + "-x1")
}

func TestFormattedParentParses(t *testing.T) {
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
		of := trace.SpanContextConfig{TraceID: trace.TraceID{1, 0xfe}, SpanID: trace.SpanID{2, 0xab}, TraceFlags: flags, Remote: true}
		header := tracing.FormatParent(trace.NewSpanContext(of))
		got, ok := tracing.ParseParent([]byte(header))
		if !ok || !trace.NewSpanContext(got).Equal(trace.NewSpanContext(of)) {
			t.Errorf("%s: got %+v, %v", header, got, ok)
		}
	}
}

func TestInjectNeedsASpan(t *testing.T) {
	header := http.Header{}
	tracing.Inject(t.Context(), header)
	if len(header) > 0 {
		t.Errorf("without a span: %v", header)
	}
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceState: state})
	tracing.Inject(trace.ContextWithSpanContext(t.Context(), c), header)
	if header.Get("Traceparent") != tracing.FormatParent(c) || header.Get("Tracestate") != "vendor=1" {
		t.Errorf("with a span: %v", header)
	}
}

func TestWithoutASpanNothingIsStarted(t *testing.T) {
	var got context.Context
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := tracing.Start(t.Context(), "stage", "draft")
		span.End()
		got = ctx
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if got != t.Context() {
		t.Error("the context was changed")
	}
}

func FuzzParseParent(f *testing.F) {
	f.Add("00-" + traceID + "-" + spanID + "-01")
	f.Fuzz(func(t *testing.T, header string) {
		parent, ok := tracing.ParseParent([]byte(header))
		if !ok {
			return
		}
		if again := tracing.FormatParent(trace.NewSpanContext(parent)); again[3:52] != header[3:52] {
			t.Errorf("%q became %q", header, again)
		}
	})
}

// Callers with a parent decide under ParentBased; else the trace id does, as in OpenTelemetry's SDK.
func TestSampler(t *testing.T) {
	f := func(s tracing.Sampler, parentSampled, want bool) {
		t.Helper()
		parent := trace.SpanContextConfig{TraceID: trace.TraceID{8: 0x10}, SpanID: trace.SpanID{1}, TraceFlags: trace.TraceFlags(0).WithSampled(parentSampled)}
		own := s.Begin(parent, true)
		if own.TraceFlags.IsSampled() != want || own.TraceID != parent.TraceID || own.SpanID == parent.SpanID || !own.SpanID.IsValid() {
			t.Errorf("%+v, %v: got %+v", s, parentSampled, own)
		}
	}
	f(tracing.Sampler{Ratio: 1, ParentBased: true}, false, false)
	f(tracing.Sampler{Ratio: 0, ParentBased: true}, true, true)
	f(tracing.Sampler{Ratio: 1}, false, true)
	f(tracing.Sampler{Ratio: 0}, true, false)
	f(tracing.Sampler{Ratio: 0.05}, true, false) // the trace id begins with 1/16
	f(tracing.Sampler{Ratio: 0.07}, false, true)

	sdk := sdktrace.TraceIDRatioBased(0.3)
	sampled := 0
	for range 10_000 {
		own := tracing.Sampler{Ratio: 0.3, ParentBased: true}.Begin(trace.SpanContextConfig{}, false)
		theirs := sdk.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: own.TraceID}).Decision == sdktrace.RecordAndSample
		if !own.TraceID.IsValid() || own.TraceFlags.IsSampled() != theirs {
			t.Fatalf("got %+v, the SDK says %v", own, theirs)
		}
		if theirs {
			sampled++
		}
	}
	if sampled < 2500 || sampled > 3500 {
		t.Errorf("sampled %d of 10,000 at 30 %%", sampled)
	}
}
