package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/admin"
	"sidenote/proxy/tenant"
)

// A tenant's usage is reported by window, period and kind, exactly.
func TestUsage(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)
	ledger := budget.NewMemory(func() time.Time { return now })
	limits := budget.Limits{budget.TokensPerMinute: 1000, budget.MoneyPerDay: 2 * budget.USD, budget.ParallelRequests: 3}
	for i, kind := range []budget.Kind{budget.Chat, budget.Embedding, budget.Chat} {
		r := budget.Reservation{Tenant: "acme", ID: fmt.Sprint(i), Kind: kind, Estimate: budget.Amount{Requests: 1, Tokens: 100, Money: 1}, Limits: limits, Lease: time.Minute}
		if d, err := ledger.Reserve(t.Context(), r); err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		if i < 2 {
			if _, err := ledger.Settle(t.Context(), budget.Settlement{Ticket: r.Ticket(), Actual: budget.Amount{Requests: 1, Tokens: 100, Injected: 30, Money: 500_000_001}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	url := usageServer(t, ledger, limits)
	code, body := call(t, "GET", url+admin.TenantUsagePath("acme"), "")
	amounts := func(n int, tokens, injected int, usd string) string {
		return fmt.Sprintf(`{"requests":%d,"tokens":%d,"injected_tokens":%d,"usd":%s}`, n, tokens, injected, usd)
	}
	period := func(start, end string) string {
		one := amounts(1, 100, 30, "0.500000001")
		return fmt.Sprintf(`{"start":"%sT00:00:00Z","end":"%sT00:00:00Z","spent":%s,"held":%s,"kinds":{"chat":%s,"embedding":%s}}`,
			start, end, amounts(2, 200, 60, "1.000000002"), amounts(1, 100, 0, "0.000000001"), one, one)
	}
	want := `{"object":"tenant.usage","id":"acme","windows":[` +
		`{"window":"tokens_per_minute","limit":1000,"used":300,"left":700,"reset_ms":18000},` +
		`{"window":"usd_per_day","limit":2,"used":1.000000003,"left":0.999999997,"reset_ms":43170000},` +
		`{"window":"max_parallel_requests","limit":3,"used":1,"left":2}],` +
		`"day":` + period("2026-03-10", "2026-03-11") + `,"month":` + period("2026-03-01", "2026-04-01") + `,"parallel_requests":1}`
	if strings.TrimSpace(body) != want || code != 200 {
		t.Errorf("%d %s\nwant %s", code, body, want)
	}

	code, body = call(t, "GET", url+admin.TenantUsagePath("nobody"), "")
	if code != 404 || !strings.Contains(body, `There is no tenant \"nobody\".`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body = call(t, "POST", url+admin.TenantUsagePath("acme"), ""); code != 405 {
		t.Errorf("%d %s", code, body)
	}
	got := ""
	for _, page := range []string{"?order=asc&limit=2", "?order=asc&limit=2&after=beta"} {
		code, body := call(t, "GET", url+admin.UsagePath+page, "")
		got += fmt.Sprint(code)
		for _, id := range []string{"acme", "beta", "gamma"} {
			if strings.Contains(body, `"id":"`+id+`"`) {
				got += " " + id
			}
		}
		got += fmt.Sprint(" ", strings.Contains(body, `"has_more":true`), "; ")
	}
	if got != "200 acme beta true; 200 gamma false; " {
		t.Error(got)
	}
}

// Usage is reported by kind of call, including stages of answers.
func TestUsageByKind(t *testing.T) {
	ledger := budget.NewMemory(time.Now)
	limits := budget.Limits{budget.TokensPerDay: 1000}
	for i, kind := range budget.Kinds() {
		r := budget.Reservation{Tenant: "acme", ID: string(kind), Kind: kind, Estimate: budget.Amount{Requests: 1, Tokens: 100}, Limits: limits, Lease: time.Minute}
		if d, err := ledger.Reserve(t.Context(), r); err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		if _, err := ledger.Settle(t.Context(), budget.Settlement{Ticket: r.Ticket(), Actual: budget.Amount{Requests: 1, Tokens: int64(i + 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	_, body := call(t, "GET", usageServer(t, ledger, limits)+admin.TenantUsagePath("acme"), "")
	var got admin.Usage
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for i, kind := range budget.Kinds() {
		if of := got.Day.Kinds[string(kind)]; of.Tokens != int64(i+1) || of.Requests != 1 {
			t.Errorf("%s: %+v of %s", kind, of, body)
		}
	}
	if !slices.Contains(budget.Kinds(), budget.Stage) || len(got.Month.Kinds) != len(budget.Kinds()) {
		t.Errorf("%d kinds: %s", len(got.Month.Kinds), body)
	}
}

// If the ledger cannot be read, the answer says so, without the error itself.
func TestUsageWithoutLedger(t *testing.T) {
	url := usageServer(t, downReporter{}, budget.Limits{})
	for _, path := range []string{admin.UsagePath, admin.TenantUsagePath("acme")} {
		code, body := call(t, "GET", url+path, "")
		if code != 503 || !strings.Contains(body, "Usage of tenants cannot be read; try again.") || strings.Contains(body, "canary") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

type downReporter struct{}

func (downReporter) Usage(context.Context, string, budget.Limits) (budget.Usage, error) {
	return budget.Usage{}, errors.New("canary")
}

func usageServer(t *testing.T, ledger budget.Reporter, limits budget.Limits) string {
	var keys []tenant.Key
	for i, name := range []string{"gamma", "acme", "beta"} {
		p := &tenant.Policy{Tenant: name}
		p.Budget.Limits = limits
		keys = append(keys, tenant.Key{SHA256: [32]byte{byte(i + 1)}, Policy: p})
	}
	return listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		h.Tenants, h.Usage = tenant.NewDirectory(tenant.Tenants{Keys: keys}), ledger
	}).Handle, slog.New(slog.DiscardHandler)))
}
