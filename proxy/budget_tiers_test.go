package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy/tenant"
	"sidenote/rewrite/chat"
)

// An answer costs the price of its service tier: the one that the answer reports, or else the
// requested one if that is dearer. The dearer one is reserved. The cost is the same for tenants
// without limits.
func TestBudgetOfServiceTiers(t *testing.T) {
	const (
		sse   = "200 OK\r\nContent-Type: text/event-stream"
		told  = `"model":"m","usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}`
		input = `{"model":"m","input":"abcdefg"}`
	)
	usual, err := budget.ParsePrices("1", "", "2")
	if err != nil {
		t.Fatal(err)
	}
	double, half := usual, usual
	double.Input, double.Output, half.Input, half.Output = 2*usual.Input, 2*usual.Output, usual.Input/2, usual.Output/2
	table := budget.PriceTable{{Match: "m", Prices: usual, Tiers: map[string]budget.Prices{"priority": double, "flex": half}}}
	chats := int64(wholeCost(t, chatBody))
	with := func(fields, body string) string { return "{" + fields + body[1:] }
	const none = -1
	for name, c := range map[string]struct {
		path, body, head, answer string
		reserved, charged        int64 // times the usual price, in percent
		tier                     string
		unread                   bool // the request's tier is not read if nothing is reserved
	}{
		"neither":              {body: chatBody, answer: `{"choices":[],` + told + `}`, reserved: 200, charged: 100},
		"told":                 {body: chatBody, answer: `{"choices":[],` + told + `,"service_tier":"priority"}`, reserved: 200, charged: 200, tier: "priority"},
		"told before":          {body: chatBody, answer: `{"service_tier":"priority","choices":[{"message":{"content":"` + strings.Repeat("long ", 2000) + `"}}],` + told + `}`, reserved: 200, charged: 200, tier: "priority"},
		"told in a stream":     {body: with(`"stream":true,`, chatBody), head: sse, answer: "data: {\"choices\":[],\"service_tier\":\"flex\"}\n\ndata: {\"choices\":[]," + told + "}\n\ndata: [DONE]\n\n", reserved: 200, charged: 50, tier: "flex"},
		"auto, told":           {body: with(`"service_tier":"auto",`, chatBody), answer: `{` + told + `,"service_tier":"priority"}`, reserved: 200, charged: 200, tier: "priority"},
		"null":                 {body: with(`"service_tier":null,`, chatBody), answer: `{` + told + `,"service_tier":null}`, reserved: 200, charged: 100},
		"asked":                {body: with(`"service_tier":"priority",`, chatBody), answer: `{` + told + `}`, reserved: 200, charged: 200, tier: "priority"},
		"asked and given":      {body: with(`"service_tier":"flex",`, chatBody), answer: `{` + told + `,"service_tier":"flex"}`, reserved: 100, charged: 50, tier: "flex"},
		"asked and not given":  {body: with(`"service_tier":"priority",`, chatBody), answer: `{` + told + `,"service_tier":"default"}`, reserved: 200, charged: 100},
		"cheaper, unconfirmed": {body: with(`"service_tier":"flex",`, chatBody), answer: `{` + told + `}`, reserved: 100, charged: 100},
		"without prices":       {body: with(`"service_tier":"scale",`, chatBody), answer: `{` + told + `,"service_tier":"scale"}`, reserved: 100, charged: 100},
		"no answer":            {body: with(`"service_tier":"priority",`, chatBody), head: "504 Late\r\nContent-Type: text/plain", reserved: 200, charged: none, tier: "priority"},
		"responses":            {path: "/v1/responses", body: with(`"service_tier":"priority",`, input), answer: `{"model":"m","service_tier":"priority","output":[],"usage":{"input_tokens":19,"output_tokens":10},"metadata":{}}`, reserved: 200, charged: 200, tier: "priority"},
		"responses, asked":     {path: "/v1/responses", body: with(`"service_tier":"priority",`, input), answer: `{"output":[],"usage":{"input_tokens":19,"output_tokens":10}}`, reserved: 200, charged: 200, tier: "priority", unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limits := range []budget.Limits{plenty(), {}, {budget.RequestsPerMinute: 100}} {
				u := newUpstream(t, func(_ seen, w io.Writer) {
					head := c.head
					if head == "" {
						head = okJSON
					}
					fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(c.answer), c.answer)
				})
				b := newTill(t)
				g := openLimited(t, b, u, limited(t, limits, func(p *tenant.Policy) { p.Budget.Prices = table }), nil)
				path, prompt := c.path, int64(len(c.body))
				if path == "" {
					path, prompt = "/v1/chat/completions", chats
				}
				if path == "/v1/responses" {
					prompt = int64(costOf(t, chat.Responses, c.body))
				}
				resp := g.raw(t, strings.Replace(chatRequest(c.body), "/v1/chat/completions", path, 1))
				_, _ = io.Copy(io.Discard, resp.Body)
				r := g.reports.next(t)
				charged, tier := c.charged*(19_000+20_000)/100, c.tier
				switch {
				case limits[budget.TokensPerDay] == 0:
					if c.charged == none || c.unread {
						continue // nothing was reserved or read
					}
				case r.Budget.Estimate.Money != c.reserved*(prompt*1000+1000*2000)/100:
					t.Errorf("reserved %+v, want %d times the price of %d and 1000 tokens", r.Budget.Estimate, c.reserved, prompt)
				case c.charged == none:
					charged = r.Budget.Estimate.Money
				}
				if r.Budget.Charged.Money != charged || r.Budget.Tier != tier {
					t.Errorf("charged %+v by %q, want %d by %q", r.Budget.Charged, r.Budget.Tier, charged, tier)
				}
			}
		})
	}
}
