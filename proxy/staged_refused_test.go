package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite/staged"
)

// refusingParam answers like then, but refuses requests that have a parameter.
func refusingParam(param, answer string, then func(seen, io.Writer)) func(seen, io.Writer) {
	return func(s seen, w io.Writer) {
		if strings.Contains(s.body, `"`+param+`":`) {
			writeWhole(w, "400 Bad Request\r\nContent-Type: application/json", answer)
			return
		}
		then(s, w)
	}
}

// A stage whose model refuses a parameter that Sidenote chose, or that is meant for the client's
// own model, is called once more without it. Later stages omit it from the start, also in later
// requests.
func TestStagesLeaveOutWhatModelRefuses(t *testing.T) {
	degrees := 0.2
	ours := staged.Stage{Name: "first", Temperature: &degrees, MaxTokens: 50}
	other := staged.Stage{Name: "first", Model: "other"}
	for name, c := range map[string]struct {
		stage         staged.Stage
		member        string // of the client's request
		param, answer string
		calls         int // calls of the first request
		fails         bool
		has           string // part of the last request of a stage
	}{
		"our temperature":     {ours, "", "temperature", "`temperature` is deprecated for this model.", 3, false, `"max_tokens":50`},
		"our limit's name":    {ours, "", "max_tokens", "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", 3, false, `"max_completion_tokens":50`},
		"our limit":           {ours, "", "max_tokens", "max_tokens: 50 > 20", 3, false, `"temperature":0.2`},
		"another model's":     {other, `"reasoning_effort":"high",`, "reasoning_effort", "Model other does not support parameter reasoningEffort.", 4, false, `"model":"other"`},
		"another temperature": {other, `"temperature":2,`, "temperature", "invalid temperature: only 1 is allowed", 4, false, `"model":"other"`},
		"the client's own":    {staged.Stage{Name: "first"}, `"temperature":2,`, "temperature", "invalid temperature: only 1 is allowed", 2, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, refusingParam(c.param, fmt.Sprintf(`{"error":{"message":%q}}`, c.answer), saying(map[string]string{"first": "Evidence.", "last": "Final."})))
			last := c.stage
			last.Name = "last"
			g := oddStages(t, u, nil, c.stage, last)
			body := strings.Replace(oddBody, "{", "{"+c.member, 1)
			for i, calls := range []int{c.calls, 2} {
				p := g.plays(t, body)
				if fails := p.status == 400; fails != c.fails || !c.fails && !strings.Contains(p.body, "Final.") {
					t.Fatalf("request %d: %d %s: %s", i, p.status, p.told(), p.body)
				}
				g.reports.next(t)
				if strings.HasPrefix(name, "another") && i == 0 {
					calls = 3
				}
				if len(u.seen) != calls {
					t.Errorf("request %d: %d calls, want %d", i, len(u.seen), calls)
				}
				for len(u.seen) > 0 {
					if s := u.next(t); len(u.seen) < 2 && !strings.Contains(s.body, c.has) {
						t.Errorf("request %d: a stage sent %s", i, s.body)
					}
				}
			}
		})
	}
}

// Under limits the cap of an answer is renamed, and never left out: the refused call costs
// nothing.
func TestStagesKeepTheirCapUnderLimits(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		told   string
		calls  int
	}{
		"another name": {"'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "staged; stages=4; ", 5},
		"none":         {"max_tokens is not supported", "injected; retry=max-tokens; ", 3}, // the stages failed
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, refusingParam("max_tokens", fmt.Sprintf(`{"error":{"message":%q}}`, c.answer), plays(-1, nil)))
			b := newTill(t)
			policy := limited(t, only(budget.TokensPerDay, 1_000_000), func(p *tenant.Policy) {
				p.Rewrite.Knowledge, p.OutputCap = []string{"kb-acme"}, 10_000
				inStages(t, p, stagedTerms{})
			})
			g := openLimited(t, b, u, policy, retrieval.Func(staff{}.Retrieve))
			if p := g.plays(t, weeksBody); !strings.HasPrefix(p.told(), c.told) {
				t.Errorf("%d %s: %s", p.status, p.told(), p.body)
			}
			g.reports.next(t)
			if len(u.seen) != c.calls {
				t.Errorf("%d calls, want %d", len(u.seen), c.calls)
			}
			for i := 0; len(u.seen) > 0; i++ {
				if s := u.next(t); i > 0 && c.calls == 5 && (!strings.Contains(s.body, `"max_completion_tokens":`) || strings.Contains(s.body, `"max_tokens":`)) {
					t.Errorf("call %d sent %s", i, s.body)
				}
			}
		})
	}
}
