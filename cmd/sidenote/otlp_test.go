package main

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"sidenote/retrieval/services/servicestest"
)

// A receiver takes traces and metrics by OTLP, over gRPC and HTTP.
type receiver struct {
	collectortraces.UnimplementedTraceServiceServer
	url map[string]string // of each protocol

	mu       sync.Mutex
	spans    []*traces.Span
	resource map[string]string
	metrics  map[string]bool // their names
	keys     []string        // values of the header api-key
	more     chan struct{}   // holds a value when something has come
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{metrics: map[string]bool{}, more: make(chan struct{}, 1)}
	web := httptest.NewServer(r)
	t.Cleanup(web.Close)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectortraces.RegisterTraceServiceServer(server, r)
	collectormetrics.RegisterMetricsServiceServer(server, metricsReceiver{of: r})
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	r.url = map[string]string{"http/protobuf": web.URL, "grpc": "http://" + ln.Addr().String()}
	return r
}

// Export takes spans.
func (r *receiver) Export(ctx context.Context, of *collectortraces.ExportTraceServiceRequest) (*collectortraces.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.takeSpans(of, md.Get("api-key"))
	return &collectortraces.ExportTraceServiceResponse{}, nil
}

func (r *receiver) takeSpans(of *collectortraces.ExportTraceServiceRequest, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, keys...)
	for _, from := range of.ResourceSpans {
		r.resource = attributesOf(from.Resource.Attributes)
		for _, scope := range from.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// A metricsReceiver takes metrics.
type metricsReceiver struct {
	collectormetrics.UnimplementedMetricsServiceServer
	of *receiver
}

// Export takes metrics.
func (m metricsReceiver) Export(_ context.Context, of *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	m.of.takeMetrics(of)
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func (r *receiver) takeMetrics(of *collectormetrics.ExportMetricsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range of.ResourceMetrics {
		for _, scope := range from.ScopeMetrics {
			for _, m := range scope.Metrics {
				r.metrics[m.Name] = true
			}
		}
	}
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// ServeHTTP takes both.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(req.Body)
	}
	text, err := io.ReadAll(body)
	spans, metrics := new(collectortraces.ExportTraceServiceRequest), new(collectormetrics.ExportMetricsServiceRequest)
	switch {
	case err != nil:
	case req.URL.Path == "/v1/traces":
		if err = proto.Unmarshal(text, spans); err == nil {
			r.takeSpans(spans, req.Header.Values("Api-Key"))
		}
	case req.URL.Path == "/v1/metrics":
		if err = proto.Unmarshal(text, metrics); err == nil {
			r.takeMetrics(metrics)
		}
	default:
		http.NotFound(w, req)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// await waits until done is true of what has come.
func (r *receiver) await(done func() bool) {
	for {
		r.mu.Lock()
		ok := done()
		r.mu.Unlock()
		if ok {
			return
		}
		<-r.more
	}
}

// trace waits for the request's span of a trace, and returns its spans as a tree: each below its
// parent, in the order in which they began.
func (r *receiver) trace(id string) (tree string, spans []*traces.Span) {
	r.await(func() bool {
		spans = slices.DeleteFunc(slices.Clone(r.spans), func(s *traces.Span) bool { return hex.EncodeToString(s.TraceId) != id })
		return slices.ContainsFunc(spans, func(s *traces.Span) bool { return s.Kind == traces.Span_SPAN_KIND_SERVER })
	})
	slices.SortStableFunc(spans, func(a, b *traces.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	var b strings.Builder
	var below func(parent []byte, indent string)
	below = func(parent []byte, indent string) {
		for _, s := range spans {
			if string(s.ParentSpanId) == string(parent) || parent == nil && s.Kind == traces.Span_SPAN_KIND_SERVER {
				fmt.Fprintf(&b, "%s%s\n", indent, s.Name)
				below(s.SpanId, indent+"  ")
			}
		}
	}
	below(nil, "")
	return strings.TrimSpace(b.String()), spans
}

func attributesOf(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		if n, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
			all[a.Key] = fmt.Sprint(n.IntValue)
			continue
		}
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// serveReleased starts the program that users run, in an environment.
func serveReleased(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return serveBy(t, func(ctx context.Context, args []string, out io.Writer) int {
		cmd := exec.CommandContext(ctx, released(t), args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.Env, cmd.Stderr = append(os.Environ(), env...), out
		_ = cmd.Run() // its exit code says what went wrong
		return cmd.ProcessState.ExitCode()
	}, args...)
}

// sending is the environment of a process that sends to a receiver at short intervals.
func sending(url, protocol string) []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_EXPORTER_OTLP_HEADERS=api-key=Very%20secret-value",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=100", "HELPER_KEY=key-of-helper",
	}
}

// helped is the configuration of a process whose searches are planned, embedded and reranked.
func helped(t *testing.T, up *recorder, j *judge, service *servicestest.Service) string {
	t.Helper()
	docs := writeFiles(t, map[string][]byte{
		"beds.md":    []byte("# Garden beds\n\nGarden garden beds in the garden: how a garden is laid out."),
		"visitor.md": []byte("# Visitors\n\nThere are snails, which come to every corner by night and leave with the dawn: a garden has them too."),
	})
	return written(t, "sidenote.yaml", fmt.Sprintf(`upstream: %s
upstreams: {judge: {base_url: %s, api_key: {env: HELPER_KEY}}, service: {base_url: %s, api_key: {env: HELPER_KEY}}}
embeddings: {upstream: service, model: stub}
knowledge: {docs: {path: %q, embed: true}}
state: ":memory:"
telemetry: {log: {format: json}}
policies: {default: {upstream: default, knowledge: [docs], planner: {upstream: judge, model: p}, rerank: {upstream: judge, model: r}, retrieval: {deadline: 10s}}}
`, up.URL, j.URL, service.URL, docs))
}

// T31: the spans of a request, and metrics, arrive in a receiver of OTLP by both protocols. They
// hold no text.
func TestTracesArrive(t *testing.T) {
	r := newReceiver(t)
	for protocol, url := range r.url {
		up := newRecorder(t)
		j, service := newJudge(t), servicestest.Start(t)
		p := serveReleased(t, sending(url, protocol), "--config", helped(t, up, j, service))
		p.embeds(t, 2)
		for i, asked := range []string{`"messages":[{"role":"user","content":"What is in the garden?"}]`, `"stream":true,"messages":[{"role":"user","content":"Who comes to the garden?"}]`} {
			id := fmt.Sprintf("%016x%016x", len(protocol), i+1)
			req, err := http.NewRequest(http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-4o",`+asked+`}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Traceparent", "00-"+id+"-b7ad6b7169203331-01")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			tree, spans := r.trace(id)
			lines := slices.Compact(strings.Split(tree, "\n")) // the planner's query may be embedded too
			if want := "POST /chat/completions\n  retrieval\n    plan\n      chat p\n    embeddings stub\n    rerank\n      rerank r\n  chat gpt-4o"; strings.Join(lines, "\n") != want {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", protocol, asked, tree, want)
			}
			for _, s := range spans {
				if text := s.String(); strings.Contains(text, "garden?") || strings.Contains(text, "snails") {
					t.Errorf("%s: a span holds a text: %s", protocol, text)
				}
				if a := attributesOf(s.Attributes); s.Kind == traces.Span_SPAN_KIND_SERVER && (hex.EncodeToString(s.ParentSpanId) != "b7ad6b7169203331" || a["sidenote.id"] != resp.Header.Get("Sidenote-Id") || a["http.response.status_code"] != "200") {
					t.Errorf("%s: the request's span is %v", protocol, s)
				}
				if s.Name == "chat gpt-4o" && up.last(t).header.Get("Traceparent") != "00-"+id+"-"+hex.EncodeToString(s.SpanId)+"-01" {
					t.Errorf("%s: the upstream got %q", protocol, up.last(t).header)
				}
			}
			p.out.until(t, `"trace_id":"`+id+`"`)
		}
		r.await(func() bool { return r.metrics["sidenote_requests_total"] && r.metrics["sidenote_overhead_seconds"] })
		p.stop()
		r.mu.Lock()
		if r.resource["service.name"] != "sidenote" || r.resource["service.instance.id"] == "" || r.resource["deployment.environment.name"] != "test" || !slices.Contains(r.keys, "Very secret-value") {
			t.Errorf("%s: resource %v, keys %q", protocol, r.resource, r.keys)
		}
		clear(r.metrics)
		r.mu.Unlock()
	}
}

// T31: a receiver that refuses, hangs or answers with errors harms no request and delays no end. One
// line of the log names it, without secrets.
func TestReceiverFails(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	errs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no access with "+r.Header.Get("Api-Key"), http.StatusUnauthorized)
	}))
	defer errs.Close()
	for name, host := range map[string]string{"refuses": "127.0.0.1:1", "hangs": hangs.Addr().String(), "errs": strings.TrimPrefix(errs.URL, "http://")} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				env := append(sending("http://user:Very-secret-too@"+host, protocol), "OTEL_EXPORTER_OTLP_TIMEOUT=200", "OTEL_BSP_EXPORT_TIMEOUT=400")
				p := serveReleased(t, env, "--upstream", newRecorder(t).URL, "--state", ":memory:")
				for range 20 {
					if status, text := posted(t, p.data+"/v1/chat/completions", "", `{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
						t.Fatalf("%d: %s", status, text)
					}
				}
				p.out.until(t, "traces to "+host)
				began := time.Now()
				if code := p.stop(); code != exitDone {
					t.Errorf("exit code %d", code)
				}
				if took := time.Since(began); took > 20*time.Second { // of the grace of 25 s
					t.Errorf("it took %v to end", took)
				}
				text := p.out.text.String()
				if n := strings.Count(text, "traces to "+host); n > 3 || strings.Contains(text, "ecret") {
					t.Errorf("%d lines, or a secret:\n%s", n, text)
				}
			})
		}
	}
}

// Variables of OpenTelemetry that cannot be right are refused with their name.
func TestTelemetryVariablesRefused(t *testing.T) {
	f := func(want string, env ...string) {
		t.Helper()
		start(t, func(name string) (string, bool) {
			for _, pair := range env {
				if value, ok := strings.CutPrefix(pair, name+"="); ok {
					return value, true
				}
			}
			return "", false
		}, "serve", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin", "off", "--state", ":memory:").ends(t, exitUsage, "", want)
	}
	const on = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"
	f(`OTEL_EXPORTER_OTLP_ENDPOINT: not a URL such as http://127.0.0.1:4318`, "OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4317")
	f(`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: not a URL`, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://x")
	f(`OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is neither grpc nor http/protobuf`, on, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json")
	f(`OTEL_TRACES_SAMPLER: "half" is neither always_on`, on, "OTEL_TRACES_SAMPLER=half")
	f(`OTEL_TRACES_SAMPLER_ARG: "1%" is not a number from 0 to 1`, on, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=1%")
	f(`OTEL_EXPORTER_OTLP_CERTIFICATE: stat /no/such.pem`, on, "OTEL_EXPORTER_OTLP_CERTIFICATE=/no/such.pem")
	f(`OTEL_METRICS_EXPORTER: "console" is neither otlp nor none`, on, "OTEL_METRICS_EXPORTER=console")
}
