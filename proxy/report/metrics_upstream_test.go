package report_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

// relayed returns the report of a chat that the upstream answered with a status.
func relayed(status int) *report.Report {
	r := reporttest.Injected()
	begin := time.Unix(1_000_000, 0)
	r.Tenant, r.Upstream, r.Route, r.Status, r.Time = "acme", "openai", route.Chat, status, begin
	r.Overhead, r.Total, r.Rewrite.Model.Row = time.Millisecond, 3*time.Second, "gpt-5*"
	r.Calls = []report.Call{{Upstream: "openai", Purpose: report.ToAnswer, Status: status, Began: begin.Add(time.Second), Took: 20 * time.Millisecond}}
	return r
}

// exposition returns what a scraper that accepts a format gets.
func exposition(t *testing.T, m *report.Metrics, accept string) string {
	t.Helper()
	req := httptest.NewRequest("GET", "/metrics", nil)
	req.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	text, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	return string(text)
}

// has requires a line of the exposition.
func has(t *testing.T, text, line string) {
	t.Helper()
	if !strings.Contains("\n"+text, "\n"+line+"\n") {
		name, _, _ := strings.Cut(line, "{")
		t.Errorf("no line %s\nin:\n%s", line, grep(text, name))
	}
}

func grep(text, part string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A request that the upstream answered with a 5xx has failed, whatever was added to it.
func TestServerErrorsAreNotInjected(t *testing.T) {
	for status, want := range map[int]string{200: "injected", 429: "injected", 500: "failed", 529: "failed"} {
		m := reporttest.NewMetrics()
		r := relayed(status)
		m.Record(r)
		if n := reporttest.Count(t, m, "sidenote_requests_total", want); n != 1 {
			t.Errorf("%d: %s counted %v times", status, want, n)
		}
		has(t, exposition(t, m, ""), fmt.Sprintf(`sidenote_responses_total{class="%dxx",tenant="acme"} 1`, status/100))
		var line bytes.Buffer
		(&report.Log{Lines: &line}).Record(r)
		if !strings.Contains(line.String(), `"outcome":"`+want+`"`) {
			t.Errorf("%d: logged %s", status, line.String())
		}
	}
	r := relayed(500)
	r.Outcome, r.Reason = rewrite.Refused, report.ReasonQuota // a later round was refused
	if r.Result() != rewrite.Refused {
		t.Errorf("a refusal counts as %s", r.Result())
	}
}

// Times and errors are counted by upstream and row of the model table; the calls of stages by theirs.
func TestCalls(t *testing.T) {
	m := reporttest.NewMetrics()
	r := relayed(200)
	r.Calls[0].FirstToken = 30 * time.Millisecond
	m.Record(r)
	r = relayed(0)
	r.Calls[0].Error, r.Calls[0].Limit = "first_byte_timeout", time.Minute
	m.Record(r)
	r = relayed(200)
	r.Calls = append([]report.Call{{Upstream: "junk", Model: "small", Purpose: report.ToStage, Status: 200, Took: time.Second}, {Upstream: "openai", Error: "connect"}}, r.Calls...)
	m.Record(r)
	embeddings := relayed(200)
	embeddings.Route, embeddings.Outcome, embeddings.Rewrite = route.Embeddings, report.Relayed, rewrite.Result{}
	m.Record(embeddings)
	text := exposition(t, m, "")
	for _, line := range []string{
		`sidenote_upstream_first_byte_seconds_count{model="gpt-5*",upstream="openai"} 2`,
		`sidenote_upstream_first_byte_seconds_sum{model="gpt-5*",upstream="openai"} 0.04`,
		`sidenote_upstream_first_byte_seconds_count{model="small",upstream="other"} 1`,
		`sidenote_upstream_first_byte_seconds_count{model="none",upstream="openai"} 1`,
		`sidenote_upstream_first_token_seconds_sum{model="gpt-5*",upstream="openai"} 0.03`,
		`sidenote_upstream_duration_seconds_sum{model="gpt-5*",upstream="openai"} 4`, // each from second 1 to 3
		`sidenote_upstream_errors_total{class="connect",upstream="openai"} 1`,
		`sidenote_upstream_errors_total{class="first_byte_timeout",upstream="openai"} 1`,
	} {
		has(t, text, line)
	}
}

// The log names the class of an upstream's failure and the exceeded limit.
func TestLineTellsUpstreamErrors(t *testing.T) {
	f := func(c report.Call, want string) {
		t.Helper()
		var out bytes.Buffer
		r := relayed(200)
		r.Calls[0] = c
		(&report.Log{Lines: &out}).Record(r)
		if want == "" && strings.Contains(out.String(), "upstream_error") || !strings.Contains(out.String(), want) {
			t.Errorf("%s", out.String())
		}
	}
	f(report.Call{Status: 200}, "")
	f(report.Call{Error: "connect"}, `,"upstream_error":"connect","retried"`)
	f(report.Call{Status: 200, Error: "idle_timeout", Limit: 5 * time.Minute}, `,"upstream_error":"idle_timeout","upstream_limit_ms":300000,`)
}

// Observations of requests whose trace is recorded have it as exemplar, in OpenMetrics.
func TestExemplars(t *testing.T) {
	id, other := trace.TraceID{0x0a, 0xf7}, trace.TraceID{0xff}
	m := reporttest.NewMetrics()
	for _, sampled := range []bool{false, true} {
		r := relayed(200)
		r.TraceID, r.Sampled = id, sampled
		if !sampled {
			r.TraceID = other
		}
		m.Record(r)
	}
	open := exposition(t, m, "application/openmetrics-text; version=1.0.0")
	for _, name := range []string{"sidenote_request_duration_seconds", "sidenote_overhead_seconds", "sidenote_upstream_first_byte_seconds", "sidenote_upstream_duration_seconds"} {
		if !strings.Contains(grep(open, name+"_bucket"), `# {trace_id="`+id.String()+`"} `) {
			t.Errorf("no exemplar of %s", name)
		}
	}
	if strings.Contains(open, other.String()) || !strings.HasSuffix(open, "# EOF\n") {
		t.Error("the exemplar of a trace that is not recorded, or no OpenMetrics")
	}
	if strings.Contains(exposition(t, m, "text/plain"), "trace_id") {
		t.Error("an exemplar in the plain format")
	}
}

// Native histograms are exposed beside the classic ones where they are configured.
func TestNativeHistograms(t *testing.T) {
	for _, native := range []bool{false, true} {
		m := report.NewMetrics(report.MetricNames{Tenants: []string{"acme"}, Upstreams: []string{"openai"}, NativeHistograms: native})
		m.Record(relayed(200))
		families, err := m.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range families {
			if f.GetName() == "sidenote_request_duration_seconds" {
				h := f.GetMetric()[0].GetHistogram()
				found = len(h.GetBucket()) > 0 && h.GetSampleCount() == 1 && (h.Schema != nil) == native
			}
		}
		if !found {
			t.Errorf("native %v: not so", native)
		}
	}
}

// Credentials are exposed with the time left: those that expire next, then those that expired last.
func TestExpiries(t *testing.T) {
	m := reporttest.NewMetrics()
	now := time.Now()
	m.WatchExpiries(func() []report.Expiry {
		all := []report.Expiry{{"token", "ops", now.Add(time.Hour)}, {"token", "ops", now.Add(2 * time.Hour)}}
		for i := range 150 {
			all = append(all, report.Expiry{Kind: "key", Name: fmt.Sprint("old", i), At: now.Add(-time.Duration(i) * time.Hour)})
		}
		for i := range 60 {
			all = append(all, report.Expiry{Kind: "key", Name: fmt.Sprint("new", i), At: now.Add(time.Duration(60-i) * time.Hour)})
		}
		return all
	})
	text := grep(exposition(t, m, ""), "sidenote_expiry_seconds{")
	if n := strings.Count(text, `kind="key"`); n != 100 {
		t.Errorf("%d keys", n)
	}
	for name, want := range map[string]bool{"ops": true, "new0": true, "new59": true, "old39": true, "old40": false, "old149": false} {
		if got := strings.Contains(text, `name="`+name+`"`); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	var left float64
	if _, err := fmt.Sscanf(grep(text, "ops"), `sidenote_expiry_seconds{kind="token",name="ops"} %g`, &left); err != nil || math.Abs(left-3600) > 120 {
		t.Errorf("%v, %v of %s", left, err, grep(text, "ops"))
	}
}

func TestIssuersAndUpstreams(t *testing.T) {
	m := reporttest.NewMetrics()
	m.WatchIssuers(func() map[string]float64 { return map[string]float64{"a": 7, "b": math.Inf(1)} })
	m.WatchUpstreams(func() map[string]float64 { return map[string]float64{"openai": 1} })
	text := exposition(t, m, "")
	has(t, text, `sidenote_jwks_age_seconds{issuer="a"} 7`)
	has(t, text, `sidenote_jwks_age_seconds{issuer="b"} +Inf`)
	has(t, text, `sidenote_upstream_up{upstream="openai"} 1`)
}
