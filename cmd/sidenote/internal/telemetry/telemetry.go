// Package telemetry sends spans and metrics to a receiver of OTLP. The environment configures it by
// the standard variables OTEL_*; without an endpoint there, nothing is sent and nothing is made.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promsource "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // see tracing.SchemaURL
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"sidenote/proxy"
	"sidenote/retrieval/services"
	"sidenote/retrieval/tracing"
)

// closeWait limits how long Close waits for a receiver.
const closeWait = 2 * time.Second

// Options are the inputs of New. All fields are required.
type Options struct {
	Env     func(name string) (value string, ok bool)
	Version string                              // of Sidenote
	Metrics prometheus.Gatherer                 // what is sent as metrics
	Log     func(level slog.Level, line string) // called when sending begins to fail, and when it works again
}

// A Telemetry sends spans and metrics until Close.
type Telemetry struct {
	traces  *sdktrace.TracerProvider // nil: off
	sampler tracing.Sampler
	metrics *metric.MeterProvider // nil: off
	lost    atomic.Int64
}

// New reads the environment and begins to send. A receiver that does not answer is no error, as it
// may come later; a variable that cannot be right is one. The OpenTelemetry SDK reads the other
// variables itself, from the process's environment: those of batches, headers, certificates,
// timeouts and resources.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	t := new(Telemetry)
	env := environment{o.Env}
	traces, metrics, err := env.signals()
	if err != nil || !traces.on() && !metrics.on() {
		return t, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log(slog.LevelWarn, "opentelemetry: "+env.describe(err))
	}))
	about, err := resource.New(ctx,
		resource.WithService(), // a random service.instance.id, so that replicas differ
		resource.WithAttributes(semconv.ServiceName("sidenote"), semconv.ServiceVersion(o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return t, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if traces.on() {
		if err := t.sendTraces(ctx, traces, about, o, env); err != nil {
			return t, err
		}
	}
	if metrics.on() {
		return t, t.sendMetrics(ctx, metrics, about, o, env)
	}
	return t, nil
}

func (t *Telemetry) sendTraces(ctx context.Context, to signal, about *resource.Resource, o Options, env environment) error {
	var err error
	if t.sampler, err = env.sampler(); err != nil {
		return err
	}
	client := otlptracehttp.NewClient()
	if to.protocol == protocolGRPC {
		client = otlptracegrpc.NewClient()
	}
	out, err := otlptrace.New(ctx, client)
	if err != nil {
		return fmt.Errorf("%s: %w", to.variable, err)
	}
	watched := &spanExporter{SpanExporter: out, outcome: outcome{health: o.health("traces", to), env: env}, lost: &t.lost}
	t.traces = sdktrace.NewTracerProvider(sdktrace.WithBatcher(watched), sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	return nil
}

func (t *Telemetry) sendMetrics(ctx context.Context, to signal, about *resource.Resource, o Options, env environment) (err error) {
	var out metric.Exporter
	if to.protocol == protocolGRPC {
		out, err = otlpmetricgrpc.New(ctx)
	} else {
		out, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", to.variable, err)
	}
	watched := &metricExporter{Exporter: out, outcome: outcome{health: o.health("metrics", to), env: env}}
	source := promsource.NewMetricProducer(promsource.WithGatherer(o.Metrics))
	t.metrics = metric.NewMeterProvider(metric.WithResource(about), metric.WithReader(metric.NewPeriodicReader(watched, metric.WithProducer(source))))
	return nil
}

// health returns what tells of a signal that cannot be sent.
func (o *Options) health(what string, to signal) *services.Health {
	return &services.Health{Subject: what + " to " + to.host, Changed: func(line string, bad bool) {
		if bad {
			o.Log(slog.LevelWarn, line)
			return
		}
		o.Log(slog.LevelInfo, "over: "+line)
	}}
}

// Tracing returns what makes spans, with texts if wanted; nil if traces are off.
func (t *Telemetry) Tracing(texts bool) *proxy.Tracing {
	if t.traces == nil {
		return nil
	}
	return &proxy.Tracing{Sampler: t.sampler, Tracer: t.traces.Tracer(tracing.Scope, trace.WithSchemaURL(tracing.SchemaURL)), Texts: texts}
}

// Lost returns how many spans a receiver did not take.
func (t *Telemetry) Lost() int64 { return t.lost.Load() }

// Close sends what is left, for two seconds at most, and stops.
func (t *Telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var both errgroup.Group // what fails has been logged
	if t.traces != nil {
		both.Go(func() error { return t.traces.Shutdown(ctx) })
	}
	if t.metrics != nil {
		both.Go(func() error { return t.metrics.Shutdown(ctx) })
	}
	_ = both.Wait()
}

// An outcome tells of batches that could not be sent. The SDK would write each to standard error.
type outcome struct {
	health *services.Health
	env    environment
}

func (o *outcome) of(err error) {
	if err != nil {
		err = errors.New(o.env.describe(err))
	}
	o.health.Called(err)
}

type spanExporter struct {
	sdktrace.SpanExporter
	outcome
	lost *atomic.Int64
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.lost.Add(int64(len(spans)))
	}
	e.of(err)
	return nil
}

type metricExporter struct {
	metric.Exporter
	outcome
}

// Export implements metric.Exporter.
func (e *metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	e.of(e.Exporter.Export(ctx, all))
	return nil
}
