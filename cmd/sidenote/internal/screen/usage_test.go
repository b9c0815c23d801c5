package screen

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
)

// The columns of a table are aligned, however long a name is.
func TestUsageColumns(t *testing.T) {
	nothing := admin.UsagePeriod{Spent: admin.UsageAmount{USD: "0"}}
	some := admin.UsagePeriod{Spent: admin.UsageAmount{Requests: 12345, Tokens: 6789012, Injected: 1000, USD: "1234.567890123"}}
	all := []admin.Usage{
		{ID: "a-department-with-a-long-name", Day: nothing, Month: nothing, Windows: []admin.UsageWindow{{Window: "tokens_per_day", Limit: "10", Used: "0", Left: "10"}}},
		{ID: "b", Day: some, Month: some, Windows: []admin.UsageWindow{
			{Window: "tokens_per_day", Limit: "10", Used: "2", Left: "8"}, {Window: "usd_per_day", Limit: "0.5", Used: "0.25", Left: "0.25"},
		}},
		{ID: "c", Day: nothing, Month: nothing},
	}
	var w strings.Builder
	Usage(&w, all)
	const want = `TENANT                           REQUESTS          TOKENS        INJECTED             USD  FULLEST
a-department-with-a-long-name           0               0               0               0  -
b                                  12,345       6,789,012           1,000  1234.567890123  usd_per_day 50 %
c                                       0               0               0               0  no limits
requests and tokens of today, US dollars of this month (UTC)
`
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

// The use of prompt caches follows the usage, shares in percent, costs where there are prices.
func TestUsageOfPromptCaches(t *testing.T) {
	prompts := []explain.PromptUse{
		{Tenant: "acme", Policy: "a-long-policy", Model: "gpt-5*", Requests: 1200, Input: 5_000_000, CachedShare: .756, Context: 800_000, ContextCachedShare: .1, ContextUSD: 1.25, Priced: 9},
		{Tenant: "acme", Policy: "base", Model: "other", Requests: 1, Input: 10},
	}
	var one, all strings.Builder
	TenantUsage(&one, admin.Usage{ID: "acme", Prompts: prompts})
	Usage(&all, []admin.Usage{{ID: "acme", Prompts: prompts}, {ID: "b"}})
	const want = `
prompt caches of upstreams, last hour of this process
TENANT POLICY MODEL          REQUESTS           INPUT    CACHED           ADDED    CACHED     ADDED USD
acme a-long-policy gpt-5*       1,200       5,000,000    75.6 %         800,000    10.0 %      1.250000
acme base other                     1              10     0.0 %               0     0.0 %      no price
what was added, and of it cached, is estimated by its position in the prompt
`
	for _, got := range []string{one.String(), all.String()} {
		if !strings.HasSuffix(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// A tenant's usage is listed by kind of call.
func TestUsageKinds(t *testing.T) {
	kinds := map[string]admin.UsageAmount{"stage": {Requests: 3, Tokens: 4410, USD: "0.5"}, "chat": {Requests: 1, Tokens: 312, Injected: 246, USD: "0"}}
	var w strings.Builder
	TenantUsage(&w, admin.Usage{ID: "acme", Day: admin.UsagePeriod{Kinds: kinds, Spent: admin.UsageAmount{USD: "0.5"}, Held: admin.UsageAmount{USD: "0"}}})
	const want = `
                REQUESTS          TOKENS        INJECTED             USD
  chat                 1             312             246               0
  stage                3           4,410               0             0.5
  spent                0               0               0             0.5
`
	if !strings.Contains(w.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

func TestUsageNumbers(t *testing.T) {
	for _, c := range []struct{ window, n, want string }{
		{"tokens_per_day", "5000000", "5,000,000"}, {"tokens_per_day", "0", "0"},
		{"usd_per_day", "1.5", "$1.50"}, {"usd_per_day", "60", "$60.00"}, {"usd_per_month", "0.000127", "$0.000127"}, {"usd_per_month", "0", "$0.00"},
	} {
		if got := number(admin.UsageWindow{Window: c.window}, json.Number(c.n)); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.window, c.n, got, c.want)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Millisecond: "1s", 59900 * time.Millisecond: "60s", 61 * time.Second: "2m", 59*time.Minute + 30*time.Second: "60m",
		17*time.Hour + 23*time.Minute + time.Second: "17h 24m", 24 * time.Hour: "24h 0m", 185 * time.Hour: "7d 17h", 24*time.Hour + time.Second: "1d 1h",
	} {
		if got := wait(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
