package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// A picky upstream answers a request with an error if refuses returns one, else with a chat that
// used 19 and 10 tokens.
func picky(t *testing.T, status int, refuses func(body string) (message string)) *stubUpstream {
	return newUpstream(t, func(s seen, w io.Writer) {
		body, head := `{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10}}`, okJSON
		if strings.Contains(s.body, `"stream":true`) {
			head, body = "200 OK\r\nContent-Type: text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n"
		}
		if message := refuses(s.body); message != "" {
			head, body = fmt.Sprintf("%d Refused\r\nContent-Type: application/json", status), message
		}
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	})
}

// refusingText refuses requests that have a text.
func refusingText(text, message string) func(string) string {
	return func(body string) string {
		if strings.Contains(body, text) {
			return message
		}
		return ""
	}
}

// openTools opens a rig whose policy is in mode tools.
func openTools(t *testing.T, u *stubUpstream, change func(*tenant.Policy)) *rig {
	t.Helper()
	return start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}}, Tools: &proxy.RoundsKit{Box: newBox()},
		Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			p.Rewrite.Mode, p.Tools = rewrite.Tools, toolPolicy()
			if change != nil {
				change(p)
			}
		})},
	}, nil)
}

// If an upstream refuses tools that the app did not ask for, the app gets an answer with injected
// sources, streamed or not, with and without a first search. Later chats of that model are sent
// without tools for an hour; those of other models are not affected.
func TestRefusedToolsAreInjected(t *testing.T) {
	const canary = "canary of acme in kb-acme"
	for name, c := range map[string]struct {
		status  int
		message string
	}{
		"named":     {400, `{"error":{"message":"m9: tools are not supported by this model","type":"api_error","param":null}}`},
		"reasoning": {400, `{"error":{"message":"This model takes no function tools while it reasons; set reasoning_effort to none.","param":"reasoning_effort"}}`},
		"a parser":  {422, `{"object":"error","message":"tool choice auto needs a tool-call parser"}`},
		"a router":  {404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`},
		"unnamed":   {400, `{"error":{"message":"Bad request"}}`},
		"no JSON":   {400, `oops`},
	} {
		for _, first := range []bool{true, false} {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, first search %t, stream %t", name, first, stream), func(t *testing.T) {
					u := picky(t, c.status, refusingText(`"tools":[`, c.message))
					g := openTools(t, u, func(p *tenant.Policy) { p.Tools.FirstSearch = first })
					now := time.Unix(1e9, 0)
					proxy.RememberBy(g.server, func() time.Time { return now })
					body := chatBody
					if stream {
						body = `{"stream":true,` + chatBody[1:]
					}
					ask := func(body string, sent int, status string) {
						t.Helper()
						resp, text := g.post(t, body)
						got := resp.Header.Get(report.HeaderStatus)
						if resp.StatusCode != 200 || !strings.Contains(text, "Hi") || !strings.Contains(got, status) || len(u.seen) != sent {
							t.Errorf("%d %s\n%s; %d requests went up, want %d, %s", resp.StatusCode, got, text, len(u.seen), sent, status)
						}
						for n := range sent {
							s := u.next(t)
							if n == sent-1 && (strings.Contains(s.body, `"tools"`) || !strings.Contains(s.body, canary)) {
								t.Errorf("went up at last: %s", s.body)
							}
						}
						g.reports.next(t)
					}
					ask(body, 2, "injected; retry=tools; unoffered=refused; sources=1")
					ask(body, 1, "injected; unoffered=refused; sources=1")
					ask(strings.Replace(body, `"model":"m"`, `"model":"m2"`, 1), 2, "retry=tools")
					now = now.Add(time.Hour + time.Second)
					ask(body, 2, "retry=tools")
					if n := reporttest.Count(t, g.metrics, "sidenote_edit_retries_total", "tools"); n != 3 {
						t.Errorf("%v retries are counted", n)
					}
					if log := g.log.take(); !strings.Contains(log, "upstream=stub model=m edits=tools") {
						t.Errorf("the log says %s", log)
					}
				})
			}
		}
	}
}

// Tools that are refused with a reasoning effort are still offered to chats without it.
func TestRefusedToolsByEffort(t *testing.T) {
	u := picky(t, 400, func(body string) string {
		if strings.Contains(body, `"tools":[`) && strings.Contains(body, `"reasoning_effort":"low"`) {
			return `{"error":{"message":"no function tools together with reasoning"}}`
		}
		return ""
	})
	g := openTools(t, u, nil)
	effort := func(of string) string { return `{"reasoning_effort":"` + of + `",` + chatBody[1:] }
	for i, c := range []struct {
		body string
		sent int
	}{{effort("low"), 2}, {effort("low"), 1}, {effort("none"), 1}, {chatBody, 1}} {
		resp, text := g.post(t, c.body)
		status := resp.Header.Get(report.HeaderStatus)
		if resp.StatusCode != 200 || len(u.seen) != c.sent || strings.HasPrefix(status, "tools") != (i > 1) {
			t.Errorf("chat %d: %d %s %s, %d requests", i, resp.StatusCode, status, text, len(u.seen))
		}
		for range c.sent {
			u.next(t)
		}
	}
}

// Tools that are refused besides those of the app are left out of that request only, as the app's
// may be the cause; an error that names only the app's own fields is relayed at once.
func TestRefusedToolsBesideOthers(t *testing.T) {
	own := `{"tools":[{"type":"function","function":{"name":"mail"}}],` + chatBody[1:]
	u := picky(t, 400, func(body string) string {
		switch {
		case strings.Contains(body, `"mail"`) && strings.Contains(body, `search_knowledge`):
			return `{"error":{"message":"2 tools of at most 1"}}`
		case strings.Contains(body, `"stop"`):
			return `{"error":{"message":"System role not supported"}}`
		}
		return ""
	})
	g := openTools(t, u, nil)
	system := `{"stop":"x","messages":[{"role":"system","content":"Be brief."},` + strings.TrimPrefix(chatBody, `{"model":"m","messages":[`)
	for i, c := range []struct {
		body         string
		sent, status int
		told         string
	}{
		{own, 2, 200, "injected; retry=tools; unoffered=refused"},
		{own, 2, 200, "injected; retry=tools; unoffered=refused"},
		{chatBody, 1, 200, "tools; "},
		{strings.Replace(system, "{", `{"model":"m",`, 1), 1, 400, ""},
	} {
		resp, text := g.post(t, c.body)
		if status := resp.Header.Get(report.HeaderStatus); resp.StatusCode != c.status || len(u.seen) != c.sent || !strings.HasPrefix(status, c.told) {
			t.Errorf("chat %d: %d %s %s, %d requests", i, resp.StatusCode, status, text, len(u.seen))
		}
		for range c.sent {
			u.next(t)
		}
	}
}

// A chat whose stages are refused is answered with sources, and is sent once more without the
// parts of that request that are refused.
func TestRefusedStages(t *testing.T) {
	for _, stream := range []bool{false, true} {
		u := newUpstream(t, func(s seen, w io.Writer) {
			if strings.Contains(s.body, `"role":"system"`) {
				writeWhole(w, "400 Bad Request\r\nContent-Type: application/json", `{"error":{"message":"System role not supported"}}`)
				return
			}
			body, kind := answertest.Bytes(answertest.Answer{Text: "16 weeks.", Finish: "stop"}, plain(), strings.Contains(s.body, `"stream":true`))
			writeWhole(w, "200 OK\r\nContent-Type: "+kind, string(body))
		})
		terms := stagedTerms{}
		terms.Stages = fourStages()
		g := openStaged(t, newTill(t), u, terms)
		body := weeksBody
		if stream {
			body = weeksStream
		}
		p := g.plays(t, body)
		r := g.reports.next(t)
		if p.status != 200 || !strings.Contains(p.body, "16 weeks.") || r.Refused != answer.EditSystemMessage || len(u.seen) != 3 {
			t.Errorf("stream %t: %d %s; refused %q, %d requests", stream, p.status, p.body, r.Refused, len(u.seen))
		}
	}
}

// If a request is also refused without Sidenote's edits, the app gets the second error, after at
// most two requests. Nothing is remembered then.
func TestRefusedTwice(t *testing.T) {
	var asked atomic.Int32
	u := picky(t, 400, func(string) string {
		return fmt.Sprintf(`{"error":{"message":"no tools, error %d"}}`, asked.Add(1))
	})
	g := openTools(t, u, nil)
	for n := range 2 {
		resp, text := g.post(t, chatBody)
		if want := fmt.Sprintf("error %d", 2*n+2); resp.StatusCode != 400 || !strings.Contains(text, want) || asked.Load() != int32(2*n+2) {
			t.Errorf("%d %s after %d requests, want %s", resp.StatusCode, text, asked.Load(), want)
		}
	}
}

// Other edits that the app did not ask for are left out or moved if an upstream refuses them,
// unless the policy requires them; the next chat omits them from the start.
func TestRefusedEdits(t *testing.T) {
	const (
		canary = "canary of acme in kb-acme"
		plain  = `{"model":"m","messages":[{"role":"user","content":"How long is leave?"}]}`
	)
	limits := func(p *tenant.Policy) { p.Metered, p.OutputCap = true, 1000 }
	marks := func(p *tenant.Policy) {
		p.Rewrite.Placement, p.Rewrite.PromptCache = rewrite.PlaceAuto, tokens.CacheBreakpoints
	}
	for name, c := range map[string]struct {
		path, body string
		refused    string // what the upstream refuses
		message    string
		change     func(*tenant.Policy)
		status     string // "": the client gets the upstream's error after one request
		has, lacks string // text in the answered request
		later      int    // requests for the next chat with the same model
	}{
		"usage": {"", `{"stream":true,` + plain[1:], "stream_options", `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, limits,
			"injected; retry=include-usage;", canary, "stream_options", 1},
		"usage, unnamed": {"", `{"stream":true,"max_tokens":5,` + plain[1:], "stream_options", `{}`, limits,
			"untouched; reason=edit-refused; retry=include-usage+sources", plain[1:], "stream_options", 1},
		"usage of completions": {"/v1/completions", `{"model":"m","stream":true,"prompt":"a"}`, "stream_options", `{"error":"unknown field stream_options"}`, limits,
			"untouched; reason=route; retry=include-usage", `"prompt":"a"`, "stream_options", 1},
		"limit, other name": {"", plain, `"max_tokens"`, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`, limits,
			"injected; retry=max-tokens;", `"max_completion_tokens":1000`, `"max_tokens"`, 1},
		"limit too large": {"", plain, `"max_tokens":1000`, `{"error":{"message":"max_tokens is too large: 1000. This model supports at most 300 completion tokens"}}`, limits,
			"injected; retry=max-tokens;", `"max_tokens":300`, "1000", 1},
		"limit beyond the window": {"", plain, `"max_tokens":1000`, `{"error":{"message":"'max_tokens' is too large: 1000. This model's maximum context length is 1500 tokens and your request has 904 input tokens (1000 > 1500 - 904).","param":"max_tokens"}}`, limits,
			"injected; retry=max-tokens;", `"max_tokens":580`, "1000", 2},
		"limit beside the messages": {"", plain, `"max_tokens":1000`, `{"error":{"message":"This model's maximum context length is 1500 tokens. However, you requested 1904 tokens (904 in the messages, 1000 in the completion).","code":"context_length_exceeded"}}`, limits,
			"injected; retry=max-tokens;", `"max_tokens":580`, "1000", 2},
		"limit of responses": {"/v1/responses", `{"model":"m","input":"a"}`, `"max_output_tokens"`, `{"error":{"message":"Unsupported parameter: max_output_tokens"}}`, limits,
			"", "", "", 1},
		"the app's limit": {"", `{"max_tokens":9,` + plain[1:], `"max_tokens"`, `{"error":{"message":"Unsupported parameter: 'max_tokens'","param":"max_tokens"}}`, limits,
			"", "", "", 1},
		"system message": {"", plain, `"role":"system"`, `{"error":{"message":"System role not supported"}}`, nil,
			"injected; retry=system-message; sources=1", canary, `"role":"system"`, 1},
		"placement, a template": {"", plain, `"role":"system"`, `{"message":"Conversation roles must alternate user/assistant"}`, nil,
			"injected; retry=system-message; sources=1", canary, `"role":"system"`, 1},
		"a cache mark": {"", plain, "prompt_cache_breakpoint", `{"error":{"message":"Unknown parameter: 'messages[0].content[0].prompt_cache_breakpoint'.","param":"messages[0].content[0].prompt_cache_breakpoint"}}`, marks,
			"injected; retry=cache-mark; sources=1", canary, "prompt_cache", 1},
		"a cache mark, its parts": {"", plain, `[{"type":"text"`, `{"error":{"message":"content must be a string"}}`, marks,
			"injected; retry=cache-mark; sources=1", canary, "prompt_cache", 1},
		"a cache mark, its parts, pydantic": {"", plain, `[{"type":"text"`, `{"detail":[{"loc":["body","messages",0,"content"],"msg":"Input should be a valid string"}]}`, marks,
			"injected; retry=cache-mark; sources=1", canary, "prompt_cache", 1},
		"a cache mark, its parts, a union": {"", plain, `[{"type":"text"`, `{"detail":[{"loc":["body","messages",0,"UserMessage","content","str"],"msg":"Input should be a valid string"}]}`, marks,
			"injected; retry=cache-mark; sources=1", canary, "prompt_cache", 1},
		"sources": {"", plain, canary, `{"error":{"message":"blocked by the content filter","param":"prompt"}}`, nil,
			"untouched; reason=edit-refused; retry=sources", plain, canary, 2},
		"sources, unnamed": {"", plain, canary, `{"error":{"message":"Bad request"}}`, func(p *tenant.Policy) { p.Rewrite.Placement = rewrite.PlaceLastUser },
			"untouched; reason=edit-refused; retry=sources", plain, canary, 2},
		"sources, demanded": {"", plain, canary, `{"error":{"message":"Bad request"}}`, func(p *tenant.Policy) { p.Rewrite.RefuseOnFailure, p.Rewrite.Placement = true, rewrite.PlaceLastUser }, "", "", "", 1},
		"sources, strict":   {"", plain, canary, `{"error":{"param":"messages"}}`, func(p *tenant.Policy) { p.Rewrite.Grounding = rewrite.GroundingStrict }, "", "", "", 1},
		"components, the policy's": {"", plain, "Be kind.", `{"error":{"param":"messages"}}`, func(p *tenant.Policy) {
			p.Rewrite.Components = []rewrite.Component{{Name: "a", Text: "Be kind.", Priority: 100}}
		}, "", "", "", 1},
		"something of the app": {"", plain, "leave", `{"error":{"message":"temperature must be at most 2","param":"temperature"}}`, nil, "", "", "", 1},
		"no such model":        {"", plain, "leave", `{"error":{"message":"model 'm' not found"}}`, nil, "", "", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			status := 400
			if name == "no such model" {
				status = 404
			}
			u := picky(t, status, refusingText(c.refused, c.message))
			g := open(t, u, c.change)
			path := cmpText(c.path, "/v1/chat/completions")
			for n, sent := range []int{2, c.later} {
				resp := g.raw(t, strings.Replace(chatRequest(c.body), "/v1/chat/completions", path, 1))
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				g.reports.next(t)
				if c.status == "" {
					if resp.StatusCode != status || string(text) != c.message || len(u.seen) != n+1 {
						t.Errorf("%d %s, %d requests", resp.StatusCode, text, len(u.seen))
					}
					continue
				}
				got := resp.Header.Get(report.HeaderStatus)
				if resp.StatusCode != 200 || len(u.seen) != sent || n == 0 && !strings.HasPrefix(got, c.status) || strings.Contains(got, "retry=") != (sent == 2) {
					t.Errorf("chat %d: %d %s, %d requests, want %d\n%s", n, resp.StatusCode, got, len(u.seen), sent, text)
				}
				var last seen
				for range sent {
					last = u.next(t)
				}
				if n == 0 && !strings.Contains(last.body, c.has) || strings.Contains(last.body, c.lacks) {
					t.Errorf("chat %d: went up %s", n, last.body)
				}
			}
		})
	}
}

// A mark that is refused without being named costs the chat no tools, nor later ones.
func TestRefusedMarkBesideTools(t *testing.T) {
	u := picky(t, 400, refusingText("prompt_cache_breakpoint", `{"error":{"message":"Provider returned error"}}`))
	g := openTools(t, u, func(p *tenant.Policy) {
		p.Tools.FirstSearch = true
		p.Rewrite.Placement, p.Rewrite.PromptCache = rewrite.PlaceAuto, tokens.CacheBreakpoints
	})
	for n, sent := range []int{2, 1} {
		resp, text := g.post(t, `{"model":"m","messages":[{"role":"user","content":"How long is leave?"}]}`)
		if status := resp.Header.Get(report.HeaderStatus); resp.StatusCode != 200 || !strings.HasPrefix(status, "tools") || strings.Contains(status, "retry=cache-mark") != (n == 0) || len(u.seen) != sent {
			t.Errorf("chat %d: %d %s after %d requests\n%s", n, resp.StatusCode, status, len(u.seen), text)
		}
		var last seen
		for range sent {
			last = u.next(t)
		}
		if !strings.Contains(last.body, `"tools":[`) || !strings.Contains(last.body, "canary of acme in kb-acme") {
			t.Errorf("chat %d: went up %s", n, last.body)
		}
	}
}

// A mark is left out before the sources, as it makes a list of a text. If that is not what was refused,
// the sources are left out too, and nothing is remembered. The app's own error reaches it.
func TestRefusedSourcesBesideAMark(t *testing.T) {
	const (
		canary = "canary of acme in kb-acme"
		plain  = `{"model":"m","messages":[{"role":"user","content":"How long is leave?"}]}`
	)
	for name, c := range map[string]struct {
		refused, message string
		code, sent       int
		status           string
		metered          bool
	}{
		"a filter":             {canary, `{"error":{"message":"blocked by the content filter","param":"prompt"}}`, 200, 3, "untouched; reason=edit-refused; retry=sources+cache-mark", false},
		"unnamed":              {canary, `{"error":{"message":"Bad request"}}`, 200, 3, "untouched; reason=edit-refused; retry=sources+cache-mark", false},
		"unnamed, with limits": {canary, `{"error":{"message":"Bad request"}}`, 200, 3, "untouched; reason=edit-refused; retry=", true},
		"the app's":            {"leave", `{"error":{"message":"Bad request"}}`, 400, 3, "", false},
		"the app's, named":     {"leave", `{"error":{"message":"must be at most 2","param":"temperature"}}`, 400, 1, "", false},
		"the app's mark":       {"leave", `{"error":{"message":"prompt_cache_key is too long","param":"prompt_cache_key"}}`, 400, 2, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			u, b := picky(t, 400, refusingText(c.refused, c.message)), newTill(t)
			change := func(p *tenant.Policy) {
				p.Rewrite.Placement, p.Rewrite.PromptCache, p.Rewrite.Knowledge = rewrite.PlaceAuto, tokens.CacheBreakpoints, []string{"kb-acme"}
			}
			cfg := proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}}, Tenants: tenant.Tenants{Unknown: policyOf("acme", change)}}
			if c.metered {
				cfg.Budgets, cfg.Tenants.Unknown = b.meter, limited(t, plenty(), change)
			}
			g := start(t, cfg, nil)
			for n := range 2 {
				resp, text := g.post(t, plain)
				got := resp.Header.Get(report.HeaderStatus)
				if resp.StatusCode != c.code || len(u.seen) != c.sent || !strings.HasPrefix(got, c.status) || c.code == 400 && text != c.message {
					t.Errorf("chat %d: %d %s, %d requests, want %d\n%s", n, resp.StatusCode, got, len(u.seen), c.sent, text)
				}
				for range c.sent {
					u.next(t)
				}
				g.reports.next(t)
			}
			if day := func() budget.Amount { return b.usage(t).Day.Held }; c.metered && day() != (budget.Amount{}) {
				t.Errorf("still held: %+v", day())
			}
		})
	}
}

func cmpText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// longModel is a model that writes at most 4000 tokens.
type longModel struct{ testModels }

func (m longModel) Model(name string) model.Model {
	of := m.testModels.Model(name)
	of.MaxOutput = 4000
	return of
}

// A tenant pays for the answered request only: the refused one is free, its reservation is renewed
// if the other one takes more, and an answer without a limit is reserved as long as its model can
// write. If that is unknown, or exceeds the tenant's limits, the limit stays or the request is
// refused.
func TestRefusedEditsAreSettled(t *testing.T) {
	neither := func(body string) string {
		if strings.Contains(body, "max_") && strings.Contains(body, "_tokens") {
			return `{"error":{"message":"Bad request"}}`
		}
		return ""
	}
	for name, c := range map[string]struct {
		refuses  func(string) string
		change   func(*tenant.Policy)
		models   rewrite.Models
		limits   budget.Limits
		status   int
		reserved int64 // output tokens
		sent     int
	}{
		"tools, first search": {refusingText(`"tools":[`, `{"error":{"message":"no tools"}}`), func(p *tenant.Policy) {
			p.Rewrite.Mode, p.Tools, p.Rewrite.Knowledge = rewrite.Tools, toolPolicy(), []string{"kb-acme"}
			p.Tools.FirstSearch = true
		}, testModels{}, plenty(), 200, 1000, 2},
		"tools, no search": {refusingText(`"tools":[`, `{"error":{"message":"no tools"}}`), func(p *tenant.Policy) {
			p.Rewrite.Mode, p.Tools, p.Rewrite.Knowledge = rewrite.Tools, toolPolicy(), []string{"kb-acme"}
		}, testModels{}, plenty(), 200, 1000, 2},
		"one at once": {refusingText(`"tools":[`, `{"error":{"message":"no tools"}}`), func(p *tenant.Policy) {
			p.Rewrite.Mode, p.Tools, p.Rewrite.Knowledge = rewrite.Tools, toolPolicy(), []string{"kb-acme"}
		}, testModels{}, budget.Limits{budget.TokensPerDay: 1e6, budget.ParallelRequests: 1, budget.RequestsPerMinute: 1}, 200, 1000, 2},
		"no limit":               {neither, func(p *tenant.Policy) { p.OutputCap = 0 }, longModel{}, plenty(), 200, 4000, 2},
		"no limit, the policy's": {neither, nil, longModel{}, plenty(), 400, 1000, 1},
		"no limit, who knows":    {neither, func(p *tenant.Policy) { p.OutputCap = 0 }, testModels{}, plenty(), 400, 4096, 1},
		"no limit, no room":      {neither, func(p *tenant.Policy) { p.OutputCap = 0 }, longModel{}, only(budget.TokensPerDay, 3000), 429, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			u, b := picky(t, 400, c.refuses), newTill(t)
			cfg := proxy.Config{
				Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tools: &proxy.RoundsKit{Box: newBox()},
				Tenants: tenant.Tenants{Unknown: limited(t, c.limits, c.change)}, Budgets: b.meter,
			}
			g := startWith(t, cfg, &rewrite.Rewriter{Retriever: retrieval.Func(fromBases), Models: c.models})
			resp, text := g.post(t, chatBody)
			r := g.reports.next(t)
			if resp.StatusCode != c.status || len(u.seen) != c.sent {
				t.Errorf("%d %s, %d requests", resp.StatusCode, text, len(u.seen))
			}
			charged, spent := r.Budget.Charged, b.usage(t).Day.Spent
			want := budget.Amount{}
			if c.status == 200 {
				want = spentAs(19, 0, 10)
				want.Injected = charged.Injected
				if out := r.Budget.Estimate.Tokens - int64(r.Rewrite.Ledger.Window.Request) - int64(r.Rewrite.Ledger.Used); out < c.reserved {
					t.Errorf("%d tokens are reserved for the answer, want %d at least", out, c.reserved)
				}
			}
			if charged != want || spent != want {
				t.Errorf("charged %+v, spent %+v, want %+v", charged, spent, want)
			}
		})
	}
}

// A later round that an upstream refuses is sent without tools, and with sources, if the client
// has got nothing yet. If a stream has begun it gets the error.
func TestRefusedRound(t *testing.T) {
	for _, stream := range []bool{false, true} {
		var asked atomic.Int32
		u := newUpstream(t, func(s seen, w io.Writer) {
			call := answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"leave"}`}}}
			head, body := okJSON, []byte(nil)
			switch n := asked.Add(1); {
			case n == 1:
				body, _ = answertest.Bytes(call, plain(), stream)
				if stream {
					head = "200 OK\r\nContent-Type: text/event-stream"
				}
			case strings.Contains(s.body, `"role":"tool"`):
				head, body = "400 Bad\r\nContent-Type: application/json", []byte(`{"error":{"message":"unexpected role"}}`)
			default:
				body, _ = answertest.Bytes(answertest.Answer{Text: "16 weeks.", Finish: "stop"}, plain(), stream)
			}
			fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
		})
		b := newTill(t)
		cfg := proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Tools: &proxy.RoundsKit{Box: newBox()}, Budgets: b.meter,
			Tenants: tenant.Tenants{Unknown: limited(t, plenty(), func(p *tenant.Policy) {
				p.Rewrite.Mode, p.Tools, p.Rewrite.Knowledge = rewrite.Tools, toolPolicy(), []string{"kb-acme"}
			})},
		}
		g := start(t, cfg, nil)
		body := chatBody
		if stream {
			body = `{"stream":true,` + chatBody[1:]
		}
		resp, err := http.Post("http://"+g.addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body) // a stream is cut
		resp.Body.Close()
		g.reports.next(t)
		if day := b.usage(t).Day; day.Spent.Requests != 1 || day.Held != (budget.Amount{}) || (day.Spent.Injected > 0) == stream {
			t.Errorf("stream %t: spent %+v", stream, day)
		}
		if stream {
			if asked.Load() != 2 || !strings.Contains(string(text), "unexpected role") {
				t.Errorf("%d requests; %s", asked.Load(), text)
			}
			continue
		}
		status := resp.Header.Get(report.HeaderStatus)
		if resp.StatusCode != 200 || asked.Load() != 3 || !strings.Contains(string(text), "16 weeks.") || !strings.HasPrefix(status, "tools; retry=tools; rounds=2") {
			t.Errorf("%d %s\n%s; %d requests", resp.StatusCode, status, text, asked.Load())
		}
		u.next(t)
		u.next(t)
		if last := u.next(t); strings.Contains(last.body, "tool") || !strings.Contains(last.body, "canary") {
			t.Errorf("went up %s", last.body)
		}
	}
}
