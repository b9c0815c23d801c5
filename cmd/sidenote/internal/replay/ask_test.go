package replay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/proxy"
	"sidenote/proxy/record/recordtest"
	"sidenote/proxy/tenant"
)

// An oracle is an upstream that answers with a citation, or fails as it is told.
type oracle struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	fail   []int // statuses of the next answers
}

func newOracle(t *testing.T) *oracle {
	o := &oracle{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.bodies = append(o.bodies, r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(body))
		if len(o.fail) > 0 {
			status := o.fail[0]
			o.fail = o.fail[1:]
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"16 weeks [1], see [9]."},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`)
	}))
	t.Cleanup(o.Close)
	return o
}

// asking makes a rig ask an upstream under a budget.
func asking(t *testing.T, o *oracle, usd string) (*rig, *replay.Asker) {
	t.Helper()
	r := newRig()
	prices, err := budget.ParsePrices("2", "1", "8")
	if err != nil {
		t.Fatal(err)
	}
	r.policy("plain", func(p *tenant.Policy) {
		p.Upstream, p.Budget.Prices = "up", budget.PriceTable{{Match: "m", Prices: prices}}
	})
	limit, err := budget.ParseUSD(usd)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(o.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	ask := replay.NewAsker(map[string]proxy.Upstream{"up": {Name: "up", BaseURL: base}}, "sk-own", limit)
	t.Cleanup(ask.Close)
	return r, ask
}

// answers replays records with an upstream.
func answers(t *testing.T, r *rig, ask *replay.Asker, records recordtest.List) (*replay.Answers, error) {
	t.Helper()
	r.replayer.Ask = ask
	report, err := (&replay.Run{Replayer: r.replayer, Store: records, Progress: func(int, int) {}}).Do(t.Context())
	if err != nil {
		return nil, err
	}
	return report.Answers, nil
}

// The model is asked with the new prompt, once, not as a stream, and its answers stand beside the
// recorded ones.
func TestAsks(t *testing.T) {
	o := newOracle(t)
	r, ask := asking(t, o, "1")
	whole := r.record(t, "plain", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"sidenote":{"mode":"inject"},"messages":[{"role":"user","content":"leave"}]}`, 0)
	short := r.asked(t, "plain", "dogs")
	short.Checked, short.Unknown, short.PromptTokens, short.CompletionTokens, short.Cost = true, 3, 90, 5, 0.5
	got, err := answers(t, r, ask, recordtest.List{whole, short})
	if err != nil {
		t.Fatal(err)
	}
	const cost = 100*2e-6 + 10*8e-6
	now := replay.AnswerSide{Citing: 1, CitingShare: 1, Citations: 1, Unknown: 1, PromptTokens: 100, CompletionTokens: 10, CostUSD: cost}
	then := replay.AnswerSide{Unknown: 3, PromptTokens: 90, CompletionTokens: 5, CostUSD: 0.5}
	if got.Answered != 2 || got.Compared != 1 || got.Now != now || got.Before != then || got.SpentUSD != 2*cost || got.BudgetUSD != 1 {
		t.Errorf("%+v", got)
	}
	for i, sent := range o.bodies {
		at, body, _ := strings.Cut(sent, " Bearer sk-own ")
		var chat map[string]any
		if err := json.Unmarshal([]byte(body), &chat); err != nil || at != "/v1/chat/completions" || chat["stream"] != nil || chat["stream_options"] != nil || chat["sidenote"] != nil {
			t.Errorf("call %d: %s", i, sent)
		}
		if limit := chat["max_tokens"]; limit != 7. && limit != 2048. {
			t.Errorf("call %d has the limit %v", i, limit)
		}
		if !strings.Contains(body, "<source id") {
			t.Errorf("call %d has no sources: %s", i, body)
		}
	}
}

// What the next answer can cost is never more than what is left of the budget.
func TestBudgetIsKept(t *testing.T) {
	o := newOracle(t)
	r, ask := asking(t, o, "0.05") // an answer can cost 0.0164 dollars and its prompt, and costs 0.00028
	var records recordtest.List
	for range 300 {
		records = append(records, r.asked(t, "plain", "leave"))
	}
	got, err := answers(t, r, ask, records)
	if err != nil {
		t.Fatal(err)
	}
	if got.SpentUSD > 0.05 || got.NotAsked == 0 || got.Answered < 100 || got.Answered+got.NotAsked != 300 || len(o.bodies) != got.Answered {
		t.Errorf("%+v, %d calls", got, len(o.bodies))
	}
	if _, ask = asking(t, o, "0.016"); true {
		if got, err = answers(t, r, ask, records[:3]); err != nil || got.NotAsked != 3 || got.SpentUSD != 0 {
			t.Errorf("too small for one: %+v, %v", got, err)
		}
	}
}

// Limits of the upstream are waited for, and other errors are counted and cost nothing.
func TestUpstreamFails(t *testing.T) {
	o := newOracle(t)
	r, ask := asking(t, o, "1")
	o.fail = []int{429, 429, 500, 429, 429, 429, 429, 429}
	var records recordtest.List
	for i := range 2 {
		rec := r.asked(t, "plain", "leave")
		rec.ID = fmt.Sprint(i)
		records = append(records, rec)
	}
	var got []*replay.Answers
	for _, rec := range records {
		a, err := answers(t, r, ask, recordtest.List{rec})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if e := got[0].Errors; len(e) != 1 || e[0].Cause != "500" || got[0].SpentUSD != 0 || e[0].Example != "0" {
		t.Errorf("%+v", got[0])
	}
	if e := got[1].Errors; len(e) != 1 || e[0].Cause != "429" || len(o.bodies) != 3+5 {
		t.Errorf("%+v after %d calls", got[1], len(o.bodies))
	}
	o.Close()
	a, err := answers(t, r, ask, records[:1])
	if err != nil || len(a.Errors) != 1 || a.Errors[0].Cause != "connection" || a.SpentUSD == 0 { // it may have been answered
		t.Errorf("%+v, %v", a, err)
	}
}

// Without a price no budget can be kept, so nothing is asked.
func TestNoPrice(t *testing.T) {
	o := newOracle(t)
	r, ask := asking(t, o, "1")
	rec := r.asked(t, "plain", "leave")
	rec.Model = "other"
	_, err := answers(t, r, ask, recordtest.List{rec})
	if !errors.Is(err, budget.ErrNoPrice) || !strings.Contains(err.Error(), `model "other"`) || len(o.bodies) > 0 {
		t.Errorf("%v", err)
	}
}
