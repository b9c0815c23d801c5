package report

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
