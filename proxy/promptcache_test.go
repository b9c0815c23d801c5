package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// A prefixCache bills prompts as an upstream does that reads the longest beginning of an earlier
// prompt from its cache. A byte is a token, as in testModels.
type prefixCache struct {
	mu      sync.Mutex
	prompts []string
}

func (c *prefixCache) answer(s seen, w io.Writer) {
	var request struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal([]byte(s.body), &request); err != nil {
		panic(err)
	}
	prompt := ""
	for _, m := range request.Messages {
		prompt += m.Role + "\n" + m.Content + "\n"
	}
	answerJSON(fmt.Sprintf(`{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":%d}}}`, len(prompt), c.read(prompt)))(s, w)
}

// read returns how much of a prompt is read from the cache, and writes it there.
func (c *prefixCache) read(prompt string) (cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, before := range c.prompts {
		n := 0
		for n < min(len(before), len(prompt)) && before[n] == prompt[n] {
			n++
		}
		cached = max(cached, n)
	}
	if c.prompts = append(c.prompts, prompt); cached < 1024 {
		return 0
	}
	return cached / 128 * 128
}

// converse sends conversations of twelve turns and returns the last report.
func (g *rig) converse(t *testing.T, system string, conversations int) (last rewrite.Ledger) {
	t.Helper()
	for n := range conversations {
		var messages []map[string]string
		add := func(role, text string) { messages = append(messages, map[string]string{"role": role, "content": text}) }
		add("system", system)
		for turn := range 12 {
			add("user", fmt.Sprintf("Question %d of %s %d %p?", turn, t.Name(), n, &messages))
			body, err := json.Marshal(map[string]any{"model": "gpt", "messages": messages})
			if err != nil {
				t.Fatal(err)
			}
			g.post(t, string(body), "Connection: close")
			of := g.reports.next(t)
			last = of.Rewrite.Ledger
			add("assistant", strings.Repeat(fmt.Sprint("Answer ", turn, " "), 100))
		}
	}
	return last
}

// foundFor returns a source whose text depends on the question.
func foundFor(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	return retrieval.Result{Bases: q.Bases, Cache: retrieval.CacheMiss, Sources: []retrieval.Source{{
		Type: "rag", Knowledge: q.Bases[0].Knowledge, Doc: "a.md", Name: "A", Text: strings.Repeat("For "+q.Text+" ", 30), Score: 5,
	}}}, nil
}

func TestSourcesThatBreakAPromptCache(t *testing.T) {
	const warning = "sources break the prompt cache"
	short, long := "Be brief.", strings.Repeat("Be brief and friendly. ", 50)
	for name, c := range map[string]struct {
		guard  tenant.CacheGuard
		cache  tokens.PromptCache
		system string
		lines  int
		state  cacheguard.State
		after  rewrite.Placement
		note   string
	}{
		"off":                        {tenant.GuardOff, tokens.CachePrefix, short, 0, cacheguard.Fine, rewrite.PlaceSystem, ""},
		"warn":                       {tenant.GuardWarn, tokens.CachePrefix, short, 1, cacheguard.Warned, rewrite.PlaceSystem, ""},
		"switch":                     {tenant.GuardSwitch, tokens.CachePrefix, short, 1, cacheguard.Switched, rewrite.PlaceSplit, "placement auto: chosen by cache_guard, instead of system"},
		"switch of an unknown model": {tenant.GuardSwitch, tokens.CacheUnknown, long, 1, cacheguard.Switched, rewrite.PlaceSplit, "placement split: chosen by cache_guard, instead of system"},
		"nothing is cached":          {tenant.GuardSwitch, tokens.CacheUnknown, short, 0, cacheguard.Fine, rewrite.PlaceSystem, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, new(prefixCache).answer)
			cfg := proxy.Config{
				Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
				Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
					p.CacheGuard, p.Rewrite.PromptCache = c.guard, c.cache
				})},
			}
			rw := &rewrite.Rewriter{Retriever: retrieval.Func(foundFor), Models: testModels{}}
			g := startWith(t, cfg, rw)
			first := g.converse(t, c.system, 1)
			if first.Placement != rewrite.PlaceSystem {
				t.Fatalf("the first conversation has the placement %q", first.Placement)
			}
			last := g.converse(t, c.system, 24)
			if moved := last.Moved != ""; moved != (c.note != "") || moved && !strings.HasPrefix(c.note, "placement "+string(last.Moved)+":") {
				t.Errorf("at last the placement is moved to %q, and the note is to be %q", last.Moved, c.note)
			}
			if last.Placement != c.after || strings.Join(last.Notes, "; ") != c.note {
				t.Errorf("at last the placement is %q with the notes %q, want %q with %q", last.Placement, last.Notes, c.after, c.note)
			}
			log := g.log.take()
			if n := strings.Count(log, warning); n != c.lines {
				t.Errorf("%d warnings, want %d:\n%s", n, c.lines, log)
			}
			if c.lines > 0 && !strings.Contains(log, "upstream=stub model=test placement=system cached_share=") {
				t.Errorf("the warning does not say what it is about:\n%s", log)
			}
			var state cacheguard.State
			for _, s := range g.server.PromptCaches() {
				state = s.State
			}
			if state != c.state {
				t.Errorf("state %s, want %s", state, c.state)
			}
			if got := reporttest.Count(t, g.metrics, "sidenote_cache_guard_state", "test"); got != float64(c.state) {
				t.Errorf("sidenote_cache_guard_state is %v, want %d", got, c.state)
			}
			if err := g.server.Reload(cfg, rw); err != nil {
				t.Fatal(err)
			}
			if again := g.converse(t, c.system, 1); again.Placement != rewrite.PlaceSystem || again.Notes != nil {
				t.Errorf("after a reload the placement is %q with the notes %q", again.Placement, again.Notes)
			}
		})
	}
}

// What breaks no prompt cache is not warned of: split keeps the conversation as it is, and without
// sources there is nothing to find.
func TestSourcesThatKeepAPromptCache(t *testing.T) {
	for name, change := range map[string]func(*tenant.Policy){
		"auto":   func(p *tenant.Policy) { p.Rewrite.Placement = rewrite.PlaceAuto },
		"split":  func(p *tenant.Policy) { p.Rewrite.Placement = rewrite.PlaceSplit },
		"off":    func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off },
		"shadow": func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow },
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, new(prefixCache).answer)
			g := startWith(t, proxy.Config{
				Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
				Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
					p.CacheGuard, p.Rewrite.PromptCache = tenant.GuardSwitch, tokens.CachePrefix
					change(p)
				})},
			}, &rewrite.Rewriter{Retriever: retrieval.Func(foundFor), Models: testModels{}})
			last := g.converse(t, "Be brief.", 15)
			if log := g.log.take(); log != "" {
				t.Error(log)
			}
			injects := name == "auto" || name == "split"
			switch got := g.server.PromptCaches(); {
			case injects != (len(got) == 1):
				t.Errorf("got %+v", got)
			case injects && (got[0].Requests < cacheguard.MinRequests || got[0].Share < got[0].Expected || last.Placement != rewrite.PlaceSplit):
				t.Errorf("got %+v and the placement %q", got, last.Placement)
			}
		})
	}
}

// Sources go behind the conversation, with a mark where the cache needs one, unless the policy says
// otherwise or they are there already.
func TestBetterPlacement(t *testing.T) {
	of := func(to rewrite.Placement, marks rewrite.CacheMarks) rewrite.Policy {
		return rewrite.Policy{Placement: to, CacheMarks: marks}
	}
	for _, c := range []struct {
		policy rewrite.Policy
		cache  tokens.PromptCache
		want   rewrite.Placement
	}{
		{of(rewrite.PlaceSystem, ""), tokens.CachePrefix, rewrite.PlaceAuto},
		{of(rewrite.PlaceSystem, ""), tokens.CacheUnknown, rewrite.PlaceSplit},
		{of(rewrite.PlaceSystem, ""), tokens.CacheNone, rewrite.PlaceSplit},
		{of(rewrite.PlaceAuto, ""), tokens.CachePrefix, ""},
		{of(rewrite.PlaceAuto, ""), tokens.CacheUnknown, rewrite.PlaceSplit},
		{of(rewrite.PlaceSplit, ""), tokens.CachePrefix, ""},
		{of(rewrite.PlaceSplit, ""), tokens.CacheUnknown, ""},
		{of(rewrite.PlaceSplit, ""), tokens.CacheBreakpoints, rewrite.PlaceAuto},
		{of(rewrite.PlaceSplit, ""), tokens.CacheControl, rewrite.PlaceAuto},
		{of(rewrite.PlaceSplit, rewrite.MarksOff), tokens.CacheControl, ""},
		{of(rewrite.PlaceSplit, rewrite.MarksAuto), tokens.CacheControl, ""},
		{of(rewrite.PlaceLastUser, ""), tokens.CachePrefix, ""},
		{of(rewrite.PlaceMarker, ""), tokens.CachePrefix, rewrite.PlaceAuto}, // the request has no marker
	} {
		if got := proxy.BetterPlacement(c.policy, c.cache); got != c.want {
			t.Errorf("placement %s, marks %q, cache %q: got %q, want %q", c.policy.Placement, c.policy.CacheMarks, c.cache, got, c.want)
		}
	}
}
