package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/metrics"
	"sidenote/proxy/panics"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/folder"
)

// A monitor counts what happens beside requests, and tells people what goes wrong there.
type monitor struct {
	metrics *metrics.Metrics
	tell    func(level slog.Level, line string)
}

// panicked is a panics.Handler.
func (m monitor) panicked(value any, stack []byte) {
	m.metrics.Panicked(value, stack)
	m.tell(slog.LevelError, fmt.Sprintf("BUG: panic: %s\n%s", panics.Shown(value), stack))
}

// changed warns of what begins to go wrong, and tells when it is over.
func (m monitor) changed(line string, bad bool) {
	if bad {
		m.tell(slog.LevelWarn, line)
		return
	}
	what, _, _ := strings.Cut(line, ";") // what is done meanwhile is over too
	m.tell(slog.LevelInfo, "over: "+what)
}

// watchBreaker shows whether a breaker is open.
func (m monitor) watchBreaker(name string, open func() bool) {
	m.metrics.Watch("breaker_open", "1 while calls are skipped because they would fail.", map[string]string{"name": name}, false, func() float64 {
		if open() {
			return 1
		}
		return 0
	})
}

// searched is a base whose searches are counted.
func (m monitor) searched(base retrieval.Base) retrieval.Retriever {
	return retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		res, err := base.Retrieve(ctx, q)
		m.metrics.Searched(base.Ref().Knowledge, res.Reason)
		return res, err
	})
}

// indexed counts what was read. What is skipped is counted once, however often the
// folder is read.
func (m monitor) indexed(id string, report folder.Report, first bool) {
	m.metrics.Ingested(id, "indexed", report.Written, 0)
	if !first {
		return
	}
	skipped := map[folder.SkipKind]int{}
	for _, skip := range report.Skipped {
		skipped[skip.Kind]++
	}
	for kind, n := range skipped {
		m.metrics.Ingested(id, string(kind), n, 0)
	}
}

// neutralised counts tags in documents that were made harmless.
func (m monitor) neutralised(id string, tags int) { m.metrics.Ingested(id, "indexed", 0, tags) }

// cached counts what happens in the caches.
func (m monitor) cached(e cache.Event) {
	switch e.Result {
	case cache.SetError:
		if errors.Is(e.Err, cache.ErrDropped) {
			m.metrics.RedisError(string(e.Kind), string(redis.Dropped))
		}
		return
	case cache.Mismatched:
		m.mismatched(e.Tier, e.Mismatch)
	}
	tier, result := e.Tier, "miss"
	switch e.Result {
	case cache.Hit, cache.Skipped:
		result = string(e.Result)
	case cache.GetError:
		result = "error"
	case cache.Bypass:
		tier = tierMemory
	}
	m.metrics.CacheLookup(string(e.Kind), tier, result)
}

// mismatched tells of a value that is not what was stored under its key.
func (m monitor) mismatched(tier string, why cache.Mismatch) {
	m.metrics.Mismatch(string(why))
	m.tell(slog.LevelWarn, fmt.Sprintf("cache: a value in %s was not what its key says (%s), and was not used", tier, string(why)))
}

// tellOfCertificates says when certificates of upstreams are read again, and why they cannot
// be used.
func (m monitor) tellOfCertificates(cfg *config.Config) {
	config.TellOfCertificates(cfg, func(upstream config.Name, err error) {
		if err != nil {
			m.tell(slog.LevelError, fmt.Sprintf("upstream %s: certificates cannot be read again, the last ones stay: %v", upstream, err))
			return
		}
		m.tell(slog.LevelInfo, fmt.Sprintf("upstream %s: new certificates are used", upstream))
	})
}
