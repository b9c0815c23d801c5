package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

// begin starts one more process of the fleet, with its own configuration.
func (f *fleet) begin(rest string) *process {
	f.t.Helper()
	f.write("sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %q}\n%s", f.up.URL, f.docs, rest))
	return serve(f.t, "--config", filepath.Join(f.dir, "sidenote.yaml"))
}

// counts waits until a process can reach the Redis of its budgets.
func (p *process) counts(t *testing.T) {
	t.Helper()
	eventually(t, func() string {
		if _, text := get(t, p.admin+"/metrics"); !strings.Contains(text, `sidenote_breaker_open{name="redis/budgets"} 0`) {
			return "budgets are not counted on Redis yet"
		}
		return ""
	})
}

// A Redis that is too slow for the cache, or that drops connections, causes no refusal of tenants
// below their limits.
func TestBudgetsOnASlowRedis(t *testing.T) {
	f := spenders(t, durable...)
	fault := redistest.NewFault(t, f.server.Addr())
	rest := fmt.Sprintf("redis: redis://%s\nbudgets: {replicas: 2, redis: {timeout: 5s}}\npolicies: {default: {limits: {requests_per_minute: 1000}}}\n", fault.Addr())
	one, two := f.begin(rest), f.begin(rest)
	one.counts(t)
	two.counts(t)
	fault.Latency(100*time.Millisecond, 20*time.Millisecond)
	if answers, _ := spends(t, 20, one, two); answers[200] != 40 {
		t.Errorf("answers %v", answers)
	}
	fault.Reset()
	if answers, _ := spends(t, 4, one, two); answers[200] != 8 {
		t.Errorf("after lost connections: answers %v", answers)
	}
	fault.Latency(0, 0)
	one.settled(t, "default", 48)
}

// Cache and budgets may use two servers. A fault of one does not affect the other.
func TestBudgetsOnAServerOfTheirOwn(t *testing.T) {
	for name, key := range map[string]string{"beside the cache": "redis: {url: %q, timeout: 5s}\n", "without a cache": "# %q\n"} {
		t.Run(name, func(t *testing.T) {
			f := spenders(t, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
			own := redistest.Start(t, append(durable, "--maxmemory-policy", "noeviction")...)
			p := f.begin(fmt.Sprintf(key+"budgets: {redis: %q}\npolicies: {default: {limits: {requests_per_minute: 1000}}}\n", f.server.URL(), own.URL()))
			p.counts(t)
			if answers, _ := spends(t, 5, p); answers[200] != 5 {
				t.Errorf("answers %v", answers)
			}
			p.settled(t, "default", 5)
			if got := own.Do("KEYS", "*"); !strings.Contains(got, "sidenote:budget1:{default}") || strings.Contains(got, ":selected:") {
				t.Errorf("the server of budgets holds %q", got)
			}
			if got := f.server.Do("KEYS", "*budget*"); got != "" {
				t.Errorf("the server of the cache holds %q", got)
			}
			if _, reasons := p.readiness(t); len(reasons) > 0 {
				t.Errorf("/readyz: %q", reasons)
			}
			f.server.Kill()
			if answers, _ := spends(t, 5, p); answers[200] != 5 {
				t.Errorf("without the server of the cache: answers %v", answers)
			}
			own.Kill()
			if answers, _ := spends(t, 1, p); answers[503] != 1 {
				t.Errorf("without the server of budgets: answers %v", answers)
			}
		})
	}
}

// On a full server that does not evict keys the cache stops writing before it takes the memory that
// budgets need.
func TestCacheStopsBeforeBudgetsFail(t *testing.T) {
	f := spenders(t, append(durable, "--maxmemory-policy", "noeviction")...)
	p := f.begin(fmt.Sprintf("redis: {url: %q, timeout: 5s}\npolicies: {default: {limits: {requests_per_minute: 10000}}}\n", f.server.URL()))
	p.counts(t)
	ask := func(i int) {
		t.Helper()
		body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":"How many weeks of parental leave may %d parents take?"}]}`, i)
		resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("question %d: %s", i, resp.Status)
		}
	}
	ask(0)
	f.server.WaitFor(":selected:", "KEYS", "*")
	used, err := strconv.Atoi(string(regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(f.server.Do("INFO", "memory"))[1]))
	if err != nil {
		t.Fatal(err)
	}
	f.server.Do("CONFIG", "SET", "maxmemory", strconv.Itoa(used*5/4))
	asked := 0
	eventually(t, func() string {
		asked++
		ask(asked)
		if _, reasons := p.readiness(t); !strings.Contains(strings.Join(reasons, "\n"), "its memory is nearly full, and budgets need the rest; what it holds is read, nothing new is kept") {
			return fmt.Sprintf("/readyz: %q", reasons)
		}
		return ""
	})
	before := len(keys(f.server, "*"))
	for range 50 {
		asked++
		ask(asked)
	}
	p.settled(t, "default", asked+1)
	if after := len(keys(f.server, "*")); after != before || before == 0 {
		t.Errorf("%d values of the cache, and then %d", before, after)
	}
	if _, text := get(t, p.admin+"/metrics"); !strings.Contains(text, `sidenote_redis_errors_total{kind="memory",use="selected"}`) {
		t.Error("no write that was held back is counted")
	}
}
