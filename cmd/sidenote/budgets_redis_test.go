package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sidenote/cache/redis/redistest"
	"sidenote/proxy/admin"
)

// spenders returns a fleet whose Redis is durable, unless args say otherwise.
func spenders(t *testing.T, args ...string) *fleet {
	t.Helper()
	return &fleet{t: t, dir: t.TempDir(), docs: handbook(t), up: newRecorder(t), server: redistest.Start(t, args...)}
}

// durable are the arguments of a Redis that writes to disk before it answers. By default it may
// delay writes for two seconds while the disk is busy, and what was settled then stays reserved
// until the lease ends.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// limited returns a configuration with a limit of requests per minute.
func limited(perMinute int, rest string) string {
	return fmt.Sprintf("budgets: {replicas: 2%s}\npolicies: {default: {limits: {requests_per_minute: %d}}}\n", rest, perMinute)
}

// spends sends n requests to each of some processes, 8 at a time, and returns how many
// answers had each status, and how long that took.
func spends(t *testing.T, n int, processes ...*process) (answers map[int]int, took time.Duration) {
	t.Helper()
	answers = map[int]int{}
	var mu sync.Mutex
	start := time.Now()
	each(n*len(processes), 8, func(i int) {
		status := 0
		resp, err := http.Post(processes[i%len(processes)].data+"/v1/chat/completions", "application/json", strings.NewReader(leaveQuestion))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			status = resp.StatusCode
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		answers[status]++
		mu.Unlock()
	})
	return answers, time.Since(start)
}

// granted checks that a limit per minute granted all that it allows, and at most what became free
// meanwhile: one each minute/limit.
func granted(t *testing.T, what string, got, limit int, took time.Duration) {
	t.Helper()
	const clocks = 50 * time.Millisecond // the clock of Redis is another one
	if most := limit + int((took+clocks)/(time.Minute/time.Duration(limit))); got < limit || got > most {
		t.Errorf("%s: %d requests granted in %v, want %d to %d", what, got, took, limit, most)
	}
}

// chats counts the chats that arrived; probes of reachability are not counted.
func (u *recorder) chats() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.requests {
		if r.method == http.MethodPost {
			n++
		}
	}
	return n
}

// usage returns what a process reports as a tenant's usage.
func (p *process) usage(t *testing.T, tenant string) (u admin.Usage) {
	t.Helper()
	_, text := get(t, p.admin+admin.TenantUsagePath(tenant))
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return u
}

// settled waits until a tenant has nothing reserved and has spent n requests.
func (p *process) settled(t *testing.T, tenant string, n int) (u admin.Usage) {
	t.Helper()
	eventually(t, func() string {
		u = p.usage(t, tenant)
		if u.Month.Held == (admin.UsageAmount{USD: "0"}) && u.Parallel == 0 && u.Month.Spent.Requests == int64(n) {
			return ""
		}
		return fmt.Sprintf("%+v, want %d requests spent and nothing held", u, n)
	})
	return u
}

// eventually repeats a check until it finds no error.
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-tick.C {
		text := wrong()
		if text == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(text)
		}
	}
}

// Replicas on one Redis share a limit exactly. Without Redis all requests are refused
// (fail_closed), and when it is back it still has the counts: row R1.
func TestBudgetReplicasR1(t *testing.T) {
	const limit = 20
	f := spenders(t, durable...)
	rest := limited(limit, "")
	one, two := f.replica("", rest), f.replica("", rest)
	answers, took := spends(t, 30, one, two)
	granted(t, "two replicas", answers[200], limit, took)
	if answers[200]+answers[429] != 60 || f.up.chats() != answers[200] {
		t.Errorf("answers %v, %d upstream", answers, f.up.chats())
	}
	for _, p := range []*process{one, two} {
		p.settled(t, "default", answers[200])
	}

	f.server.Kill()
	closed, _ := spends(t, 2, one, two)
	if closed[503] != 4 || f.up.chats() != answers[200] {
		t.Errorf("without Redis: answers %v, %d upstream", closed, f.up.chats())
	}
	if status, text := get(t, one.admin+admin.UsagePath); status != 503 || !strings.Contains(text, "ledger_unavailable") {
		t.Errorf("usage without Redis: %d %s", status, text)
	}
	var retried atomic.Int32
	sdk := openai.NewClient(option.WithBaseURL(one.data+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(10),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			resp, err := next(r)
			if err == nil && resp.StatusCode == 503 {
				if resp.Header.Get("Retry-After") != "1" {
					t.Errorf("503 with Retry-After %q", resp.Header.Get("Retry-After"))
				}
				if retried.Add(1) == 1 {
					f.server.Restart()
				}
			}
			return resp, err
		}))
	// The client retries after a second, as told. Redis may then report that the limit is reached,
	// which is not an error.
	_, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"))
	if retried.Load() == 0 {
		t.Error("the SDK was not refused")
	}
	spent := answers[200]
	if err == nil {
		spent++
	}
	eventually(t, func() string {
		if status, text := get(t, two.admin+admin.UsagePath); status != 200 {
			return text
		}
		return ""
	})
	one.settled(t, "default", spent)
	if f.up.chats() != spent {
		t.Errorf("%d requests upstream, %d spent", f.up.chats(), spent)
	}
}

// If so configured, each replica grants an allowance while Redis is down, and reports the usage to
// Redis later.
func TestBudgetAllowance(t *testing.T) {
	const limit, allowance = 6, 2
	f := spenders(t, durable...)
	rest := limited(limit, fmt.Sprintf(", on_failure: allowance, allowance: {requests_per_minute: %d}", allowance))
	one, two := f.replica("", rest), f.replica("", rest)
	answers, took := spends(t, 8, one, two)
	granted(t, "with Redis", answers[200], limit, took)
	f.server.Kill()
	all := answers[200]
	for name, p := range map[string]*process{"one": one, "two": two} {
		answers, took := spends(t, 8, p)
		granted(t, name+" without Redis", answers[200], allowance, took)
		if answers[200]+answers[429] != 8 {
			t.Errorf("%s without Redis: %v", name, answers)
		}
		all += answers[200]
	}
	if f.up.chats() != all {
		t.Errorf("%d requests upstream, %d granted", f.up.chats(), all)
	}
	f.server.Restart()
	eventually(t, func() string {
		if status, text := get(t, one.admin+admin.UsagePath); status != 200 {
			return text
		}
		return ""
	})
	one.settled(t, "default", all)
}

// Row R18: the log, /readyz and a metric warn of a Redis that may lose counts. Without limits Redis
// may be a cache that evicts keys, and there is no warning.
func TestBudgetUnsafeRedisR18(t *testing.T) {
	f := spenders(t, "--maxmemory-policy", "allkeys-lru")
	p, other := f.replica("", limited(20, "")), *f
	other.dir = t.TempDir() // a configuration of its own, as p reads its own again when it changes
	free := other.replica("", "")
	for _, line := range []string{
		"a crash of it loses what budgets counted; set appendonly yes",
		"it may drop what budgets counted; set maxmemory-policy noeviction",
	} {
		says(t, p.out, line)
		eventually(t, func() string {
			status, reasons := p.readiness(t)
			if status != 200 || !strings.Contains(strings.Join(reasons, "\n"), line) {
				return fmt.Sprintf("/readyz: %d %q, want %q", status, reasons, line)
			}
			return ""
		})
	}
	eventually(t, func() string {
		_, text := get(t, p.admin+"/metrics")
		if strings.Contains(text, "\nsidenote_budget_store_safe 0\n") {
			return ""
		}
		_, found, _ := strings.Cut(text, "\nsidenote_budget_store_safe")
		return fmt.Sprintf("sidenote_budget_store_safe is%.10q in %d bytes of metrics", found, len(text))
	})
	eventually(t, func() string { // it may not have found its Redis yet
		_, text := get(t, free.admin+"/metrics")
		_, reasons := free.readiness(t)
		if !strings.Contains(text, "\nsidenote_budget_store_safe 1\n") || len(reasons) > 0 {
			return fmt.Sprintf("without limits: no sidenote_budget_store_safe 1, or /readyz has reasons: %q", reasons)
		}
		return ""
	})
}
