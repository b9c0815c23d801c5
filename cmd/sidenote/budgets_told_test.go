package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/proxy/admin"
)

// While Redis is down, /readyz and the log say what happens to tenants with limits, and that is
// what happens; all others are served.
func TestLimitedTenantsWithoutRedisAreToldOf(t *testing.T) {
	tenants := fmt.Sprintf("tenants:\n  acme: {keys: [%s], knowledge: [handbook], limits: {requests_per_minute: 100000}}\n  free: {keys: [%s], knowledge: [handbook]}\n", digestOf(acmeKey), digestOf(umbraKey))
	for name, c := range map[string]struct {
		rest, line string
		limited    int  // status of a tenant with limits
		isCached   bool // the cache is on the Redis, too
	}{
		"refused":                         {"redis: %q\n" + tenants, "connection refused; tenants with limits are refused", 503, true},
		"allowance":                       {"redis: %q\nbudgets: {on_failure: allowance, allowance: {requests_per_minute: 100000}}\n" + tenants, "connection refused; tenants with limits get their allowance", 200, true},
		"refused, by a server of its own": {"budgets: {redis: %q}\n" + tenants, "connection refused; tenants with limits are refused", 503, false},
		"nobody is limited":               {"redis: %q\n" + strings.Replace(tenants, ", limits: {requests_per_minute: 100000}", "", 1), "connection refused; going on without it", 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := spenders(t, durable...)
			p := f.begin(fmt.Sprintf(c.rest, f.server.URL()))
			p.counts(t)
			f.server.Kill()
			want := []string{"redis " + f.server.Addr() + ": " + c.line}
			if c.isCached {
				want = append(want, "redis "+f.server.Addr()+": connection refused; the cache goes on without it")
			}
			asked := 0
			question := func() string { // that no cache of the process has
				asked++
				return strings.Replace(leaveQuestion, "weeks", fmt.Sprint("weeks, or ", asked, " days,"), 1)
			}
			if question() == leaveQuestion {
				t.Fatal(leaveQuestion)
			}
			eventually(t, func() string {
				for key, status := range map[string]int{acmeKey: c.limited, umbraKey: 200} {
					if got := asksWith(t, p, key, question()); got != status {
						t.Errorf("%d, want %d", got, status)
					}
				}
				status, reasons := p.readiness(t)
				if status != 200 || len(reasons) != len(want) {
					return fmt.Sprintf("/readyz: %d %q, want %q", status, reasons, want)
				}
				for _, line := range want {
					if !strings.Contains(strings.Join(reasons, "\n")+"\n", line+"\n") {
						return fmt.Sprintf("/readyz: %q, want %q", reasons, want)
					}
				}
				return ""
			})
			for _, line := range want {
				says(t, p.out, line)
			}
			f.server.Restart()
			eventually(t, func() string {
				got := asksWith(t, p, acmeKey, question())
				if _, reasons := p.readiness(t); got != 200 || len(reasons) > 0 {
					return fmt.Sprintf("when it is back: %d, /readyz %q", got, reasons)
				}
				return ""
			})
		})
	}
}

// asksWith sends a chat and returns the status of the answer.
func asksWith(t *testing.T, p *process, key, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// Usage and cost are counted for tenants with and without limits: from the reported usage, or from
// the text of a stream that reports none; in this process and on Redis.
func TestTenantsWithoutLimitsHaveUsage(t *testing.T) {
	up := httptest.NewServer(&demo.Stub{})
	t.Cleanup(up.Close)
	const plain = `{"model":"gpt-4o","messages":[{"role":"user","content":"How many weeks of parental leave?"}]`
	for name, c := range map[string]struct {
		limits, redis string
		body          string
		least         int64 // tokens of one request
	}{
		"told":                      {"", "", plain + "}", 60},
		"streamed, told":            {"", "", plain + `,"stream":true,"stream_options":{"include_usage":true}}`, 60},
		"streamed, not told":        {"", "", plain + `,"stream":true}`, 60},
		"limits of requests alone":  {"requests_per_minute: 100", "", plain + "}", 60},
		"told, on Redis":            {"", "redis: %q\n", plain + "}", 60},
		"without sources, not told": {"", "", `{"model":"gpt-4o","sidenote":{"mode":"off"},"stream":true,"messages":[{"role":"user","content":"How many weeks of parental leave?"}]}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := spenders(t, durable...)
			rest := ""
			if c.limits != "" {
				rest = "policies: {default: {limits: {" + c.limits + "}}}\n"
			}
			if c.redis != "" {
				rest += fmt.Sprintf(c.redis, f.server.URL())
			}
			f.write("sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %q}\nprices: [{match: '*', input: 2, output: 8}]\n%s", up.URL, f.docs, rest))
			p := serve(t, "--config", f.dir+"/sidenote.yaml")
			const n = 3
			for range n {
				if got := asksWith(t, p, acmeKey, c.body); got != 200 {
					t.Fatalf("got %d", got)
				}
			}
			u := p.settled(t, "default", n)
			spent := u.Month.Spent
			if spent.Tokens < n*c.least || spent.USD == "0" || u.Month.Kinds["chat"] != spent {
				t.Errorf("spent %+v, by kind %+v", spent, u.Month.Kinds)
			}
			if c.least > 1 && spent.Injected == 0 {
				t.Errorf("no injected tokens: %+v", spent)
			}
			if _, text := get(t, p.admin+"/metrics"); !strings.Contains(text, `sidenote_cost_usd_total{tenant="default"}`) {
				t.Error("no cost in the metrics")
			}
			if _, text := get(t, p.admin+"/tenants/default"); !strings.Contains(text, "$0.") || strings.Contains(text, "nothing is counted") {
				t.Errorf("the page of the tenant shows no cost: %s", text)
			}
			if _, text := get(t, p.admin+admin.UsagePath); !strings.Contains(text, `"id":"default"`) {
				t.Errorf("usage: %s", text)
			}
		})
	}
}
