package proxy

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // see tracing.SchemaURL
	"go.opentelemetry.io/otel/trace"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/retrieval/tracing"
)

// Tracing makes the spans of requests.
type Tracing struct {
	Sampler tracing.Sampler
	Tracer  trace.Tracer // of sampled requests: it records all spans
	Texts   bool         // spans hold questions, prompts, answers and sources
}

// A spans holds the open spans of a request. It is empty if tracing is off.
type spans struct {
	own      trace.SpanContext  // of the request; invalid if tracing is off
	span     trace.Span         // of the request; nil if it is not sampled
	orphan   bool               // the request has no valid traceparent
	callSpan trace.Span         // of the latest call of an upstream; nil if it is not sampled, or ended
	callText *answer.AnswerText // reads the text of the answer of that call; nil if its span has none
	callEnd  time.Time          // when the answer of that call was read; zero: not yet
}

// beginTrace reads the ids under which the caller knows the request and, if tracing is on, begins
// its span. A request that is not sampled only passes its ids on.
func (x *exchange) beginTrace() {
	h := &x.ctx.Request.Header
	x.report.RequestID = report.ReadRequestID(h.Peek("X-Request-Id"))
	parent, ok := tracing.ParseParent(h.Peek(tracing.HeaderParent))
	x.report.TraceID, x.report.Sampled, x.work = parent.TraceID, parent.TraceFlags.IsSampled(), x.life
	t := x.server.tracing
	if t == nil {
		return
	}
	if x.orphan = !ok; ok {
		parent.TraceState, _ = trace.ParseTraceState(string(h.Peek(tracing.HeaderState))) // an invalid one is none
	}
	own := t.Sampler.Begin(parent, ok)
	if own.TraceFlags.IsSampled() {
		parent.TraceID = own.TraceID // also of a request without a parent, whose span id stays zero
		_, x.span = t.Tracer.Start(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(parent)), "request", serverKind)
		x.own = x.span.SpanContext()
		x.nameSpan()
	} else {
		x.own = trace.NewSpanContext(own)
	}
	x.report.TraceID, x.report.Sampled, x.work = own.TraceID, own.TraceFlags.IsSampled(), x.traced(x.life)
}

// nameSpan names the span of the request by its method and route.
func (x *exchange) nameSpan() {
	name, method := "HTTP", semconv.HTTPRequestMethodOther
	switch m := string(x.ctx.Method()); m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		name, method = m, semconv.HTTPRequestMethodKey.String(m)
	}
	x.span.SetAttributes(method)
	if path := pathOf(x.target.Route); path != "" {
		name += " " + path
		x.span.SetAttributes(semconv.HTTPRoute(path))
	}
	x.span.SetName(name)
}

// The kinds of spans are never changed.
var (
	serverKind = trace.WithSpanKind(trace.SpanKindServer)
	clientKind = trace.WithSpanKind(trace.SpanKindClient)
)

// traced returns ctx with the span of the request.
func (a *account) traced(ctx context.Context) context.Context {
	switch {
	case !a.own.IsValid():
		return ctx
	case a.span == nil:
		return trace.ContextWithSpanContext(ctx, a.own)
	case a.server.tracing.Texts:
		ctx = tracing.WithTexts(ctx)
	}
	return trace.ContextWithSpan(ctx, a.span)
}

// beginCall begins the span of a call and adds its traceparent to the call. A signature may cover
// the client's traceparent, which then stays.
func (x *exchange) beginCall(to *backend, r *transport.Call, why report.Purpose) {
	x.endCall(time.Now())
	if !x.own.IsValid() {
		return
	}
	c := x.own
	if x.span != nil {
		name, model := "call", ""
		if operation := operationOf(x.target.Route); operation.Valid() {
			name, model = operation.Value.AsString(), x.calledModel(r)
		}
		_, x.callSpan = tracing.Start(x.work, name, model, clientKind, trace.WithAttributes(x.callAttributes(to, r, why)...))
		tracing.SetText(x.work, x.callSpan, semconv.GenAIInputMessagesKey, func() string { return inputMessages(x.target.Route, r.Body) })
		c = x.callSpan.SpanContext()
	}
	if x.signed() {
		return
	}
	lines := append(make([]transport.Header, 0, len(r.Replace)+2), r.Replace...)
	lines = append(lines, transport.Header{Name: tracing.HeaderParent, Value: tracing.FormatParent(c)})
	if x.orphan { // a state without a parent says nothing
		lines = append(lines, transport.Header{Name: tracing.HeaderState})
	}
	r.Replace = lines
}

func (x *exchange) callAttributes(to *backend, r *transport.Call, why report.Purpose) []attribute.KeyValue {
	at := to.of.BaseURL
	all := []attribute.KeyValue{
		semconv.ServerAddress(at.Hostname()), keyUpstream.String(to.name), keyPurpose.String(string(why)),
	}
	if port, err := strconv.Atoi(at.Port()); err == nil {
		all = append(all, semconv.ServerPort(port))
	}
	operation := operationOf(x.target.Route)
	if !operation.Valid() {
		return all
	}
	all = append(all, operation, providerOf(at, x.target.Route))
	if model := x.calledModel(r); model != "" {
		all = append(all, semconv.GenAIRequestModel(model))
	}
	if x.report.Stream {
		all = append(all, semconv.GenAIRequestStream(true))
	}
	return all
}

// maxTracedModel limits the bytes of a model's name, since requests may choose it.
const maxTracedModel = 64

// calledModel returns the model of a call; "" if it is unknown.
func (x *exchange) calledModel(r *transport.Call) string {
	model := r.Deployment // of a stage
	if model == "" {
		model = x.model
	}
	return shortModel(model)
}

func shortModel(name string) string { return tracing.Clean(name[:min(len(name), maxTracedModel)]) }

// answered records the head of the answer to a call, or its error.
func (a *account) answered(c *report.Call, err error) {
	switch {
	case a.callSpan == nil:
		return
	case err != nil:
		tracing.Fail(a.callSpan, string(transport.ClassOf(err)))
		a.endCall(time.Now())
		return
	case c.Status >= 400:
		tracing.Fail(a.callSpan, strconv.Itoa(c.Status))
	}
	a.callSpan.SetAttributes(semconv.HTTPResponseStatusCode(c.Status))
	if c.RequestID != "" {
		a.callSpan.SetAttributes(keyUpstreamID.String(c.RequestID))
	}
}

// EndAnswer notes that the answer of the latest call has been read. It implements RoundsHost.
func (a *account) EndAnswer() {
	if a.callSpan != nil && a.callEnd.IsZero() {
		a.callEnd = time.Now()
	}
}

// endCall ends the span of the latest call, whose usage is in the Report. end is the time if the
// answer was not read before.
func (a *account) endCall(end time.Time) {
	if a.callSpan == nil {
		return
	}
	if !a.callEnd.IsZero() {
		end = a.callEnd
	}
	if u := &a.report.Usage; u.Known {
		a.callSpan.SetAttributes(semconv.GenAIUsageInputTokens(int(u.Input)), semconv.GenAIUsageOutputTokens(int(u.Output)),
			semconv.GenAIUsageCacheReadInputTokens(int(u.CachedInput)))
	}
	if a.callText != nil {
		a.traceAnswer()
	}
	a.callSpan.End(trace.WithTimestamp(end))
	a.callSpan, a.callText, a.callEnd = nil, nil, time.Time{}
}

// traceAnswer adds the text of the answer to the span of its call. If that panics, the span has none.
func (a *account) traceAnswer() {
	defer panics.Recover(a.panicked, nil)
	said := a.callText.Answer()
	if said.Unread != "" {
		return
	}
	tracing.SetText(a.traced(context.Background()), a.callSpan, semconv.GenAIOutputMessagesKey, func() string { return outputMessages(said) })
	if said.Finish != "" {
		a.callSpan.SetAttributes(semconv.GenAIResponseFinishReasons(tracing.Clean(said.Finish)))
	}
}

// nameModel records the model that an answer names.
func (a *account) nameModel() {
	if a.callSpan == nil {
		return
	}
	if model := a.reader.ServedBy().Model; model != "" {
		a.callSpan.SetAttributes(semconv.GenAIResponseModel(shortModel(model)))
	}
}

// The attributes of our own.
const (
	keyID         = attribute.Key("sidenote.id")
	keyRequestID  = attribute.Key("sidenote.request_id")
	keyUpstreamID = attribute.Key("sidenote.upstream_request_id")
	keyTenant     = attribute.Key("sidenote.tenant")
	keyPolicy     = attribute.Key("sidenote.policy")
	keyUpstream   = attribute.Key("sidenote.upstream")
	keyPurpose    = attribute.Key("sidenote.purpose")
	keyMode       = attribute.Key("sidenote.mode")
	keyOutcome    = attribute.Key("sidenote.outcome")
	keyReason     = attribute.Key("sidenote.reason")
	keyClient     = attribute.Key("sidenote.client")
	keySources    = attribute.Key("sidenote.sources")
	keyTokens     = attribute.Key("sidenote.context_tokens")
)

// endTrace ends the span of a request, whose Report is complete.
func (a *account) endTrace() {
	r := &a.report
	end := r.Time.Add(r.Total)
	if a.callSpan != nil && r.Truncated {
		tracing.Fail(a.callSpan, "truncated")
	}
	a.endCall(end)
	if a.span == nil {
		return
	}
	a.span.SetAttributes(semconv.HTTPResponseStatusCode(r.Status), keyID.String(r.ID), keyOutcome.String(string(r.Outcome)), keyClient.String(string(r.Client)),
		keySources.Int(r.Sources()), keyTokens.Int(r.Rewrite.Ledger.Used))
	for _, text := range [...]attribute.KeyValue{
		keyTenant.String(r.Tenant), keyPolicy.String(r.Policy), keyUpstream.String(r.Upstream), keyMode.String(r.Mode),
		keyReason.String(string(r.Reason)), keyRequestID.String(r.RequestID),
	} {
		if text.Value.AsString() != "" {
			a.span.SetAttributes(text)
		}
	}
	switch {
	case r.Truncated:
		tracing.Fail(a.span, "truncated")
	case r.Status >= 500 && r.Reason != "":
		tracing.Fail(a.span, string(r.Reason))
	case r.Status >= 500:
		tracing.Fail(a.span, strconv.Itoa(r.Status))
	}
	a.span.End(trace.WithTimestamp(end))
}

// pathOf returns the path of a route below the API's base; "" if it has none of its own.
func pathOf(k route.Kind) string {
	switch k {
	case route.Chat:
		return "/chat/completions"
	case route.InputTokens:
		return "/responses/input_tokens"
	case route.Compact:
		return "/responses/compact"
	case route.CountTokens:
		return "/messages/count_tokens"
	case route.Completions, route.Responses, route.Messages, route.Embeddings, route.Moderations, route.Models:
		return "/" + string(k)
	}
	return ""
}

// operationOf returns the operation of a call on a route; empty if there is no name for it.
func operationOf(k route.Kind) attribute.KeyValue {
	switch k {
	case route.Chat, route.Responses, route.Messages:
		return semconv.GenAIOperationNameChat
	case route.Completions:
		return semconv.GenAIOperationNameTextCompletion
	case route.Embeddings:
		return semconv.GenAIOperationNameEmbeddings
	}
	return attribute.KeyValue{}
}

// providerOf returns the provider of an upstream by its host or, if that is unknown, the one whose
// API it speaks.
func providerOf(at *url.URL, k route.Kind) attribute.KeyValue {
	host := "." + strings.ToLower(at.Hostname())
	for _, known := range [...]struct {
		domain   string
		provider attribute.KeyValue
	}{
		{".anthropic.com", semconv.GenAIProviderNameAnthropic}, {".azure.com", semconv.GenAIProviderNameAzureAIOpenAI},
		{".amazonaws.com", semconv.GenAIProviderNameAWSBedrock}, {".generativelanguage.googleapis.com", semconv.GenAIProviderNameGCPGemini},
		{".googleapis.com", semconv.GenAIProviderNameGCPVertexAI}, {".mistral.ai", semconv.GenAIProviderNameMistralAI},
		{".deepseek.com", semconv.GenAIProviderNameDeepseek}, {".groq.com", semconv.GenAIProviderNameGroq}, {".x.ai", semconv.GenAIProviderNameXAI},
		{".perplexity.ai", semconv.GenAIProviderNamePerplexity}, {".cohere.com", semconv.GenAIProviderNameCohere},
	} {
		if strings.HasSuffix(host, known.domain) {
			return known.provider
		}
	}
	if k == route.Messages {
		return semconv.GenAIProviderNameAnthropic
	}
	return semconv.GenAIProviderNameOpenAI
}
