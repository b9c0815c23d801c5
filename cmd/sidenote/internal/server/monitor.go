package server

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/audit"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/retrieval/knowledge/folder"
)

// The cache tiers, as named in metrics.
const (
	TierMemory = "memory"
	TierRedis  = "redis"
)

// A Monitor counts background events and reports problems in the background.
type Monitor struct {
	Metrics *report.Metrics
	Log     func(level slog.Level, line string)
	Audit   *audit.Log // gets changes that come from folders; may be nil
}

// Panicked is a panics.Handler.
func (m Monitor) Panicked(value any, stack []byte) {
	m.Metrics.Panicked(value, stack)
	m.Log(slog.LevelError, fmt.Sprintf("BUG: panic: %s\n%s", panics.Describe(value), stack))
}

// Changed reports that a problem begins or ends.
func (m Monitor) Changed(line string, bad bool) {
	if bad {
		m.Log(slog.LevelWarn, line)
		return
	}
	what, _, _ := strings.Cut(line, ";") // what happens meanwhile ends too
	m.Log(slog.LevelInfo, "over: "+what)
}

// MergeChanges merges the reports of several observers of one thing: a line that more than one
// reports is passed on once, and is over when it is over for all.
func MergeChanges(changed func(line string, bad bool)) func(line string, bad bool) {
	var mu sync.Mutex
	told := map[string]int{}
	return func(line string, bad bool) {
		mu.Lock()
		defer mu.Unlock()
		before := told[line]
		if bad {
			told[line]++
		} else if told[line]--; told[line] <= 0 {
			delete(told, line)
		}
		if after := told[line]; (before > 0) != (after > 0) {
			changed(line, bad)
		}
	}
}

// WatchBreaker exports whether a circuit breaker is open.
func (m Monitor) WatchBreaker(name string, open func() bool) {
	m.Metrics.Watch("breaker_open", "1 while calls are skipped because they would fail.", map[string]string{"name": name}, false, func() float64 {
		if open() {
			return 1
		}
		return 0
	})
}

// Indexed counts documents read. Skipped files are counted only on the first reading.
func (m Monitor) Indexed(id string, report folder.Report, first bool) {
	m.Metrics.Ingested(id, "indexed", report.Written, 0)
	if !first {
		return
	}
	skipped := map[folder.SkipKind]int{}
	for _, skip := range report.Skipped {
		skipped[skip.Kind]++
	}
	for kind, n := range skipped {
		m.Metrics.Ingested(id, string(kind), n, 0)
	}
}

// fetched counts a fetch of a base from elsewhere.
func (m Monitor) fetched(id string, now fetching) {
	if m.Metrics != nil {
		m.Metrics.Fetched(id, now.err == nil, now.report.Failed, now.at)
	}
}

// Neutralised counts tags in documents that were escaped.
func (m Monitor) Neutralised(id string, tags int) { m.Metrics.Ingested(id, "indexed", 0, tags) }

// Cached counts cache events.
func (m Monitor) Cached(e cache.Event) {
	switch e.Result {
	case cache.SetError:
		if errors.Is(e.Err, cache.ErrDropped) {
			m.Metrics.RedisError(string(e.Kind), string(redis.Dropped))
		}
		return
	case cache.Mismatched:
		m.Mismatched(e.Tier, e.Mismatch)
	}
	tier, result := e.Tier, "miss"
	switch e.Result {
	case cache.Hit, cache.Skipped:
		result = string(e.Result)
	case cache.GetError:
		result = "error"
	case cache.Bypass:
		tier = TierMemory
	}
	m.Metrics.CacheLookup(string(e.Kind), tier, result)
}

// Mismatched reports a cached value that does not belong to its key.
func (m Monitor) Mismatched(tier string, why cache.Mismatch) {
	m.Metrics.Mismatch(string(why))
	m.Log(slog.LevelWarn, fmt.Sprintf("cache: a value in %s was not what its key says (%s), and was not used", tier, string(why)))
}

// TellOfCertificates reports when upstream certificates were read again, and why that failed.
func (m Monitor) TellOfCertificates(cfg *config.Config) {
	config.TellOfCertificates(cfg, func(upstream config.Name, err error) {
		if err != nil {
			m.Log(slog.LevelError, fmt.Sprintf("upstream %s: certificates cannot be read again, the last ones stay: %v", upstream, err))
			return
		}
		m.Log(slog.LevelInfo, fmt.Sprintf("upstream %s: new certificates are used", upstream))
	})
}
