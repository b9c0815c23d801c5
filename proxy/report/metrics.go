package report

import (
	"cmp"
	"math"
	"math/bits"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidenote/proxy/audit"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// OtherName is the label value for every name that is not configured.
const OtherName = "other"

// MetricNames are the allowed values of labels: configured names, never text from a request. The last
// two fields say how much is exposed.
type MetricNames struct {
	Tenants   []string
	Policies  []string
	Upstreams []string
	Knowledge []string
	Stages    []string // stages of answers
	// Experiments are comparisons of two policies.
	Experiments []string
	Version     string
	Commit      string

	TenantSeries     TenantSeries
	NativeHistograms bool // histograms are native ones too, for scrapers that ask for them
}

// Metrics are Sidenote's Prometheus metrics. As a Recorder they count each request by its Report;
// other methods count events outside of requests. All methods are safe for concurrent use. Every
// label is a configured name or from a closed list, so requests cannot add series without limit.
type Metrics struct {
	registry  *prometheus.Registry
	tenants   *tenantNames
	upstreams *names

	requests, untouched, degraded, shed *prometheus.CounterVec
	inFlight, streams                   prometheus.Gauge
	overhead, stages, durations         *prometheus.HistogramVec
	responses                           *prometheus.CounterVec
	contextTokens, contextSources       prometheus.Observer
	tokens, excluded, chunks            *prometheus.CounterVec
	planned, reranked, graded           *prometheus.CounterVec
	citations, citationsUnread          *prometheus.CounterVec
	support                             prometheus.Observer
	modelUnknown, panics                prometheus.Counter
	audited                             *prometheus.CounterVec
	recorded                            *prometheus.CounterVec
	byRequest                           recentSeries[requestKey, *requestSeries]
	fixed                               fixed

	upstreamMetrics upstreamMetrics
	*cacheMetrics
	baseMetrics
	embeddingMetrics
	mcpMetrics
	usageMetrics
	promptMetrics
	toolMetrics
	answerStageMetrics
	*cacheGuards
	experimentMetrics
}

// NewMetrics returns metrics in a new registry. See startAtZero for the series that exist from the
// start.
func NewMetrics(n MetricNames) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	f := factory{promauto.With(m.registry), n.NativeHistograms}
	overflow := f.counters("metrics_overflow_total", "Label values without a configured name, counted as other.").WithLabelValues()
	m.tenants, m.upstreams = newTenantNames(n.Tenants, overflow, n.TenantSeries), newNames(n.Upstreams, overflow)
	m.requests = f.counters("requests_total", "Requests that ended.", "tenant", "outcome")
	m.untouched = f.counters("untouched_total", "Chats sent without sources, by reason.", "reason")
	m.degraded = f.counters("degraded_total", "Requests that continued without a failed helper.", "stage", "reason")
	m.shed = f.counters("shed_total", "Work refused to protect the rest.", "reason")
	m.inFlight = f.gauges("requests_in_flight", "Requests being served, streams included.").WithLabelValues()
	m.streams = f.gauges("streams_open", "Streamed answers in progress.").WithLabelValues()
	m.overhead = f.histograms("overhead_seconds", "From request read to request sent to the upstream.", overheadBuckets(), "outcome")
	m.stages = f.histograms("stage_duration_seconds", "Duration of one step of a rewrite.", overheadBuckets(), "stage")
	m.durations = f.histograms("request_duration_seconds", "From request read to end of the answer.", durationBuckets(), "route", "stream")
	m.responses = f.counters("responses_total", "Answers to clients, by class of their status.", "tenant", "class")
	m.upstreamMetrics = newUpstreamMetrics(f)
	m.contextTokens = f.histograms("context_tokens", "Tokens added to an injected request.", []float64{0, 100, 250, 500, 1000, 1500, 2000, 3000, 4000, 8000, 16000, 32000}).WithLabelValues()
	m.contextSources = f.histograms("context_sources", "Sources added to an injected request.", []float64{0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20}).WithLabelValues()
	m.tokens = f.counters("tokens_total", "Tokens by kind: injected by Sidenote, others as reported by upstreams.", "tenant", "kind")
	m.excluded = f.counters("sources_excluded_total", "Candidates that did not reach the prompt.", "reason")
	m.chunks = f.counters("chunks_total", "Typed chunks of requests: in, or why they were excluded.", "result")
	m.reranked = f.counters("reranks_total", "Chats with a reranker, by result.", "reason")
	m.graded = f.counters("grades_total", "Chats with grading, by result and verdict.", "reason", "verdict")
	m.planned = f.counters("plans_total", "Chats with a planner, by result.", "reason")
	m.citations = f.counters("citations_total", "Verified citations in answers: of a given source, or unknown.", "result")
	m.citationsUnread = f.counters("citations_unread_total", "Answers whose citations could not be checked.", "reason")
	m.support = f.histograms("citation_support", "Per cited source: the share of the citing statement's terms that it contains.", []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}).WithLabelValues()
	m.modelUnknown = f.counters("model_unknown_total", "Chats for models not in the model table.").WithLabelValues()
	m.recorded = f.counters("records_total", "Chats to be recorded, by what became of their records: written, dropped (the disk is slow) or failed.", "policy", "result")
	m.audited = f.counters("audit_events_total", "Changes, refused tokens and readings of requests, as in the audit.", "action", "result")
	m.panics = f.counters("panics_total", "Panics, each costing one request or task; the log has their stacks.").WithLabelValues()
	m.cacheMetrics = newCacheMetrics(f)
	m.baseMetrics = newBaseMetrics(f, newNames(n.Knowledge, overflow))
	m.embeddingMetrics = newEmbeddingMetrics(f)
	m.mcpMetrics = newMCPMetrics(f, m.tenants)
	m.usageMetrics = newUsageMetrics(f, m.upstreams)
	m.promptMetrics = newPromptMetrics(f, m.tenants, newNames(n.Policies, overflow))
	m.toolMetrics = newToolMetrics(f)
	m.answerStageMetrics = newAnswerStageMetrics(f, newNames(n.Stages, overflow))
	m.experimentMetrics = newExperimentMetrics(f, newNames(n.Experiments, overflow))
	m.cacheGuards = newCacheGuards(m.upstreams)
	m.registry.MustRegister(m.cacheGuards)
	m.fixed = newFixed(m.stages, m.excluded)
	build := f.gauges("build_info", "Always 1; the labels say what runs.", "version", "commit", "goversion")
	build.WithLabelValues(n.Version, n.Commit, runtime.Version()).Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startAtZero(n)
	return m
}

// startAtZero creates series before their first event, so that rates and alerts work from the
// first scrape.
func (m *Metrics) startAtZero(n MetricNames) {
	m.startTenants(n.Tenants)
	for _, action := range audit.Actions() {
		m.audited.WithLabelValues(string(action), string(audit.OK))
		m.audited.WithLabelValues(string(action), string(audit.Refused))
	}
	for _, reason := range [...]string{"concurrency", "memory", "shadow", "calibration", "usage", "connections", "address", "idle", "descriptors"} {
		m.shed.WithLabelValues(reason)
	}
}

func (m *Metrics) startTenants(tenants []string) {
	if !m.tenants.all() {
		return
	}
	for _, t := range tenants {
		m.requests.WithLabelValues(t, string(rewrite.Injected))
		m.responses.WithLabelValues(t, "5xx")
		m.tokens.WithLabelValues(t, "injected")
		for _, kind := range tokenKinds {
			m.tokens.WithLabelValues(t, kind)
		}
	}
}

// Registry returns the registry of the metrics, for adding others. Gather is for serving them.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Watch registers a value that is read at each scrape, such as "log_dropped_total" or
// "cache_bytes" with labels. Call it at the start of the process; it panics if the name is taken.
func (m *Metrics) Watch(name, help string, labels map[string]string, counter bool, value func() float64) {
	opts := prometheus.Opts{Namespace: "sidenote", Name: name, Help: help, ConstLabels: labels}
	if counter {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts(opts), value))
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts), value))
}

// Record counts a finished request.
func (m *Metrics) Record(r *Report) {
	m.tenants.requested(r.Tenant)
	t := m.seriesFor(r)
	t.requests.Inc()
	t.responses.Inc()
	r.observe(t.duration, r.Total.Seconds())
	if t.untouched != nil {
		t.untouched.Inc()
	}
	if r.Overhead > 0 {
		t.answers.Inc()
		r.observe(t.overhead, r.Overhead.Seconds())
		m.recordUpstream(t.upstream, r)
		m.recordCalls(t, r)
	}
	if r.UsageFound != "" {
		m.recordUsage(t, r)
	}
	if r.Route.Rewritten() {
		m.recordRewrite(t, r)
		m.recordPrompt(r)
		m.recordExperiment(&r.Experiment)
		if why := r.CacheMiss.Reason; why != "" {
			m.misses.WithLabelValues(m.upstreams.label(r.Upstream), string(why)).Inc()
		}
	}
}

// recordUpstream counts retries, clients that left and broken answers.
func (m *Metrics) recordUpstream(upstream string, r *Report) {
	m.recordRetry(upstream, r)
	switch r.Client {
	case ClientGoneFirst:
		m.upstreamMetrics.cancelled.WithLabelValues(upstream, "before_first_byte").Inc()
	case ClientGoneStreaming:
		m.upstreamMetrics.cancelled.WithLabelValues(upstream, "streaming").Inc()
	}
	if r.Truncated {
		m.upstreamMetrics.truncated.WithLabelValues(upstream, "streaming").Inc()
	} else if r.Reason == ReasonUpstreamBroken {
		m.upstreamMetrics.truncated.WithLabelValues(upstream, "before_first_byte").Inc()
	}
}

func (m *Metrics) recordRewrite(t *requestSeries, r *Report) {
	res := &r.Rewrite
	if r.Degraded() {
		m.degraded.WithLabelValues("retrieval", string(res.Reason)).Inc()
	}
	if why := res.Ledger.EmbedFailure; why != "" {
		m.degraded.WithLabelValues(string(retrieval.StageEmbed), string(why)).Inc()
	}
	if why := r.PlanFailed(); why != "" {
		m.degraded.WithLabelValues("planner", string(why)).Inc()
	}
	if p := res.Ledger.Planned; p != nil {
		m.planned.WithLabelValues(string(p.Fallback)).Inc()
		if p.Fallback != retrieval.PlanDisabled {
			m.stages.WithLabelValues("plan").Observe(p.Took.Seconds())
		}
	}
	if why := r.RerankFailed(); why != "" {
		m.degraded.WithLabelValues(string(retrieval.StageRerank), string(why)).Inc()
	}
	if why := r.StageFailed(); why != "" {
		m.degraded.WithLabelValues("stages", string(why)).Inc()
	}
	if by := res.Ledger.Reranked; by != nil {
		m.reranked.WithLabelValues(string(by.Reason)).Inc()
		if by.Documents > 0 && by.Reason != retrieval.RerankDisabled {
			m.stages.WithLabelValues(string(retrieval.StageRerank)).Observe(by.Took.Seconds())
		}
	}
	recordGraded(m, r)
	recordCitations(m, r.Citations)
	m.recordTools(r)
	m.recordStages(r)
	if c := res.Ledger.Chunks; c != nil {
		m.chunks.WithLabelValues("in").Add(float64(c.In))
		for i := range c.Excluded {
			m.chunks.WithLabelValues(string(c.Excluded[i].Reason)).Inc()
		}
	}
	if res.Model.Row == OtherName {
		m.modelUnknown.Inc()
	}
	observeStage(m.fixed.retrieval, res.RetrieveTook)
	observeStage(m.fixed.fit, res.FitTook)
	observeStage(m.fixed.edit, res.EditTook)
	m.recordExcluded(&res.Retrieval.Excluded)
	if r.Injected() {
		sources := r.Sources()
		m.contextTokens.Observe(float64(res.Ledger.Used))
		m.contextSources.Observe(float64(sources))
		t.injected.Add(float64(max(res.Ledger.Grown(), 0)))
		if unfit := len(res.Retrieval.Sources) - sources; unfit > 0 {
			m.fixed.unfit().Add(float64(unfit))
		}
	}
}

// recordExcluded counts excluded candidates by reason.
func (m *Metrics) recordExcluded(list *retrieval.ExcludedList) {
	for i, n := range list.Counts() {
		if n > 0 {
			m.fixed.excluded[i]().Add(float64(n))
		}
	}
}

func observeStage(stage func() prometheus.Observer, took time.Duration) {
	if took > 0 {
		stage().Observe(took.Seconds())
	}
}

// Begin adds one to the requests in flight.
func (m *Metrics) Begin() { m.inFlight.Inc() }

// End subtracts a request that Begin added.
func (m *Metrics) End() { m.inFlight.Dec() }

// BeginStream adds one to the open streams.
func (m *Metrics) BeginStream() { m.streams.Inc() }

// EndStream subtracts a stream that BeginStream added.
func (m *Metrics) EndStream() { m.streams.Dec() }

// Shed counts refused work by the exhausted resource: "concurrency" or "memory" for requests,
// "shadow", "calibration" or "usage" for background work, "connections", "address", "idle" or
// "descriptors" for connections.
func (m *Metrics) Shed(reason string) { m.shed.WithLabelValues(reason).Inc() }

// Recorded counts a chat of a policy that is recorded, by the result.
func (m *Metrics) Recorded(policy, result string) { m.recorded.WithLabelValues(policy, result).Inc() }

// Audited counts an event of the audit.
func (m *Metrics) Audited(action audit.Action, result audit.Result) {
	m.audited.WithLabelValues(string(action), string(result)).Inc()
}

// Panicked counts a recovered panic.
func (m *Metrics) Panicked(any, []byte) { m.panics.Inc() }

// outcomeLabel returns the outcome as dashboards show it: "degraded" for a request that continued
// without a failed helper, and the reason for a refusal.
func outcomeLabel(r *Report) string {
	switch {
	case r.Outcome == rewrite.Refused:
		return "refused_" + strings.ReplaceAll(string(r.Reason), "-", "_")
	case r.Result() == Failed:
		return string(Failed)
	case r.Degraded() && (r.Outcome == rewrite.Injected || r.Outcome == rewrite.Untouched || r.Outcome == WithTools || r.Outcome == Staged):
		return "degraded"
	}
	return string(r.Outcome)
}

func codeLabel(code int) string {
	switch {
	case code == 0:
		return "none"
	case http.StatusText(code) == "":
		return OtherName // an upstream may send any three digits
	}
	return strconv.Itoa(code)
}

// answerStageMetrics count the stages of answers. They have no series before the first chat that
// is to be answered in stages.
type answerStageMetrics struct {
	names                     *names
	ended, unstaged, tokensBy *prometheus.CounterVec
	took                      *prometheus.HistogramVec
}

// newAnswerStageMetrics limits the label stage to the names in stages.
func newAnswerStageMetrics(f factory, stages *names) answerStageMetrics {
	return answerStageMetrics{
		names:    stages,
		ended:    f.counters("answer_stages_total", "Stages of answers, by outcome.", "stage", "outcome"),
		took:     f.histograms("answer_stage_duration_seconds", "Duration of one stage of an answer.", []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}, "stage"),
		tokensBy: f.counters("answer_stage_tokens_total", "Tokens reported for stages.", "stage", "direction"),
		unstaged: f.counters("unstaged_total", "Chats not answered in stages despite their policy.", "reason"),
	}
}

// recordStages counts the stages of a chat by outcome.
func (m *answerStageMetrics) recordStages(r *Report) {
	if r.StagesSkipped != "" {
		m.unstaged.WithLabelValues(r.StagesSkipped).Inc()
	}
	if r.Stages == nil {
		return
	}
	for i := range r.Stages.Called {
		s := &r.Stages.Called[i]
		stage := m.names.label(s.Name)
		m.ended.WithLabelValues(stage, string(s.Outcome)).Inc()
		if s.Calls == 0 { // its output came from the cache, or nothing was sent
			continue
		}
		m.took.WithLabelValues(stage).Observe(s.Took.Seconds())
		m.tokensBy.WithLabelValues(stage, "input").Add(float64(max(s.Usage.Input, 0)))
		m.tokensBy.WithLabelValues(stage, "output").Add(float64(max(s.Usage.Output, 0)))
	}
}

// toolMetrics count tool calls by models. They have no series before the first chat that is
// offered tools.
type toolMetrics struct {
	calls, unoffered *prometheus.CounterVec
	took             *prometheus.HistogramVec
	rounds, results  *prometheus.HistogramVec // without labels
}

func newToolMetrics(f factory) toolMetrics {
	return toolMetrics{
		calls:     f.counters("tool_calls_total", "Tool calls by models, by outcome.", "tool", "outcome"),
		unoffered: f.counters("tools_unoffered_total", "Chats whose model was offered no tools though their policy has them.", "reason"),
		took:      f.histograms("tool_call_duration_seconds", "Time of one call of a tool.", overheadBuckets(), "tool"),
		rounds:    f.histograms("tool_rounds", "Calls of the upstream for one chat whose model was offered tools.", []float64{1, 2, 3, 4, 5, 6, 8, 10, 15, 20}),
		results:   f.histograms("tool_result_tokens", "Tokens per tool result.", []float64{0, 100, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000}),
	}
}

// recordTools counts the tool calls of a chat.
func (m *toolMetrics) recordTools(r *Report) {
	if r.ToolsSkipped != "" {
		m.unoffered.WithLabelValues(r.ToolsSkipped).Inc()
	}
	t := r.Tools
	if t == nil || t.Rounds == 0 { // the upstream has not answered
		return
	}
	m.rounds.WithLabelValues().Observe(float64(t.Rounds))
	for i := range t.Calls {
		c := &t.Calls[i]
		tool := cmp.Or(c.Name, OtherName)
		m.calls.WithLabelValues(tool, string(c.Outcome)).Inc()
		m.results.WithLabelValues().Observe(float64(c.Tokens))
		if c.Took > 0 { // the call was made
			m.took.WithLabelValues(tool).Observe(c.Took.Seconds())
		}
	}
}

// A requestKey holds what selects the series that count a request. Nearly all requests share a few
// keys.
type requestKey struct {
	tenant   string
	route    route.Kind
	stream   bool
	outcome  rewrite.Outcome
	injected bool
	degraded bool
	reason   rewrite.Reason // of a refused or untouched request, else ""
	told     bool           // the answer could report usage
	class    int            // first digit of the status of the answer to the client

	sent     bool   // to the upstream; if false, the next three are zero
	upstream string // name of the upstream
	model    string // row of the model table
	code     int    // status of its answer
}

func requestKeyOf(r *Report) requestKey {
	k := requestKey{tenant: r.Tenant, route: r.Route, stream: r.Stream, outcome: r.Outcome, injected: r.Injected(), degraded: r.Degraded(), told: r.UsageFound != "", class: r.Status / 100}
	if r.Outcome == rewrite.Refused || r.Outcome == rewrite.Untouched {
		k.reason = r.Reason
	}
	if r.Overhead > 0 {
		k.sent, k.upstream, k.model, k.code = true, r.Upstream, r.Model(), r.UpstreamStatus()
	}
	return k
}

// A requestSeries holds the series that count the requests with one key.
type requestSeries struct {
	tenant    string // the label
	requests  prometheus.Counter
	responses prometheus.Counter
	duration  prometheus.Observer
	untouched prometheus.Counter // nil unless the outcome is untouched
	injected  prometheus.Counter // of tokens; nil unless a chat got sources
	used      tokenCounters      // nil unless the answer could report usage

	upstream string // the label; this and the next three are zero if nothing was sent
	answers  prometheus.Counter
	overhead prometheus.Observer
	calls    callSeries
}

// recentSeries caches series by key, since finding them by their labels costs more than counting:
// recording a relayed request takes 0.4 µs with it and 1.7 without, a chat 0.6 and 2.2
// (BenchmarkRecord), and without it requests contend for locks.
type recentSeries[K comparable, V any] struct {
	table retrieval.Recent[series[K, V]]
}

type series[K comparable, V any] struct {
	of K
	v  V
}

// get returns the series of a key. If it is not cached, find looks it up by its labels, and says
// whether to cache it.
func (s *recentSeries[K, V]) get(of K, find func() (v V, remember bool)) V {
	hash := retrieval.Hash(of)
	if r := s.table.At(hash); r != nil && r.of == of {
		return r.v
	}
	v, remember := find()
	if remember {
		s.table.Put(hash, &series[K, V]{of, v})
	}
	return v
}

// seriesFor returns the series that count r.
func (m *Metrics) seriesFor(r *Report) *requestSeries {
	k := requestKeyOf(r)
	k.tenant = m.tenants.key(r.Tenant)
	return m.byRequest.get(k, func() (*requestSeries, bool) { return m.findSeries(r, &k) })
}

// findSeries looks up the series of r. Those of unconfigured names and unknown status codes are
// not cached, as each use of such a name is counted.
func (m *Metrics) findSeries(r *Report, k *requestKey) (t *requestSeries, remember bool) {
	outcome := outcomeLabel(r)
	t = new(requestSeries)
	t.tenant, remember = m.tenants.labelOf(r.Tenant, k.tenant)
	t.requests = m.requests.WithLabelValues(t.tenant, outcome)
	t.responses = m.responses.WithLabelValues(t.tenant, statusClass(r.Status))
	t.duration = m.durations.WithLabelValues(string(r.Route), strconv.FormatBool(r.Stream))
	switch {
	case r.Outcome == rewrite.Untouched:
		t.untouched = m.untouched.WithLabelValues(string(r.Reason))
	case r.Injected() && r.Route.Rewritten():
		t.injected = m.tokens.WithLabelValues(t.tenant, "injected")
	}
	for i, kind := range tokenKinds {
		if k.told {
			t.used[i] = m.tokens.WithLabelValues(t.tenant, kind)
		}
	}
	if k.sent {
		code := codeLabel(r.UpstreamStatus())
		t.upstream = m.upstreams.label(r.Upstream)
		t.answers = m.upstreamMetrics.requests.WithLabelValues(t.upstream, code)
		t.overhead = m.overhead.WithLabelValues(outcome)
		t.calls = m.upstreamMetrics.callsOf(t.upstream, k.model)
		_, known := (*m.upstreams.known.Load())[r.Upstream]
		remember = remember && known && code != OtherName
	}
	return t, remember
}

// fixed holds the series whose labels are constants. Each is created at its first use, so that
// events that never happened have no series.
type fixed struct {
	retrieval, fit, edit func() prometheus.Observer
	excluded             [retrieval.NumExcludeReasons]func() prometheus.Counter // in the order of retrieval.ExcludeReasons
	unfit                func() prometheus.Counter                              // of sources_excluded_total: sources that did not fit into the token budget
}

func newFixed(stages *prometheus.HistogramVec, excluded *prometheus.CounterVec) fixed {
	stage := func(name string) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return stages.WithLabelValues(name) })
	}
	by := func(reason retrieval.ExcludeReason) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return excluded.WithLabelValues(string(reason)) })
	}
	f := fixed{retrieval: stage("retrieval"), fit: stage("fit"), edit: stage("edit"), unfit: by("fit")}
	for i, reason := range retrieval.ExcludeReasons() {
		f.excluded[i] = by(cmp.Or(reason, OtherName))
	}
	return f
}

const (
	// parts is the number of buckets per power of two from 2⁴ µs on. Below that, each microsecond
	// has its own bucket.
	parts = 16
	// longest caps the durations, in microseconds: 19 hours.
	longest = 1<<36 - 1
	buckets = 33 * parts
)

// A Histogram counts durations in buckets that get wider with the duration, as HdrHistogram (Gil
// Tene) does: quantiles have a relative error of at most 1/32. It takes 2 KiB and is not safe for
// concurrent use. The zero value is empty.
type Histogram struct {
	counts [buckets]uint32
	n      uint64
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.n++
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// Count returns the number of durations added.
func (h *Histogram) Count() int { return int(h.n) }

// Quantile returns the q-quantile by the nearest-rank method, as the middle of its bucket; 0 if
// the histogram is empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(h.n)))
	rank = max(rank, 1)
	for i, n := range h.counts {
		if rank <= uint64(n) {
			return middle(i)
		}
		rank -= uint64(n)
	}
	panic("BUG: fewer durations in buckets than were counted")
}

func bucketOf(d time.Duration) int {
	us := uint64(min(max(d.Microseconds(), 0), longest))
	if us < 2*parts {
		return int(us)
	}
	shift := bits.Len64(us) - 5 // leaves a number from parts to 2*parts-1
	return shift*parts + int(us>>shift)
}

// middle returns the middle of a bucket.
func middle(i int) time.Duration {
	if i < 2*parts {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/parts - 1
	low := uint64(i-shift*parts) << shift
	return time.Duration(low+1<<shift/2) * time.Microsecond
}
