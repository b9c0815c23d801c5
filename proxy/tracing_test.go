package proxy_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/tracing"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

const (
	theirTrace  = "0af7651916cd43dd8448eb211c80319c"
	theirSpan   = "b7ad6b7169203331"
	theirParent = "00-" + theirTrace + "-" + theirSpan + "-01"
)

// all samples every request.
var all = tracing.Sampler{Ratio: 1}

// tracedBy returns what makes spans by a sampler, and where they end up.
func tracedBy(sampler tracing.Sampler) (*proxy.Tracing, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	return &proxy.Tracing{Sampler: sampler, Tracer: provider.Tracer(tracing.Scope)}, spans
}

// treeOf returns the names of spans, each below its parent, in the order in which they began, with
// their kinds, if these are not internal, and errors.
func treeOf(spans tracetest.SpanStubs) string {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	var below func(parent trace.SpanID, indent string)
	below = func(parent trace.SpanID, indent string) {
		for _, s := range spans {
			if known := slices.ContainsFunc(spans, func(o tracetest.SpanStub) bool { return o.SpanContext.SpanID() == s.Parent.SpanID() }); s.Parent.SpanID() != parent && (parent.IsValid() || known) {
				continue
			}
			b.WriteString(indent + s.Name)
			if s.SpanKind != trace.SpanKindInternal {
				b.WriteString(" " + s.SpanKind.String())
			}
			if kind := attributeOf(s, "error.type"); kind != "" {
				b.WriteString(" error=" + kind)
			}
			b.WriteString("\n")
			below(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	below(trace.SpanID{}, "")
	return strings.TrimSpace(b.String())
}

// attributeOf returns the text of an attribute of a span, "" if it has none.
func attributeOf(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if a.Key == attribute.Key(key) {
			return a.Value.Emit()
		}
	}
	return ""
}

// spanNamed returns the first span of a name.
func spanNamed(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no span %q:\n%s", name, treeOf(spans))
	return tracetest.SpanStub{}
}

// openTraced starts a rig with spans, and returns what makes them and where they end up.
func openTraced(t *testing.T, u *stubUpstream, sampler tracing.Sampler, change func(*proxy.Config)) (*rig, *tracetest.InMemoryExporter) {
	t.Helper()
	by, spans := tracedBy(sampler)
	return openIn(t, u, func(cfg *proxy.Config) {
		cfg.Tracing = by
		if change != nil {
			change(cfg)
		}
	}), spans
}

// A request has a span below the caller's, and each call of an upstream one below that, whose ids
// the upstream gets. The search is beside it.
func TestSpansOfAChat(t *testing.T) {
	u := newUpstream(t, say("Hello."))
	g, spans := openTraced(t, u, tracing.Sampler{ParentBased: true}, nil)
	for _, body := range []string{weeksBody, weeksStream} {
		spans.Reset()
		g.post(t, body, "traceparent: "+theirParent, "tracestate: vendor=1", "X-Request-Id: app-7")
		r, s, all := g.reports.next(t), u.next(t), spans.GetSpans()
		if got, want := treeOf(all), "POST /chat/completions server\n  retrieval\n  chat m client"; got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		root, call := spanNamed(t, all, "POST /chat/completions"), spanNamed(t, all, "chat m")
		if root.Parent.SpanID().String() != theirSpan || !root.Parent.IsRemote() || root.SpanContext.TraceState().String() != "vendor=1" {
			t.Errorf("parent %v", root.Parent)
		}
		if got, want := s.header("Traceparent"), "00-"+theirTrace+"-"+call.SpanContext.SpanID().String()+"-01"; got != want || s.header("Tracestate") != "vendor=1" {
			t.Errorf("the upstream got %q, %q, want %q", got, s.header("Tracestate"), want)
		}
		if r.TraceID.String() != theirTrace || !r.Sampled || root.EndTime.Before(call.EndTime) || !root.EndTime.Equal(r.Time.Add(r.Total)) {
			t.Errorf("trace %s, ends %v and %v", r.TraceID, root.EndTime, call.EndTime)
		}
		for key, want := range map[string]string{
			"http.request.method": "POST", "http.route": "/chat/completions", "http.response.status_code": "200", "sidenote.id": r.ID,
			"sidenote.tenant": "acme", "sidenote.outcome": "injected", "sidenote.sources": "1", "sidenote.request_id": "app-7",
		} {
			if got := attributeOf(root, key); got != want {
				t.Errorf("request: %s is %q, want %q", key, got, want)
			}
		}
		for key, want := range map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": "10",
			"gen_ai.usage.output_tokens": "5", "server.address": "127.0.0.1", "server.port": u.url.Port(), "http.response.status_code": "200", "sidenote.purpose": "answer",
		} {
			if got := attributeOf(call, key); got != want && (body == weeksBody || !strings.Contains(key, "usage")) {
				t.Errorf("call: %s is %q, want %q", key, got, want)
			}
		}
	}
}

// Texts are in no span unless that is asked for.
func TestSpansHoldTextsOnlyOnRequest(t *testing.T) {
	const secret = "a question of a user"
	u := newUpstream(t, say("an answer of a model"))
	body := `{"model":"m","messages":[{"role":"system","content":"a system text"},{"role":"user","content":[{"type":"text","text":"` + secret + `"},{"type":"image_url","image_url":{"url":"data:x"}}]}]}`
	for _, texts := range []bool{false, true} {
		g, spans := openTraced(t, u, all, func(cfg *proxy.Config) { cfg.Tracing.Texts = texts })
		g.post(t, body)
		g.reports.next(t)
		all := fmt.Sprintf("%+v", spans.GetSpans())
		for _, text := range []string{secret, "a system text", "canary of acme", "an answer of a model", "finish_reason"} {
			if strings.Contains(all, text) != texts {
				t.Errorf("texts: %v, %q is in spans: %v", texts, text, !texts)
			}
		}
		if !texts {
			continue
		}
		want := `{"role":"user","parts":[{"type":"text","content":"` + secret + `"},{"type":"image_url"}]}`
		if got := attributeOf(spanNamed(t, spans.GetSpans(), "chat m"), "gen_ai.input.messages"); !strings.HasSuffix(got, want+"]") {
			t.Errorf("messages %s", got)
		}
		for _, body := range []string{weeksBody, weeksStream} {
			spans.Reset()
			g.post(t, body)
			g.reports.next(t)
			tracedAnswers(t, spans.GetSpans(), "an answer of a model")
		}
	}
}

// tracedAnswers checks that the spans of calls hold these texts of answers.
func tracedAnswers(t *testing.T, spans tracetest.SpanStubs, texts ...string) {
	t.Helper()
	var got, want []string
	for _, s := range spans {
		if s.Name == "chat m" {
			got = append(got, attributeOf(s, "gen_ai.output.messages")+attributeOf(s, "gen_ai.response.finish_reasons"))
		}
	}
	for _, text := range texts {
		want = append(want, `[{"role":"assistant","parts":[{"type":"text","content":"`+text+`"}],"finish_reason":"stop"}]["stop"]`)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A request that is not sampled has no spans; upstreams learn that, and of its trace.
func TestUnsampledRequestsPassTheirTraceOn(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g, spans := openTraced(t, u, tracing.Sampler{ParentBased: true}, nil)
	f := func(parent, state, wantTrace, wantState string) {
		t.Helper()
		g.post(t, weeksBody, "Traceparent: "+parent, "Tracestate: "+state)
		r, s := g.reports.next(t), u.next(t)
		got, ok := tracing.ParseParent([]byte(s.header("Traceparent")))
		if !ok || got.TraceFlags.IsSampled() || r.Sampled || got.TraceID != r.TraceID || got.SpanID.String() == theirSpan || wantTrace != "" && got.TraceID.String() != wantTrace || s.header("Tracestate") != wantState {
			t.Errorf("%s: the upstream got %q", parent, s.head)
		}
	}
	f("00-"+theirTrace+"-"+theirSpan+"-00", "vendor=1", theirTrace, "vendor=1")
	f("broken", "vendor=1", "", "") // a new trace
	if n := len(spans.GetSpans()); n > 0 {
		t.Errorf("%d spans", n)
	}
}

// Without tracing no trace is made up, and that of the caller passes untouched.
func TestWithoutTracingHeadersPass(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	g.post(t, weeksBody)
	if r, s := g.reports.next(t), u.next(t); s.header("Traceparent") != "" || r.TraceID.IsValid() || r.RequestID != "" {
		t.Errorf("made up: %q, %s", s.head, r.TraceID)
	}
	g.post(t, weeksBody, "tRaceparent:  "+theirParent, "tracestate: vendor=1", "x-request-id: app-7")
	r, s := g.reports.next(t), u.next(t)
	for _, line := range []string{"tRaceparent:  " + theirParent, "tracestate: vendor=1", "x-request-id: app-7"} {
		if !slices.Contains(s.head, line) {
			t.Errorf("%q is not among %q", line, s.head)
		}
	}
	if r.TraceID.String() != theirTrace || !r.Sampled || r.RequestID != "app-7" || r.Calls[0].RequestID != "req_1" {
		t.Errorf("ids %+v", r.IDs())
	}
}

// A signature may cover the header lines, so those of a signed request stay.
func TestSignedRequestsKeepTheirTraceparent(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g, _ := openTraced(t, u, all, nil)
	g.raw(t, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: AWS4-HMAC-SHA256 x\r\nTraceparent: "+theirParent+"\r\nContent-Length: 2\r\n\r\n{}")
	if s := u.next(t); s.header("Traceparent") != theirParent {
		t.Errorf("the upstream got %q", s.head)
	}
}

// Failures are errors of the spans that they happened in.
func TestSpansOfFailures(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		switch {
		case strings.Contains(s.body, "limited"):
			writeWhole(w, "429 Too Many Requests", "{}")
		case strings.Contains(s.body, "cut"):
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
			w.(io.Closer).Close()
		}
	})
	closed := closedPort(t)
	broken := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{}, errors.New("disk on fire")
	})
	f := func(to *url.URL, text, want string) {
		t.Helper()
		by, spans := tracedBy(all)
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: to}}, Tracing: by, Tenants: tenant.Tenants{Unknown: policyOf("acme", nil)},
		}, broken)
		c := g.dial(t)
		_, _ = io.WriteString(c, chatRequest(`{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`))
		_, _ = io.ReadAll(io.LimitReader(c, 20))
		g.reports.next(t)
		if got := treeOf(spans.GetSpans()); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
	f(u.url, "limited", "POST /chat/completions server\n  retrieval error=retrieval-error\n  chat m client error=429")
	f(u.url, "cut", "POST /chat/completions server error=truncated\n  retrieval error=retrieval-error\n  chat m client error=truncated")
	f(closed.BaseURL, "refused", "POST /chat/completions server error=upstream-connect\n  retrieval error=retrieval-error\n  chat m client error=connect")
}

// Each stage has a span, with its calls below it; each turn with calls of tools has one, with each
// call below it and what that does.
func TestSpansOfStagesAndTools(t *testing.T) {
	two := fourStages()[:2]
	u := newUpstream(t, func(s seen, w io.Writer) {
		say(cmp.Or(map[bool]string{true: "Evidence [1]."}[stageOf(s) == 1], "Final [1]."))(s, w)
	})
	by, spans := tracedBy(all)
	by.Texts = true
	for _, body := range []string{weeksBody, weeksStream} {
		spans.Reset()
		cfg := withStages(t, strings.TrimSuffix(u.url.String(), "/v1"), stagedTerms{Policy: staged.Policy{Stages: two}})
		cfg.Tracing = by
		g := start(t, cfg, retrieval.Func(staff{}.Retrieve))
		g.post(t, body)
		g.reports.next(t)
		want := fmt.Sprintf("POST /chat/completions server\n  retrieval\n  stage %s\n    chat m client\n  stage %s\n    chat m client", two[0].Name, two[1].Name)
		if got := treeOf(spans.GetSpans()); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", body, got, want)
		}
		tracedAnswers(t, spans.GetSpans(), "Evidence [1].", "Final [1].")
	}

	u = newUpstream(t, func(s seen, w io.Writer) {
		a := answertest.Answer{Text: "16 weeks", Finish: "stop"}
		if !strings.Contains(s.body, `"role":"tool"`) {
			a = answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"parental leave"}`}, {Name: "search_knowledge", Arguments: `{}`}}}
		}
		body, kind := answertest.Bytes(a, plain(), streams(s))
		writeWhole(w, "200 OK\r\nContent-Type: "+kind, string(body))
	})
	for _, body := range []string{weeksBody, weeksStream} {
		spans.Reset()
		cfg := withTools(t, strings.TrimSuffix(u.url.String(), "/v1"), nil)
		cfg.Tracing = by
		g := start(t, cfg, nil)
		g.post(t, body)
		g.reports.next(t)
		all := spans.GetSpans()
		got := strings.Split(treeOf(all), "\n")
		slices.Sort(got[3:5]) // run at once
		want := "POST /chat/completions server\n  chat m client\n  tool round 1\n    execute_tool search_knowledge\n    execute_tool search_knowledge error=refused\n  chat m client"
		if strings.Join(got, "\n") != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", body, strings.Join(got, "\n"), want)
		}
		first, round := spanNamed(t, all, "chat m"), spanNamed(t, all, "tool round 1")
		if first.EndTime.After(round.StartTime) {
			t.Errorf("the first call ends at %v, after the tools began at %v", first.EndTime, round.StartTime)
		}
	}
}

// What a shadow search does is part of its request.
func TestSpansOfShadow(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g, spans := openTraced(t, u, all, func(cfg *proxy.Config) { cfg.Tenants.Unknown.Rewrite.Mode = rewrite.Shadow })
	g.post(t, weeksBody)
	g.reports.next(t)
	got := strings.Split(treeOf(spans.GetSpans()), "\n")
	slices.Sort(got[1:])
	if want := "POST /chat/completions server,  chat m client,  retrieval"; strings.Join(got, ",") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ","), want)
	}
}

// Errors of Sidenote name the ids under which others know the request.
func TestErrorsNameTheIDs(t *testing.T) {
	closed := closedPort(t)
	g := start(t, proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": closed}, Tenants: tenant.Tenants{Unknown: policyOf("acme", nil)}}, nil)
	ids := `"trace_id":"` + theirTrace + `","request_id":"app-7"}`
	if _, body := g.post(t, weeksBody, "Traceparent: "+theirParent, "X-Request-Id: app-7"); !strings.HasSuffix(body, `"code":"upstream_connect"},`+ids) {
		t.Errorf("chat: %s", body)
	}
	resp := g.raw(t, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nTraceparent: "+theirParent+"\r\nX-Request-Id: app-7\r\nContent-Length: 71\r\n\r\n"+
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`[:71])
	if body, _ := io.ReadAll(resp.Body); !strings.HasPrefix(string(body), `{"type":"error",`) || !strings.HasSuffix(string(body), "},"+ids) {
		t.Errorf("messages: %s", body)
	}
	if _, body := g.post(t, weeksBody, "Traceparent: x", `X-Request-Id: "quoted"`); strings.Contains(body, "trace_id") || strings.Contains(body, "request_id") {
		t.Errorf("unusable ids: %s", body)
	}

	u := newUpstream(t, func(_ seen, w io.Writer) { writeWhole(w, "500 Oops\r\nRequest-Id: req_9", "{}") })
	cfg := withStages(t, strings.TrimSuffix(u.url.String(), "/v1"), stagedTerms{Policy: staged.Policy{RefuseOnFailure: true}})
	g = start(t, cfg, retrieval.Func(staff{}.Retrieve))
	if _, body := g.post(t, weeksBody); !strings.HasSuffix(body, `},"upstream_request_id":"req_9"}`) {
		t.Errorf("stages: %s", body)
	}
	if r := g.reports.next(t); r.Reason != report.ReasonStage {
		t.Errorf("report %+v", r)
	}
}
