package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
)

// Each limit refuses as OpenAI does, in a form that its SDKs understand, and says when to retry.
func TestBudgetRefuses(t *testing.T) {
	const (
		told  = `{"usage":{"prompt_tokens":600,"completion_tokens":900}}` // 1500 tokens, $0.0024
		later = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`
	)
	usd := func(milli int64) int64 { return milli * budget.USD / 1000 }
	for window, c := range map[budget.Window]struct {
		limit               int64
		kind, code, message string
		retry, ms, should   string // headers; "": absent
		limits              map[string]string
		status              string
	}{
		budget.RequestsPerMinute: {1, "requests", "rate_limit_exceeded", `Your limit requests_per_minute, 1, is reached; try again in 1m0s\.`, "60", "60000", "",
			map[string]string{"Limit-Requests": "1", "Remaining-Requests": "0", "Reset-Requests": "1m0s"}, "rate-limit"},
		budget.TokensPerMinute: {2000, "tokens", "rate_limit_exceeded", `Your limit tokens_per_minute, 2000, is reached; try again in 1\.41s\.`, "2", "1410", "",
			map[string]string{"Limit-Tokens": "2000", "Remaining-Tokens": "500", "Reset-Tokens": "45s"}, "rate-limit"},
		budget.TokensPerDay: {2000, "insufficient_quota", "insufficient_quota", `Your limit tokens_per_day, 2000, is reached; it is free again at ` + later + `\.`, "43170", "", "false",
			nil, "quota"},
		budget.MoneyPerDay: {usd(3), "insufficient_quota", "insufficient_quota", `Your limit usd_per_day, \$0\.003, is reached; it is free again at ` + later + `\.`, "43170", "", "false",
			nil, "quota"},
		budget.MoneyPerMonth: {usd(3), "insufficient_quota", "insufficient_quota", `Your limit usd_per_month, \$0\.003, is reached; it is free again at ` + later + `\.`, "1857570", "", "false",
			nil, "quota"},
	} {
		t.Run(window.String(), func(t *testing.T) {
			u := newUpstream(t, answerJSON(told))
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, only(window, c.limit), nil), nil)
			if resp, body := g.post(t, chatBody); resp.StatusCode != 200 {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			g.reports.next(t)
			before := b.usage(t).Day.Spent
			resp, body := g.post(t, chatBody)
			want := `^\{"error":\{"message":"` + c.message + `","type":"` + c.kind + `","param":null,"code":"` + c.code + `"\}\}$`
			if resp.StatusCode != 429 || !regexp.MustCompile(want).MatchString(body) {
				t.Errorf("%d %s, want %s", resp.StatusCode, body, want)
			}
			header(t, resp, map[string]string{
				"Retry-After": c.retry, "Retry-After-Ms": c.ms, "X-Should-Retry": c.should, "Content-Type": "application/json",
				report.HeaderStatus: "refused; reason=" + c.status,
			})
			for _, name := range []string{"Limit", "Remaining", "Reset"} {
				for _, unit := range []string{"Requests", "Tokens"} {
					header(t, resp, map[string]string{"X-Ratelimit-" + name + "-" + unit: c.limits[name+"-"+unit]})
				}
			}
			r := g.reports.next(t)
			if r.Budget != (report.Budget{}) || b.usage(t).Day.Spent != before || len(u.seen) != 1 {
				t.Errorf("%+v, spent %+v, %d went up", r.Budget, b.usage(t).Day.Spent, len(u.seen))
			}
			if n := reporttest.Count(t, b.metrics, "sidenote_budget_refused_total", window.String()); n != 1 {
				t.Errorf("%v refusals counted", n)
			}
		})
	}
}

// only returns limits of one window.
func only(window budget.Window, limit int64) (limits budget.Limits) {
	limits[window] = limit
	return limits
}

func header(t *testing.T, resp *http.Response, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := strings.Join(resp.Header.Values(name), "|"); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// A request that exceeds a whole limit is refused permanently.
func TestBudgetRefusesForGood(t *testing.T) {
	for _, window := range []budget.Window{budget.TokensPerMinute, budget.TokensPerDay, budget.MoneyPerDay, budget.MoneyPerMonth} {
		t.Run(window.String(), func(t *testing.T) {
			u := newUpstream(t, answerJSON("{}"))
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, only(window, 500), nil), nil)
			resp, body := g.post(t, strings.Replace(chatBody, "{", `{"max_tokens":1000,`, 1))
			if want := "This request alone may take more than your limit " + window.String(); resp.StatusCode != 429 || !strings.Contains(body, want) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			header(t, resp, map[string]string{"Retry-After": "", "Retry-After-Ms": "", "X-Should-Retry": "false"})
			g.reports.next(t)
		})
	}
}

// No more requests are open at once than allowed, and the next one fits when one ends.
func TestBudgetOfParallelRequests(t *testing.T) {
	u, events, _, _ := streamer(t)
	b := newTill(t)
	g := openLimited(t, b, u, limited(t, budget.Limits{budget.ParallelRequests: 1}, nil), nil)
	_, stream, c := g.stream(t)
	resp, body := g.post(t, chatBody)
	if !strings.Contains(body, "You have as many requests at once as your limit max_parallel_requests allows, 1; try again when one has ended.") || resp.StatusCode != 429 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	header(t, resp, map[string]string{"Retry-After": "1", "Retry-After-Ms": "1000", "X-Should-Retry": ""})
	g.reports.next(t)
	close(events)
	if _, err := stream.Peek(1); err == nil {
		t.Error("the stream goes on")
	}
	c.Close()
	g.reports.next(t)
	if n := b.usage(t).Parallel; n != 0 {
		t.Errorf("%d open", n)
	}
}

// A model without a price is refused if money is limited, and otherwise free, or at the default
// price if there is one.
func TestBudgetWithoutAPrice(t *testing.T) {
	cheap := perMillion(t)[0].Prices
	for name, c := range map[string]struct {
		limits budget.Limits
		change func(*tenant.Policy)
		status int
		money  int64
	}{
		"refused":    {budget.Limits{budget.MoneyPerDay: budget.USD}, nil, 403, 0},
		"by default": {budget.Limits{budget.MoneyPerDay: budget.USD}, func(p *tenant.Policy) { p.Budget.Unpriced = &cheap }, 200, 19_000 + 20_000},
		"not money":  {budget.Limits{budget.TokensPerDay: 1e6}, nil, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answerJSON(`{"usage":{"prompt_tokens":19,"completion_tokens":10}}`))
			b := newTill(t)
			g := openLimited(t, b, u, limited(t, c.limits, c.change), nil)
			resp, body := g.post(t, strings.Replace(chatBody, `"m"`, `"unheard-of"`, 1))
			if resp.StatusCode != c.status {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			if want := `{"error":{"message":"The model ` + "`unheard-of`" + ` has no configured price and your spending is limited; use a model with a price.","type":"invalid_request_error","param":"model","code":"no_price"}}`; c.status == 403 && body != want {
				t.Error(body)
			}
			g.reports.next(t)
			if got := b.usage(t).Day.Spent.Money; got != c.money {
				t.Errorf("spent %d", got)
			}
		})
	}
}

// A brokenLedger cannot be reached, before or after it has reserved.
type brokenLedger struct {
	budget.Ledger
	holds bool
	err   error
}

func (l brokenLedger) Reserve(ctx context.Context, r budget.Reservation) (budget.Decision, error) {
	if l.holds {
		if _, err := l.Ledger.Reserve(ctx, r); err != nil {
			return budget.Decision{}, err
		}
	}
	return budget.Decision{}, l.err
}

// If the ledger fails, requests are refused and can be retried. Nothing stays reserved, even if
// the ledger's answer was lost after it had reserved. The cause is logged, but not for each
// request while the ledger is bypassed.
func TestBudgetWithoutALedger(t *testing.T) {
	gone, skipped := errors.New("the secret host of the ledger is gone"), fmt.Errorf("redis is down: %w", budget.ErrSkipped)
	for _, broken := range []brokenLedger{{err: gone}, {err: gone, holds: true}, {err: skipped}} {
		u := newUpstream(t, answerJSON("{}"))
		b := newTill(t)
		watch := reporttest.NewMetrics()
		settles := &settler{ledger: b.Memory}
		broken.Ledger = b.Memory
		ledger := budget.NewFallback(broken, budget.NewMemory(nil), settles.Settle)
		budgets := budget.NewMeter(ledger, b.Memory, settles, watch.NewBudgets())
		g := openLimited(t, b, u, limited(t, plenty(), nil), nil, func(cfg *proxy.Config) { cfg.Budgets = budgets })
		resp, body := g.post(t, chatBody)
		if want := `{"error":{"message":"Your remaining limits cannot be read at the moment; try again.","type":"server_error","param":null,"code":"ledger_unavailable"}}`; resp.StatusCode != 503 || body != want {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		header(t, resp, map[string]string{"Retry-After": "1", "X-Should-Retry": "", report.HeaderStatus: "refused; reason=ledger-unavailable"})
		r := g.reports.next(t)
		if r.Budget != (report.Budget{}) || budgets.Open() != 0 || len(u.seen) != 0 {
			t.Errorf("%+v, %d open, %d went up", r.Budget, budgets.Open(), len(u.seen))
		}
		if said := g.log.take(); strings.Contains(said, gone.Error()) != (broken.err == gone) || broken.err == gone && !strings.Contains(said, r.ID) {
			t.Errorf("%v: the log says %q", broken.err, said)
		}
		if n := reporttest.Count(t, watch, "sidenote_budget_ledger_errors_total", ""); n != 1 {
			t.Errorf("%v errors counted", n)
		}
	}
}
