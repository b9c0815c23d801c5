package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/rewrite"
)

// demoStack is everything between a request and the demo's documents, with a section redis,
// "" for none, that works by then. A search may take long: what else the machine does is not measured.
func demoStack(tb testing.TB, redis string) *Engine {
	tb.Helper()
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {demo: %q}\npolicies: {default: {context_tokens: 550, retrieval: {deadline: 10s}}}\n", tb.TempDir())
	if redis != "" {
		yaml += "redis: " + redis + "\n"
	}
	path := filepath.Join(tb.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := New(tb.Context(), cfg, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	content, _, err := knowledge.FromFS(tb.Context(), demo.Corpus(), folder.Folder{ID: "demo"}, s.Reader.Deps())
	if err != nil {
		tb.Fatal(err)
	}
	s.Bases.embedded["demo"].Swap(content)
	if state := s.Shared(tb.Context()); redis != "" && !strings.HasPrefix(state, "shared on redis") {
		tb.Fatal(state)
	}
	return s
}

// numbered is a chat request; the number makes its question another.
func numbered(i int) []byte {
	return fmt.Appendf(nil, `{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},`+
		`{"role":"user","content":"How many weeks of parental leave do I get, with %d children?"}]}`, i)
}

// rewriteTook is how long it takes to put sources into a request; want says where
// they come from.
func rewriteTook(b *testing.B, s *Engine, i int, want retrieval.CacheState) time.Duration {
	b.Helper()
	policy, _ := s.Config.Tenant("default")
	req, err := rewrite.Parse(numbered(i))
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	res := s.Rewriter.Rewrite(b.Context(), policy.Rewrite, req, rewrite.Options{})
	took := time.Since(start)
	if res.Outcome != rewrite.Injected || res.Retrieval.Cache != want {
		b.Fatalf("%s, cache=%s, want %s", res.Outcome, res.Retrieval.Cache, want)
	}
	return took
}

// What a hit costs beyond one in this process when Redis has it, on the same
// machine: two commands' way and the value unpacked. Both kinds alternate.
func BenchmarkRedisHit(b *testing.B) {
	const questions = 500
	server := redistest.Start(b)
	section := fmt.Sprintf("{url: %q, timeout: 5s}", server.URL()) // as patient, for the same reason
	near := demoStack(b, section)
	for i := range questions {
		rewriteTook(b, near, i, retrieval.CacheMiss)
	}
	server.WaitFor(fmt.Sprint(questions), "EVAL", "return #redis.call('KEYS', '*:selected:*')", "0")
	var memory, redis []time.Duration
	var far *Engine
	for n := 0; b.Loop(); n++ {
		if n%questions == 0 { // what it was asked before it has in memory
			if far != nil {
				_ = far.Close()
			}
			far = demoStack(b, section)
		}
		memory = append(memory, rewriteTook(b, near, n%questions, retrieval.CacheHit))
		redis = append(redis, rewriteTook(b, far, n%questions, retrieval.CacheHit))
	}
	slices.Sort(memory)
	slices.Sort(redis)
	p50 := func(took []time.Duration) float64 { return float64(took[len(took)/2].Nanoseconds()) / 1e3 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p50(memory), "memory-p50-µs")
	b.ReportMetric(p50(redis), "redis-p50-µs")
	b.ReportMetric(p50(redis)-p50(memory), "added-p50-µs")
}
