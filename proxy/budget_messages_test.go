package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/tenant"
)

// Messages are reserved for and charged like chats: by the
// reported usage, streamed or not, or else by the received text.
func TestBudgetOfMessages(t *testing.T) {
	const (
		sse   = "200 OK\r\nContent-Type: text/event-stream"
		told  = `"usage":{"input_tokens":3,"cache_creation_input_tokens":400,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":300},"output_tokens":%d}`
		body  = `{"model":"m","max_tokens":50,"system":"Be brief.","messages":[{"role":"user","content":"Hello"}]}`
		delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n"
		ends  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":37}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	)
	starts := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"content\":[]," + fmt.Sprintf(told, 1) + "}}\n\n"
	whole := `{"model":"m","content":[{"type":"text","text":"four"}],` + fmt.Sprintf(told, 37) + `}`
	prices, err := budget.PriceText{Input: "1", CachedInput: "0.50", CacheWrite: "1.25", CacheWrite1h: "3", Output: "2"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	const input = 3*1000 + 100*500 + 100*1250 + 300*3000 // cost of told's input
	spent := func(tokens, money int64) budget.Amount {
		return budget.Amount{Requests: 1, Tokens: tokens, Money: money}
	}
	const prompt = 25 // bytes of the two texts, and the overhead of messages
	for name, c := range map[string]struct {
		head, answer string
		length       int
		want         budget.Amount
		by           answer.SettlementBasis
		unlimited    bool // the same without limits
	}{
		"whole":             {okJSON, whole, 0, spent(540, input+37*2000), answer.SettledAsReported, true},
		"streamed":          {sse, starts + delta + ends, 0, spent(540, input+37*2000), answer.SettledAsReported, true},
		"streamed and long": {sse, starts + strings.Repeat(delta, 500) + ends, 0, spent(540, input+37*2000), answer.SettledAsReported, true},
		"cut":               {sse, starts + delta + delta, 9000, spent(503+10, input+10*2000), answer.SettledAsCounted, false},
		"untold":            {okJSON, `{"content":[{"type":"text","text":"four"}]}`, 0, spent(prompt+4, prompt*1000+4*2000), answer.SettledAsCounted, false},
		"refused":           {"529 Overloaded\r\nContent-Type: application/json", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 0, budget.Amount{}, answer.SettledAsNothing, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limits := range []budget.Limits{plenty(), {}} {
				if limits == (budget.Limits{}) && !c.unlimited {
					continue
				}
				var sent string
				u := newUpstream(t, func(s seen, w io.Writer) {
					sent = s.body
					fmt.Fprintf(w, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", c.head, max(c.length, len(c.answer)), c.answer)
					_ = w.(io.Closer).Close()
				})
				b := newTill(t)
				g := openLimited(t, b, u, limited(t, limits, func(p *tenant.Policy) {
					p.Budget.Prices, p.Routes = budget.PriceTable{{Match: "m", Prices: prices}}, []string{"/messages"}
				}), nil)
				resp := g.raw(t, strings.Replace(chatRequest(body), "/v1/chat/completions", "/v1/messages", 1))
				got, _ := io.ReadAll(resp.Body) // one answer is cut
				if r := g.reports.next(t); string(got) != c.answer || sent != body || r.Budget.Charged != c.want || r.Budget.By != c.by {
					t.Errorf("sent %s, relayed %s; %+v, %+v %s, want %+v as %s", sent, got, r.Budget, r.Usage, r.UsageFound, c.want, c.by)
				} else if limits != (budget.Limits{}) && r.Budget.Estimate != spent(prompt+50, prompt*1250+50*2000) {
					t.Errorf("reserved %+v", r.Budget.Estimate)
				}
			}
		})
	}
}

// A message that does not fit the budget is refused before it is sent. One that asks for a longer
// answer than its tenant may have gets a shorter one. One that only fills the cache is relayed.
func TestBudgetRefusesMessages(t *testing.T) {
	const hello = `{"role":"user","content":"Hello"}`
	var sent []string
	u := newUpstream(t, func(s seen, w io.Writer) {
		sent = append(sent, s.body)
		const answer = `{"usage":{"input_tokens":20,"output_tokens":0}}`
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", okJSON, len(answer), answer)
	})
	b := newTill(t)
	g := openLimited(t, b, u, limited(t, budget.Limits{budget.TokensPerDay: 1200}, func(p *tenant.Policy) { p.Routes = []string{"/messages"} }), nil)
	for _, c := range []struct {
		body, sent string
		status     int
	}{
		{`{"model":"m","max_tokens":5000,"messages":[` + hello + `]}`, `{"model":"m","max_tokens":1000,"messages":[` + hello + `]}`, http.StatusOK},
		{`{"model":"m","max_tokens":0,"messages":[` + hello + `]}`, `{"model":"m","max_tokens":0,"messages":[` + hello + `]}`, http.StatusOK},
		{`{"model":"m","messages":[` + hello + `]}`, `{"max_tokens":300,"model":"m","messages":[` + hello + `]}`, http.StatusOK},
		{`{"model":"m","max_tokens":-1,"messages":[` + hello + `]}`, "", http.StatusBadRequest},
		{`{"model":"m","max_tokens":1,"max_tokens":9,"messages":[` + hello + `]}`, "", http.StatusBadRequest},
		{`{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"` + strings.Repeat("x", 400) + `"}]}`, "", http.StatusTooManyRequests},
	} {
		sent = nil
		resp := g.raw(t, strings.Replace(chatRequest(c.body), "/v1/chat/completions", "/v1/messages", 1))
		got, err := io.ReadAll(resp.Body)
		g.reports.next(t)
		if err != nil || resp.StatusCode != c.status || strings.Join(sent, "") != c.sent {
			t.Errorf("%s: %d %s %v, sent %q", c.body, resp.StatusCode, got, err, sent)
		}
	}
}

// A message whose prompt may be cached for an hour is reserved at the price of that, however its
// lifetime is spelled.
func TestBudgetOfMessagesCachedForHour(t *testing.T) {
	prices, err := budget.PriceText{Input: "1", CacheWrite: "1.25", CacheWrite1h: "3", Output: "2"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, func(_ seen, w io.Writer) {
		const answer = `{"usage":{"input_tokens":20,"output_tokens":1}}`
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", okJSON, len(answer), answer)
	})
	g := openLimited(t, newTill(t), u, limited(t, plenty(), func(p *tenant.Policy) {
		p.Budget.Prices, p.Routes = budget.PriceTable{{Match: "m", Prices: prices}}, []string{"/messages"}
	}), nil)
	for mark, price := range map[string]int64{
		`{"type":"ephemeral"}`:                      1250,
		`{"type":"ephemeral","ttl":"5m"}`:           1250,
		`{"type":"ephemeral","ttl":"1h"}`:           3000,
		`{"type":"ephemeral","ttl":"\u0031\u0068"}`: 3000,
	} {
		body := `{"model":"m","max_tokens":50,"cache_control":` + mark + `,"messages":[{"role":"user","content":"Hello"}]}`
		resp := g.raw(t, strings.Replace(chatRequest(body), "/v1/chat/completions", "/v1/messages", 1))
		_, _ = io.Copy(io.Discard, resp.Body)
		r := g.reports.next(t)
		if prompt := r.Budget.Estimate.Tokens - 50; prompt <= 0 || r.Budget.Estimate.Money != prompt*price+50*2000 {
			t.Errorf("%s: reserved %+v", mark, r.Budget.Estimate)
		}
	}
}
