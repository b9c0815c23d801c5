package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// What was added to a prompt is measured by its position: at the end of the system message it lies
// in the part that the upstream read from its cache, behind the question it does not. It is priced
// at the tier that the answer reports, for tenants with and without limits.
func TestCostOfWhatWasAdded(t *testing.T) {
	price := func(input, cached, write, output string) budget.Prices {
		p, err := budget.PriceText{Input: input, CachedInput: cached, CacheWrite: write, CacheWrite1h: write, Output: output}.Parse()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	table := budget.PriceTable{{Match: "m", Prices: price("4", "1", "5", "30"), Tiers: map[string]budget.Prices{"flex": price("2", "0.5", "2.5", "15")}}}
	const usage = `"usage":{"prompt_tokens":3000,"completion_tokens":10,"total_tokens":3010,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}`
	const body = `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"How long is parental leave? %12000d"}]}`
	f := func(place rewrite.Placement, cached, written int, tier string, want func(n int64) budget.Tokens, perToken func(n int64) budget.PicoDollars) {
		t.Helper()
		for _, limits := range []budget.Limits{plenty(), {}} {
			ans := fmt.Sprintf(`{"model":"m","choices":[],`+usage+`,"service_tier":%q}`, cached, written, tier)
			u := newUpstream(t, answerJSON(ans))
			p := limited(t, limits, func(of *tenant.Policy) {
				of.Budget.Prices, of.Rewrite.Knowledge, of.Rewrite.Placement = table, []string{"handbook"}, place
			})
			g := openLimited(t, newTill(t), u, p, nil)
			if resp, _ := g.post(t, fmt.Sprintf(body, 1)); resp.StatusCode != 200 {
				t.Fatal(resp.StatusCode)
			}
			r := g.reports.next(t)
			n := int64(r.Rewrite.Ledger.Used)
			if c := r.Context; n == 0 || c.Tokens != want(n) || !c.Priced || c.Cost != perToken(n) {
				t.Errorf("%s, %d cached, %d written, %s: got %+v of %d, want %+v", place, cached, written, tier, r.Context, n, want(n))
			}
		}
	}
	plain := func(n int64) budget.Tokens { return budget.Tokens{Input: n} }
	read := func(n int64) budget.Tokens { return budget.Tokens{Input: n, CachedInput: n} }
	writ := func(n int64) budget.Tokens { return budget.Tokens{Input: n, CacheWrite: n} }
	at := func(price budget.PicoDollars) func(int64) budget.PicoDollars {
		return func(n int64) budget.PicoDollars { return budget.PicoDollars(n) * price }
	}
	f(rewrite.PlaceSystem, 2000, 0, "default", read, at(1e6))
	f(rewrite.PlaceSystem, 2000, 0, "flex", read, at(5e5))
	f(rewrite.PlaceSystem, 0, 2000, "default", writ, at(5e6))
	f(rewrite.PlaceSystem, 0, 0, "default", plain, at(4e6))
	f(rewrite.PlaceLastUser, 2000, 500, "default", plain, at(4e6))
	f(rewrite.PlaceLastUser, 2000, 500, "flex", plain, at(2e6))
}

// A usage that cannot be true is ignored. The log's line names the numbers, and one warning per
// upstream and kind does.
func TestUsageThatLiesIsNamedOnce(t *testing.T) {
	const lie = `{"choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":12,"cache_write_tokens":8}}}`
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", okJSON, len(lie), lie)
	})
	g := openIn(t, u, func(*proxy.Config) {})
	for range 3 {
		if _, body := g.post(t, chatBody); body != lie {
			t.Errorf("relayed %q", body)
		}
		r := g.reports.next(t)
		if r.UsageFound != answer.UsageInconsistent || r.UsageDetail != "input 19, of it cached 12 and written 8" || r.Usage != (answer.Usage{}) || r.Context.Input != 0 {
			t.Errorf("%s %q %+v %+v", r.UsageFound, r.UsageDetail, r.Usage, r.Context)
		}
	}
	if text := g.log.take(); strings.Count(text, "reports a usage that cannot be true") != 1 || !strings.Contains(text, "input 19, of it cached 12 and written 8") {
		t.Error(text)
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_usage_ignored_total", "inconsistent"); n != 3 {
		t.Errorf("counted %v times", n)
	}
}
