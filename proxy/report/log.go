package report

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// LogVerbosity says which requests get a line in the log.
type LogVerbosity string

// The verbosities of the request log.
const (
	LogAll    LogVerbosity = "all"
	LogErrors LogVerbosity = "errors" // status 400 and above, truncated answers, clients that left
	LogNone   LogVerbosity = "none"
)

// repeatEvery is the interval at which an ongoing degradation is logged again, with a count.
const repeatEvery = time.Minute

// A Log writes one wide line per request: ids and numbers, never a body, a query or a secret. A
// degradation is logged once as a warning and then once a minute with a count. That a route is
// relayed unchanged is logged once per route. Logger should write to an AsyncWriter, as Record is
// called while requests are served.
type Log struct {
	Logger   *slog.Logger
	Requests LogVerbosity // "" means LogAll
	// Lines receives each request's line in one write, in the format of slog's JSON handler but at
	// a fraction of its cost.
	Lines io.Writer

	texts sync.Pool // of *[]byte, each for one line

	noted   sync.Map // routes already logged as relayed unchanged
	mu      sync.Mutex
	ongoing map[degradation]*recurrence
}

// A degradation is a failed stage and the reason.
type degradation struct {
	stage  string
	reason rewrite.Reason
}

// A recurrence counts how often a degradation occurred since it was last logged.
type recurrence struct {
	count int
	timer *time.Timer
}

// Record writes r's line, and logs the degradations of r and a route that is relayed unchanged.
func (l *Log) Record(r *Report) {
	if r.Degraded() {
		l.degraded(degradation{"retrieval", r.Rewrite.Reason})
	}
	if why := r.PlanFailed(); why != "" {
		l.degraded(degradation{"planner", rewrite.Reason(why)})
	}
	if why := r.RerankFailed(); why != "" {
		l.degraded(degradation{"rerank", rewrite.Reason(why)})
	}
	if why := r.GradeFailed(); why != "" {
		l.degraded(degradation{"grade", rewrite.Reason(why)})
	}
	if why := r.StageFailed(); why != "" {
		l.degraded(degradation{"stages", rewrite.Reason(why)})
	}
	if r.Reason == rewrite.ReasonRoute && r.Route.Generates() {
		l.note(r.Route)
	}
	if l.Requests.Wants(r) {
		l.writeLine(r)
	}
}

func (l *Log) writeLine(r *Report) {
	text, _ := l.texts.Get().(*[]byte)
	if text == nil {
		text = new([]byte)
	}
	*text = appendLine((*text)[:0], r)
	_, _ = l.Lines.Write(*text) // a failing log cannot be reported anywhere else
	transport.PoisonBuffer(*text)
	l.texts.Put(text)
}

// Wants reports whether a request gets a line.
func (v LogVerbosity) Wants(r *Report) bool {
	switch v {
	case LogNone:
		return false
	case LogErrors:
		return r.Status >= 400 || r.Truncated || r.Client != ClientCompleted
	}
	return true
}

// note logs once per route that it is relayed unchanged.
func (l *Log) note(r route.Kind) {
	if _, said := l.noted.LoadOrStore(r, true); !said {
		l.Logger.Info("route relayed unchanged; sources go to /chat/completions, /responses, /messages (once per route)", "route", string(r))
	}
}

// degraded logs d at once if it did not occur within the last minute, and otherwise counts it for
// the next line.
func (l *Log) degraded(d degradation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.ongoing[d]; o != nil {
		o.count++
		return
	}
	if l.ongoing == nil {
		l.ongoing = make(map[degradation]*recurrence)
	}
	o := &recurrence{}
	o.timer = panics.AfterFunc(l.panicked, repeatEvery, func() { l.repeat(d) })
	l.ongoing[d] = o
	l.Logger.Warn("degraded: requests go on without it", "stage", d.stage, "reason", string(d.reason))
}

func (l *Log) panicked(value any, stack []byte) {
	l.Logger.Error("BUG: panic", "panic", panics.Describe(value), "stack", string(stack))
}

func (l *Log) repeat(d degradation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ongoing[d]
	if o == nil {
		return // closed
	}
	if o.count == 0 {
		delete(l.ongoing, d)
		return
	}
	l.Logger.Warn("still degraded", "stage", d.stage, "reason", string(d.reason), "requests", o.count)
	o.count = 0
	o.timer.Reset(repeatEvery)
}

// Close logs the remaining counts and stops the timers.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, o := range l.ongoing {
		o.timer.Stop()
		if o.count > 0 {
			l.Logger.Warn("still degraded", "stage", d.stage, "reason", string(d.reason), "requests", o.count)
		}
	}
	l.ongoing = nil
}

// appendLine appends r's log line in the format of slog's JSON handler. Its time is the end of the
// answer. The handler itself would save a third of the code below, but takes 11.7 µs and 11
// allocations a line instead of 0.9 µs and none: 8 % of the CPU time of a 20 KB chat, and 17 % of
// embeddings that are passed through.
func appendLine(dst []byte, r *Report) []byte {
	ledger := &r.Rewrite.Ledger
	b := append(dst, `{"time":"`...)
	b = r.Time.Add(r.Total).AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"request","id":"`...)
	b = append(append(b, r.ID...), '"')
	b = appendText(append(appendIDs(b, r), `,"tenant":`...), r.Tenant)
	b = append(append(b, `,"by":"`...), r.By...)
	b = appendText(append(b, `","key":`...), r.Key)
	b = append(append(b, `,"denied":"`...), r.Denied...)
	b = appendText(append(b, `","policy":`...), r.Policy)
	b = append(append(b, `,"policy_hash":"`...), r.PolicyHash...)
	b = append(b, '"')
	if e := &r.Experiment; e.Name != "" {
		b = appendText(append(b, `,"experiment":`...), e.Name)
		b = append(append(append(b, `,"arm":"`...), e.Arm...), '"')
	}
	b = appendText(append(b, `,"upstream":`...), r.Upstream)
	b = append(append(append(b, `,"route":"`...), r.Route...), '"')
	if api := r.API(); api != "" {
		b = append(append(append(b, `,"api":"`...), api...), '"')
	}
	b = appendText(append(b, `,"model":`...), r.Model())
	b = strconv.AppendBool(append(b, `,"stream":`...), r.Stream)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(r.Status), 10)
	b = append(append(b, `,"outcome":"`...), r.Result()...)
	b = append(append(b, `","reason":"`...), r.Reason...)
	if r.SwitchedFrom != "" {
		b = append(append(b, `","switched_from":"`...), r.SwitchedFrom...)
	}
	if ledger.Background != "" {
		b = append(append(b, `","rule":"`...), ledger.Background...)
	}
	b = appendLoggedSources(append(b, '"'), r)
	b = appendLoggedStages(appendTools(b, r), r)
	b = append(append(b, `,"exact":"`...), ledger.Exactness...)
	b = append(append(b, `","cache":"`...), r.Rewrite.Retrieval.Cache...)
	if d := r.Rewrite.Retrieval.Degraded; d != "" {
		b = append(append(b, `","degraded":"`...), d...)
	}
	if why := ledger.EmbedFailure; why != "" {
		b = append(append(b, `","embed":"`...), why...)
	}
	b = appendLoggedPlan(append(b, '"'), ledger)
	b = appendLoggedGrade(appendLoggedRerank(b, ledger), ledger)
	if ledger.Late > 0 {
		b = strconv.AppendInt(append(b, `,"late":`...), int64(ledger.Late), 10)
	}
	b = appendKnowledge(b, r.Rewrite.Retrieval.Bases)
	b = appendMilliseconds(append(b, `,"overhead_ms":`...), r.Overhead)
	b = appendMilliseconds(append(b, `,"retrieval_ms":`...), r.Rewrite.RetrieveTook)
	b = appendMilliseconds(append(b, `,"ttfb_ms":`...), r.TTFB)
	b = appendMilliseconds(append(b, `,"duration_ms":`...), r.Total)
	b = appendLoggedCitations(appendCharged(appendUsage(b, r), &r.Budget), r.Citations)
	b = strconv.AppendBool(append(b, `,"truncated":`...), r.Truncated)
	b = appendUpstreamError(b, r)
	b = strconv.AppendBool(append(b, `,"retried":`...), r.Retried() || r.Refused != 0)
	if r.Refused != 0 {
		b = append(append(append(b, `,"refused_edits":"`...), r.Refused.String()...), '"')
	}
	if r.LeftOut != 0 {
		b = append(append(append(b, `,"left_out":"`...), r.LeftOut.String()...), '"')
	}
	b = append(b, `,"address":"`...)
	if r.Address.IsValid() {
		b = r.Address.AppendTo(b)
	}
	b = append(append(b, `","client":"`...), r.Client...)
	return append(b, "\"}\n"...)
}

// appendIDs appends the ids under which others know the request.
func appendIDs(b []byte, r *Report) []byte {
	if r.TraceID.IsValid() {
		b = append(hex.AppendEncode(append(b, `,"trace_id":"`...), r.TraceID[:]), '"')
	}
	if r.RequestID != "" {
		b = append(append(append(b, `,"request_id":"`...), r.RequestID...), '"')
	}
	if id := r.upstreamID(); id != "" {
		b = append(append(append(b, `,"upstream_request_id":"`...), id...), '"')
	}
	return b
}

// appendLoggedSources appends what was added to a request: sources, typed chunks, and their tokens.
func appendLoggedSources(b []byte, r *Report) []byte {
	ledger := &r.Rewrite.Ledger
	b = strconv.AppendInt(append(b, `,"sources":`...), int64(r.Sources()), 10)
	b = strconv.AppendInt(append(b, `,"context_tokens":`...), int64(ledger.Used), 10)
	if again := ledger.Repeated; again != nil {
		b = strconv.AppendInt(append(b, `,"earlier_sources":`...), int64(len(again.Sources)), 10)
		b = strconv.AppendInt(append(b, `,"earlier_tokens":`...), int64(again.Tokens), 10)
	}
	if at := ledger.Placement; at != "" && at != rewrite.PlaceSystem {
		b = append(append(append(b, `,"placement":"`...), at...), '"')
	}
	if ledger.CacheMark != "" {
		b = append(append(append(b, `,"cache_mark":"`...), ledger.CacheMark...), '"')
	}
	b = strconv.AppendInt(append(b, `,"context_budget":`...), int64(ledger.Budget), 10)
	if a := ledger.Assembled; a != nil {
		b = strconv.AppendInt(append(b, `,"context_assembled":{"total_tokens":`...), int64(a.TotalTokens), 10)
		b = strconv.AppendInt(append(b, `,"components":`...), int64(a.Components), 10)
		b = append(strconv.AppendInt(append(b, `,"overflow":`...), int64(a.Overflow), 10), '}')
	}
	if c := ledger.Chunks; c != nil {
		b = strconv.AppendInt(append(b, `,"chunks":{"included":`...), int64(c.In), 10)
		b = strconv.AppendInt(append(b, `,"total":`...), int64(c.Total), 10)
		b = append(strconv.AppendInt(append(b, `,"token_count":`...), int64(c.Tokens), 10), '}')
	}
	return b
}

// appendKnowledge appends the searched bases, if any.
func appendKnowledge(b []byte, bases []retrieval.Ref) []byte {
	for i := range bases {
		if i == 0 {
			b = append(b, `,"knowledge":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(b, bases[i].Knowledge)
	}
	if len(bases) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendTools appends the counts of tool calls, or why no tools were offered. It leaves out the
// arguments, which may quote texts.
func appendTools(b []byte, r *Report) []byte {
	if r.ToolsSkipped != "" {
		b = append(append(append(b, `,"unoffered":"`...), r.ToolsSkipped...), '"')
	}
	t := r.Tools
	if t == nil {
		return b
	}
	b = strconv.AppendInt(append(b, `,"tools":{"rounds":`...), int64(t.Rounds), 10)
	b = strconv.AppendInt(append(b, `,"calls":`...), int64(t.Called()), 10)
	b = strconv.AppendInt(append(b, `,"tokens":`...), int64(t.Tokens), 10)
	b = strconv.AppendInt(append(b, `,"sources":`...), int64(len(t.Sources)), 10)
	b = strconv.AppendInt(append(b, `,"restored":`...), int64(t.Restored), 10)
	if t.TurnLoss != "" {
		b = append(append(append(b, `,"unkept":"`...), t.TurnLoss...), '"')
	}
	return append(b, '}')
}

// appendLoggedStages appends the outcome of a chat's stages as in Sidenote-Status, and the
// outcome, calls, time and tokens of each stage.
func appendLoggedStages(b []byte, r *Report) []byte {
	if r.StagesSkipped != "" {
		b = append(append(append(b, `,"unstaged":"`...), r.StagesSkipped...), '"')
	}
	s := r.Stages
	if s == nil {
		return b
	}
	b = strconv.AppendInt(append(b, `,"stages":{"of":`...), int64(s.Total), 10)
	switch last := s.Last(); {
	case last == nil || last.Outcome == StageOK:
	case last.Outcome.Failed():
		b = appendText(append(b, `,"failed":`...), last.Name)
		b = append(append(append(b, `,"failure":"`...), last.Outcome...), '"')
	default:
		b = appendText(append(append(append(b, `,"`...), last.Outcome...), `":`...), last.Name)
	}
	if s.Answer != "" {
		b = appendText(append(b, `,"answered":`...), s.Answer)
	}
	b = append(b, `,"called":[`...)
	for i := range s.Called {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendStage(b, &s.Called[i])
	}
	return append(b, "]}"...)
}

func appendStage(b []byte, s *Stage) []byte {
	b = appendText(append(b, `{"stage":`...), s.Name)
	b = append(append(b, `,"outcome":"`...), s.Outcome...)
	b = strconv.AppendInt(append(b, `","calls":`...), int64(s.Calls), 10)
	b = appendMilliseconds(append(b, `,"duration_ms":`...), s.Took)
	b = strconv.AppendInt(append(b, `,"input_tokens":`...), s.Usage.Input, 10)
	return append(strconv.AppendInt(append(b, `,"output_tokens":`...), s.Usage.Output, 10), '}')
}

// appendLoggedPlan appends the outcome of planning. It leaves out the queries, which quote users.
func appendLoggedPlan(b []byte, l *rewrite.Ledger) []byte {
	p := l.Planned
	if p == nil {
		return append(b, `,"planner":"`+PlannerOff+`"`...)
	}
	b = append(append(b, `,"planner":"`...), p.Fallback...)
	b = strconv.AppendInt(append(b, `","retrieval_query_count":`...), int64(p.Count), 10)
	b = strconv.AppendBool(append(b, `,"retrieval_query_planner_enabled":`...), p.Enabled)
	b = strconv.AppendBool(append(b, `,"retrieval_query_planner_applied":`...), p.Applied)
	b = appendText(append(b, `,"retrieval_query_planner_model_id":`...), ModelID(p))
	b = append(append(b, `,"retrieval_query_planner_fallback":"`...), p.Fallback...)
	return appendMilliseconds(append(b, `","plan_ms":`...), p.Took)
}

// appendLoggedRerank appends the outcome of reranking, if any.
func appendLoggedRerank(b []byte, l *rewrite.Ledger) []byte {
	r := l.Reranked
	if r == nil {
		return b
	}
	b = append(append(b, `,"rerank":"`...), r.Reason...)
	b = appendText(append(b, `","rerank_model":`...), r.Model)
	b = strconv.AppendInt(append(b, `,"rerank_documents":`...), int64(r.Documents), 10)
	return appendMilliseconds(append(b, `,"rerank_ms":`...), r.Took)
}

// appendLoggedGrade appends the outcome of grading, if any.
func appendLoggedGrade(b []byte, l *rewrite.Ledger) []byte {
	g := l.Graded
	if g == nil {
		return b
	}
	b = append(append(b, `,"grade":"`...), g.Reason...)
	b = append(append(b, `","verdict":"`...), g.Verdict...)
	b = appendText(append(b, `","grade_model":`...), g.Model)
	b = strconv.AppendInt(append(b, `,"grade_documents":`...), int64(g.Documents), 10)
	b = strconv.AppendInt(append(b, `,"grade_rounds":`...), int64(max(g.Rounds, 1)), 10)
	return appendMilliseconds(append(b, `,"grade_ms":`...), g.Took)
}

// appendLoggedCitations appends the counts of citations, if they were checked.
func appendLoggedCitations(b []byte, c *answer.CitationReport) []byte {
	if c == nil {
		return b
	}
	b = strconv.AppendInt(append(b, `,"citations":`...), int64(c.Times()), 10)
	b = strconv.AppendInt(append(b, `,"unknown_citations":`...), int64(c.Unknown), 10)
	if c.Unread != "" {
		b = append(append(append(b, `,"citations_unread":"`...), c.Unread...), '"')
	}
	return b
}

// appendUsage appends the token usage that the answer reported, if it could report any.
func appendUsage(b []byte, r *Report) []byte {
	if r.UsageFound == "" {
		return b
	}
	b = append(append(append(b, `,"usage":"`...), r.UsageFound...), '"')
	if r.UsageDetail != "" {
		b = appendText(append(b, `,"usage_detail":`...), r.UsageDetail)
	}
	b = strconv.AppendInt(append(b, `,"input_tokens":`...), r.Usage.Input, 10)
	b = strconv.AppendInt(append(b, `,"cached_input_tokens":`...), r.Usage.CachedInput, 10)
	if r.Usage.CacheWrite > 0 {
		b = strconv.AppendInt(append(b, `,"cache_write_tokens":`...), r.Usage.CacheWrite, 10)
	}
	if r.Usage.CacheWrite1h > 0 {
		b = strconv.AppendInt(append(b, `,"cache_write_1h_tokens":`...), r.Usage.CacheWrite1h, 10)
	}
	b = strconv.AppendInt(append(b, `,"output_tokens":`...), r.Usage.Output, 10)
	b = strconv.AppendInt(append(b, `,"reasoning_tokens":`...), r.Usage.Reasoning, 10)
	if r.Generated.Known {
		b = strconv.AppendInt(append(b, `,"counted_output_tokens":`...), r.Generated.Output, 10)
	}
	if r.CacheMiss.Reason != "" {
		b = append(append(append(b, `,"cache_miss":"`...), r.CacheMiss.Reason...), '"')
		b = strconv.AppendInt(append(b, `,"cache_missed_tokens":`...), r.CacheMiss.Tokens, 10)
	}
	return appendContext(b, &r.Context)
}

// appendContext appends what the usage has of the added tokens, if any.
func appendContext(b []byte, c *ContextUsage) []byte {
	if c.Input == 0 {
		return b
	}
	b = strconv.AppendInt(append(b, `,"context_input_tokens":`...), c.Input, 10)
	b = strconv.AppendInt(append(b, `,"context_cached_tokens":`...), c.CachedInput, 10)
	if c.CacheWrite > 0 {
		b = strconv.AppendInt(append(b, `,"context_cache_write_tokens":`...), c.CacheWrite, 10)
	}
	if c.CacheWrite1h > 0 {
		b = strconv.AppendInt(append(b, `,"context_cache_write_1h_tokens":`...), c.CacheWrite1h, 10)
	}
	if c.Priced {
		b = appendUSD(append(b, `,"context_usd":`...), budget.Money(c.Cost, nil))
	}
	return b
}

// appendUpstreamError appends how the last call failed that did, and the time limit that it exceeded.
func appendUpstreamError(b []byte, r *Report) []byte {
	for i := len(r.Calls) - 1; i >= 0; i-- {
		c := &r.Calls[i]
		if c.Error == "" {
			continue
		}
		b = append(append(append(b, `,"upstream_error":"`...), c.Error...), '"')
		if c.Limit > 0 {
			b = appendMilliseconds(append(b, `,"upstream_limit_ms":`...), c.Limit)
		}
		return b
	}
	return b
}

// appendCharged appends the charged amount in US dollars, if not zero, and the service tier, if
// its prices are not the standard ones.
func appendCharged(b []byte, of *Budget) []byte {
	if of.Tier != "" {
		b = appendText(append(b, `,"service_tier":`...), of.Tier)
	}
	if of.Charged.Money <= 0 {
		return b
	}
	return appendUSD(append(b, `,"charged_usd":`...), of.Charged.Money)
}

// appendUSD appends an amount, which is not negative, in US dollars.
func appendUSD(b []byte, money int64) []byte {
	b = append(strconv.AppendInt(b, money/budget.USD, 10), '.')
	var digits [20]byte
	fraction := strconv.AppendInt(digits[:0], budget.USD+money%budget.USD, 10)
	return append(b, fraction[1:]...) // fraction starts with a 1 that keeps the leading zeros
}

// appendMilliseconds appends d in milliseconds as encoding/json writes it.
func appendMilliseconds(dst []byte, d time.Duration) []byte {
	µs := d.Microseconds()
	if µs < 0 {
		dst, µs = append(dst, '-'), -µs
	}
	dst = strconv.AppendInt(dst, µs/1000, 10)
	fraction := µs % 1000
	if fraction == 0 {
		return dst
	}
	digits := [...]byte{'.', byte('0' + fraction/100), byte('0' + fraction/10%10), byte('0' + fraction%10)}
	return append(dst, bytes.TrimRight(digits[:], "0")...)
}

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(append(dst, '"'), s...)
	if Printable(dst[start+1:]) {
		return append(dst, '"')
	}
	text := new(bytes.Buffer)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic("BUG: a string did not encode: " + err.Error())
	}
	return append(dst[:start], bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}
