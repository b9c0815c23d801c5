package report

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidenote/cache/budget"
	"sidenote/retrieval"
)

// baseMetrics are the metrics of knowledge bases.
type baseMetrics struct {
	names                                 *names
	documents, chunks, bytes, lastSuccess *prometheus.GaugeVec
	embedded                              *prometheus.GaugeVec
	searches, files, neutralised          *prometheus.CounterVec
	fetches                               *prometheus.CounterVec
	fetchFailed, fetchedAt                *prometheus.GaugeVec
}

func newBaseMetrics(f factory, n *names) baseMetrics {
	return baseMetrics{
		names:       n,
		documents:   f.gauges("knowledge_documents", "Documents in a knowledge base.", "knowledge"),
		chunks:      f.gauges("knowledge_chunks", "Chunks in a knowledge base.", "knowledge"),
		embedded:    f.gauges("knowledge_embedded_chunks", "Chunks of a knowledge base that have a vector.", "knowledge"),
		bytes:       f.gauges("knowledge_bytes", "Bytes of text in a knowledge base.", "knowledge"),
		lastSuccess: f.gauges("knowledge_last_success_timestamp_seconds", "Time of the last complete read of a knowledge base, Unix time.", "knowledge"),
		fetches:     f.counters("knowledge_fetches_total", "Fetches of a knowledge base from elsewhere.", "knowledge", "result"),
		fetchFailed: f.gauges("knowledge_fetch_failed_files", "Files that the last fetch of a knowledge base could not get.", "knowledge"),
		fetchedAt:   f.gauges("knowledge_fetch_success_timestamp_seconds", "Time when the source of a knowledge base was last listed in full, Unix time.", "knowledge"),
		searches:    f.counters("knowledge_searches_total", "Searches of a knowledge base.", "knowledge", "result"),
		files:       f.counters("ingest_files_total", "Files seen by ingest.", "knowledge", "result"),
		neutralised: f.counters("tags_neutralised_total", "Look-alikes of Sidenote's tags, and tokens of chat templates, neutralised in documents.", "knowledge"),
	}
}

// Knowledge sets the figures of a base that was read completely at the given time.
func (m *baseMetrics) Knowledge(id string, documents, chunks int, bytes int64, at time.Time) {
	id = m.names.label(id)
	m.documents.WithLabelValues(id).Set(float64(documents))
	m.chunks.WithLabelValues(id).Set(float64(chunks))
	m.bytes.WithLabelValues(id).Set(float64(bytes))
	m.lastSuccess.WithLabelValues(id).Set(float64(at.UnixMilli()) / 1e3)
}

// Fetched counts a fetch of a base from elsewhere: failed files, and when the source was last listed in
// full, which is zero for never.
func (m *baseMetrics) Fetched(id string, ok bool, failed int, at time.Time) {
	id = m.names.label(id)
	result := "ok"
	if !ok {
		result = "error"
	}
	m.fetches.WithLabelValues(id, result).Inc()
	m.fetchFailed.WithLabelValues(id).Set(float64(failed))
	if !at.IsZero() {
		m.fetchedAt.WithLabelValues(id).Set(float64(at.UnixMilli()) / 1e3)
	}
}

// Embedded sets how many chunks of a base have a vector.
func (m *baseMetrics) Embedded(id string, chunks int) {
	m.embedded.WithLabelValues(m.names.label(id)).Set(float64(chunks))
}

// Searched counts a search of a base: "ok" if it found sources, else the reason why not.
func (m *baseMetrics) Searched(id string, reason retrieval.Reason) {
	if reason == retrieval.ReasonNone {
		reason = "ok"
	}
	m.searches.WithLabelValues(m.names.label(id), string(reason)).Inc()
}

// Ingested counts files that were read into a base by result, a constant ("indexed",
// "unsupported", …), and the look-alikes of tags neutralised in them.
func (m *baseMetrics) Ingested(id, result string, files, neutralised int) {
	id = m.names.label(id)
	m.files.WithLabelValues(id, result).Add(float64(files))
	m.neutralised.WithLabelValues(id).Add(float64(neutralised))
}

// BudgetMetrics are the metrics of tenants' limits and charges. It implements
// budget.MeterObserver.
type BudgetMetrics struct {
	tenants          *tenantNames
	refused          *prometheus.CounterVec
	ladder           *prometheus.CounterVec
	expired, failed  prometheus.Counter
	lost, rolledBack prometheus.Counter
	cost             *prometheus.CounterVec
	ratio            *prometheus.Desc

	mu     sync.Mutex
	levels map[string]*seenLevels // by tenant
}

// seenLevels are the levels of a tenant, as last seen by this process.
type seenLevels struct {
	budget.Levels
	at time.Time
}

// NewBudgets registers the budget metrics. Call it once, at the start of the process.
func (m *Metrics) NewBudgets() *BudgetMetrics {
	f := factory{Factory: promauto.With(m.registry)}
	b := &BudgetMetrics{
		tenants:    m.tenants,
		levels:     map[string]*seenLevels{},
		refused:    f.counters("budget_refused_total", "Requests refused because a limit of their tenant was reached.", "tenant", "window"),
		ladder:     f.counters("budget_ladder_total", "Requests made cheaper to fit limits, by step.", "rung"),
		expired:    f.counters("budget_leases_expired_total", "Reservations not settled in time, charged as estimated.").WithLabelValues(),
		failed:     f.counters("budget_ledger_errors_total", "Failed calls of the ledger of budgets.").WithLabelValues(),
		lost:       f.counters("budget_settle_lost_total", "Settlements given up; what was reserved is charged in their place.").WithLabelValues(),
		rolledBack: f.counters("budget_rollbacks_total", "Corrections of counts that the ledger had lost.").WithLabelValues(),
		cost:       f.counters("cost_usd_total", "US dollars charged.", "tenant"),
		ratio:      prometheus.NewDesc("sidenote_budget_used_ratio", "Share of a limit that is spent or reserved, as last seen by this process.", []string{"tenant", "window"}, nil),
	}
	for _, rung := range budget.Rungs() {
		b.ladder.WithLabelValues(string(rung))
	}
	m.registry.MustRegister(b)
	return b
}

// Describe implements prometheus.Collector.
func (b *BudgetMetrics) Describe(out chan<- *prometheus.Desc) { out <- b.ratio }

// Collect implements prometheus.Collector.
func (b *BudgetMetrics) Collect(out chan<- prometheus.Metric) {
	for w, ratios := range b.ratios() { // a slow reader of out blocks nobody
		for tenant, ratio := range b.tenants.highest(ratios) {
			out <- prometheus.MustNewConstMetric(b.ratio, prometheus.GaugeValue, ratio, tenant, w.String())
		}
	}
}

// ratios returns how much of each window's limit is used, by tenant. A window that has ended since
// it was seen is left out, as nobody may have used the next one here.
func (b *BudgetMetrics) ratios() map[budget.Window]map[string]float64 {
	all := map[budget.Window]map[string]float64{}
	b.mu.Lock()
	defer b.mu.Unlock()
	for tenant, seen := range b.levels {
		age := time.Since(seen.at)
		for i, l := range seen.Levels {
			if l.Limit <= 0 || l.Reset > 0 && age >= l.Reset {
				continue
			}
			w := budget.Window(i)
			if all[w] == nil {
				all[w] = map[string]float64{}
			}
			all[w][tenant] = math.Max(1-float64(l.Left)/float64(l.Limit), 0)
		}
	}
	return all
}

// Seen records how full a tenant's windows are.
func (b *BudgetMetrics) Seen(tenant string, levels budget.Levels) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.levels[tenant]
	if last == nil {
		if !b.tenants.configured(tenant) {
			tenant = b.tenants.label(tenant)
		}
		if last = b.levels[tenant]; last == nil {
			last = new(seenLevels)
			b.levels[tenant] = last
		}
	}
	*last = seenLevels{levels, time.Now()}
}

// Refused counts a refused request.
func (b *BudgetMetrics) Refused(tenant string, window budget.Window) {
	b.refused.WithLabelValues(b.tenants.label(tenant), window.String()).Inc()
}

// Stepped counts a request that was reduced to fit its limits.
func (b *BudgetMetrics) Stepped(rung budget.Rung) { b.ladder.WithLabelValues(string(rung)).Inc() }

// Expired counts leases that were not settled in time.
func (b *BudgetMetrics) Expired(leases int) { b.expired.Add(float64(leases)) }

// RolledBack counts a correction of a tenant's counts that the ledger had lost.
func (b *BudgetMetrics) RolledBack(string) { b.rolledBack.Inc() }

// LedgerFailed counts a failed call of the ledger.
func (b *BudgetMetrics) LedgerFailed() { b.failed.Inc() }

// Lost counts a settlement that was given up.
func (b *BudgetMetrics) Lost(budget.Settlement, error) { b.lost.Inc() }

// Settled counts the amount charged for a call.
func (b *BudgetMetrics) Settled(tenant string, _ budget.Kind, actual budget.Amount) {
	if actual.Money > 0 {
		b.cost.WithLabelValues(b.tenants.label(tenant)).Add(float64(actual.Money) / budget.USD)
	}
}

// cacheMetrics are the metrics of caches and of Redis.
type cacheMetrics struct {
	lookups, mismatches *prometheus.CounterVec
	redisDurations      *prometheus.HistogramVec
	redisErrors         *prometheus.CounterVec
	byLookup            recentSeries[lookupKey, prometheus.Counter]
}

// A lookupKey holds the labels of a cache lookup.
type lookupKey struct{ cache, tier, result string }

func newCacheMetrics(f factory) *cacheMetrics {
	return &cacheMetrics{
		lookups:        f.counters("cache_requests_total", "Cache lookups.", "cache", "tier", "result"),
		mismatches:     f.counters("integrity_mismatch_total", "Cached values that do not match their key; alert the on-call engineer.", "kind"),
		redisDurations: f.histograms("redis_duration_seconds", "Duration of a Redis call.", overheadBuckets(), "use"),
		redisErrors:    f.counters("redis_errors_total", "Failed Redis calls and dropped writes.", "use", "kind"),
	}
}

// CacheLookup counts a lookup: cache is "candidates" or "selected", for example, tier "memory" or
// "redis", result "hit", "miss", "error" or "skipped". The arguments must be constants, as they
// become labels.
func (m *cacheMetrics) CacheLookup(cache, tier, result string) {
	m.byLookup.get(lookupKey{cache, tier, result}, func() (prometheus.Counter, bool) {
		return m.lookups.WithLabelValues(cache, tier, result), true
	}).Inc()
}

// Mismatch counts a cached value that does not belong to its key. kind, a constant, says what was
// wrong.
func (m *cacheMetrics) Mismatch(kind string) { m.mismatches.WithLabelValues(kind).Inc() }

// RedisCall records a call of Redis: its use, its duration and the kind of its failure, "" for
// success. use and kind are constants.
func (m *cacheMetrics) RedisCall(use string, took time.Duration, kind string) {
	m.redisDurations.WithLabelValues(use).Observe(took.Seconds())
	if kind != "" {
		m.RedisError(use, kind)
	}
}

// RedisError counts a Redis failure outside of a call, such as a dropped write.
func (m *cacheMetrics) RedisError(use, kind string) { m.redisErrors.WithLabelValues(use, kind).Inc() }

// WatchTenants registers a gauge for each configured tenant that is read at each scrape. Call it
// at the start of the process; it panics if the name is taken.
func (m *Metrics) WatchTenants(name, help string, value func(tenant string) float64) {
	m.registry.MustRegister(&ofTenants{prometheus.NewDesc("sidenote_"+name, help, []string{"tenant"}, nil), m, value})
}

// ofTenants collects a gauge of each tenant.
type ofTenants struct {
	desc    *prometheus.Desc
	metrics *Metrics
	value   func(tenant string) float64
}

// Describe implements prometheus.Collector.
func (o *ofTenants) Describe(out chan<- *prometheus.Desc) { out <- o.desc }

// Collect implements prometheus.Collector.
func (o *ofTenants) Collect(out chan<- prometheus.Metric) {
	values := map[string]float64{}
	for tenant := range *o.metrics.tenants.known.Load() {
		values[tenant] = o.value(tenant)
	}
	for tenant, value := range o.metrics.tenants.highest(values) {
		out <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, value, tenant)
	}
}

// embeddingMetrics are the metrics of embedding requests.
type embeddingMetrics struct{ asked, sent *prometheus.CounterVec }

func newEmbeddingMetrics(f factory) embeddingMetrics {
	return embeddingMetrics{
		asked: f.counters("embeddings_requests_total", "Requests for vectors, by result.", "result"),
		sent:  f.counters("embeddings_tokens_total", "Tokens embedded: questions (query) and chunks (passage).", "use"),
	}
}

// Embedding counts an embedding request and its tokens. use and result are constants.
func (m *embeddingMetrics) Embedding(use, result string, tokens int) {
	m.asked.WithLabelValues(result).Inc()
	m.sent.WithLabelValues(use).Add(float64(tokens))
}

// mcpMetrics are the metrics of tool calls over MCP.
type mcpMetrics struct {
	callers                 *tenantNames
	toolCalls, toolRefusals *prometheus.CounterVec
	toolTime                *prometheus.HistogramVec
}

func newMCPMetrics(f factory, tenants *tenantNames) mcpMetrics {
	return mcpMetrics{
		callers:      tenants,
		toolCalls:    f.counters("mcp_calls_total", "Tool calls by MCP, by result.", "tenant", "tool", "result"),
		toolTime:     f.histograms("mcp_call_duration_seconds", "Duration of a tool call by MCP.", overheadBuckets(), "tool"),
		toolRefusals: f.counters("mcp_refused_total", "MCP requests refused before a tool call.", "reason"),
	}
}

// ToolCalled counts a tool call over MCP. tool and result are constants.
func (m *mcpMetrics) ToolCalled(tenant, tool, result string, took time.Duration) {
	m.toolCalls.WithLabelValues(m.callers.label(tenant), tool, result).Inc()
	m.toolTime.WithLabelValues(tool).Observe(took.Seconds())
}

// ToolRefused counts a refused MCP request. reason is a constant.
func (m *mcpMetrics) ToolRefused(reason string) {
	m.toolRefusals.WithLabelValues(strings.ReplaceAll(reason, "-", "_")).Inc()
}
