package proxy_test

import (
	"fmt"
	"io"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
)

// Tokens that the upstream read from its cache, or wrote into it, are charged at their own price,
// in whatever form the answer reports them, for tenants with and without limits. They are counted,
// too.
func TestBudgetOfCachedTokens(t *testing.T) {
	prices, err := budget.PriceText{Input: "5", CachedInput: "0.5", CacheWrite: "6.25", CacheWrite1h: "10", Output: "30"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := budget.ParsePrices("5", "0.5", "30")
	if err != nil {
		t.Fatal(err)
	}
	const (
		sse    = "200 OK\r\nContent-Type: text/event-stream"
		counts = `"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195`
	)
	for name, c := range map[string]struct {
		head, answer        string
		cached, write, hour int64 // tokens
		usd                 int64 // millionths of a dollar
		without             int64 // the same without a price of cache writes
	}{
		"written":         {okJSON, `{"choices":[],"usage":{` + counts + `,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":6000}}}`, 0, 6000, 0, 38_725, 31_225},
		"DeepSeek":        {okJSON, `{"choices":[],"usage":{` + counts + `,"prompt_cache_hit_tokens":6000,"prompt_cache_miss_tokens":185}}`, 6000, 0, 0, 4_225, 4_225},
		"Kimi":            {okJSON, `{"choices":[],"usage":{` + counts + `,"cached_tokens":6000}}`, 6000, 0, 0, 4_225, 4_225},
		"Kimi, streamed":  {sse, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{" + counts + ",\"cached_tokens\":6000}}]}\n\ndata: [DONE]\n\n", 6000, 0, 0, 4_225, 4_225},
		"LiteLLM":         {okJSON, `{"choices":[],"usage":{` + counts + `,"cache_creation_input_tokens":6000,"cache_read_input_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}}`, 0, 6000, 0, 38_725, 31_225},
		"for an hour":     {okJSON, `{"choices":[],"usage":{` + counts + `,"cache_creation_input_tokens":6000,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":5000}}}`, 0, 6000, 5000, 57_475, 31_225},
		"without a cache": {okJSON, `{"choices":[],"usage":{` + counts + `}}`, 0, 0, 0, 31_225, 31_225},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limits := range []budget.Limits{plenty(), {}} {
				for _, p := range []budget.Prices{prices, plain} {
					u := newUpstream(t, func(_ seen, w io.Writer) {
						fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", c.head, len(c.answer), c.answer)
					})
					b := newTill(t)
					tenant := limited(t, limits, func(of *tenant.Policy) {
						of.Budget.Prices = budget.PriceTable{{Match: "m", Prices: p}}
					})
					g := openLimited(t, b, u, tenant, nil)
					body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%4000d"}],"stream":%t}`, 1, c.head == sse)
					if resp, got := g.post(t, body); resp.StatusCode != 200 || got != c.answer {
						t.Fatalf("%d %s", resp.StatusCode, got)
					}
					want := c.usd
					if p == plain {
						want = c.without
					}
					if r := g.reports.next(t); r.Budget.Charged.Money != want*1000 || r.Usage.CacheWrite != c.write || r.Usage.CacheWrite1h != c.hour || r.Usage.CachedInput != c.cached {
						t.Errorf("charged %d, want %d thousand; %+v", r.Budget.Charged.Money, want, r.Usage)
					}
					for kind, n := range map[string]int64{"input": 6185, "cached_input": c.cached, "cache_write": c.write, "cache_write_1h": c.hour} {
						if got := reporttest.Count(t, g.metrics, "sidenote_tokens_total", kind); got != float64(n) {
							t.Errorf("%v tokens of %s counted, want %d", got, kind, n)
						}
					}
				}
			}
		})
	}
}
