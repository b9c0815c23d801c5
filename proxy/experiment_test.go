package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/experiment"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/analysis"
	"sidenote/rewrite"
)

// comparing gives a policy an experiment whose policy B searches no base.
func comparing(of experiment.Settings) func(*tenant.Policy) {
	return func(p *tenant.Policy) {
		b := *p
		b.Name, b.Hash, b.Rewrite.Knowledge = "other", "00000002", nil
		of.Name, of.PolicyA, of.PolicyB, of.Requests = "x", "base", "other", experiment.DefaultRequests
		p.Experiment = &tenant.Experiment{Settings: of, B: &b}
	}
}

// half is an experiment that gives half of the conversations policy B.
func half() experiment.Settings { return experiment.Settings{Share: .5, Unit: experiment.Conversation} }

// openExperiment starts a rig whose only tenant takes part in an experiment.
func openExperiment(t *testing.T, u *stubUpstream, store *experiment.Store, of experiment.Settings, change func(*proxy.Config)) *rig {
	t.Helper()
	p := policyOf("acme", comparing(of))
	store.Configure([]experiment.Settings{p.Experiment.Settings})
	return openIn(t, u, func(c *proxy.Config) {
		c.Tenants.Unknown, c.Experiments = p, store
		c.Documents.Terms = analysis.Terms
		if change != nil {
			change(c)
		}
	})
}

// An app holds conversations over one of the APIs.
type app struct {
	api    string // path
	window int    // how many of the last turns it sends; 0: all
	held   string // how the upstream holds the turns: "", "previous_response_id" or "conversation"
	stream bool

	name  string
	turns []string // the user's
	last  string   // id of the last response
}

func (a *app) body() string {
	from := 0
	if a.window > 0 {
		from = max(0, len(a.turns)-a.window)
	}
	if a.held != "" {
		from = len(a.turns) - 1
	}
	var list []string
	for i, text := range a.turns[from:] {
		if i > 0 {
			list = append(list, fmt.Sprintf(`{"role":"assistant","content":"Answer %d to %s."}`, from+i, a.name))
		}
		list = append(list, fmt.Sprintf(`{"role":"user","content":%q}`, text))
	}
	name, more := "messages", ""
	if a.api == "/v1/responses" {
		name = "input"
	}
	if a.api == "/v1/messages" {
		more = `,"max_tokens":10`
	}
	switch {
	case a.held == "conversation":
		more += fmt.Sprintf(`,"conversation":"conv_%s"`, a.name)
	case a.held != "" && a.last != "":
		more += fmt.Sprintf(`,"previous_response_id":%q`, a.last)
	}
	if a.stream {
		more += `,"stream":true`
	}
	return fmt.Sprintf(`{"model":"m",%q:[%s]%s}`, name, strings.Join(list, ","), more)
}

// ask sends the next turn, and returns the report.
func (a *app) ask(t *testing.T, g *rig, text string) report.Report {
	t.Helper()
	a.turns = append(a.turns, text)
	body := a.body()
	resp := g.raw(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", a.api, len(body), body))
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", resp.StatusCode, got, err)
	}
	if _, rest, ok := strings.Cut(string(got), `"id":"resp_`); ok {
		id, _, _ := strings.Cut(rest, `"`)
		a.last = "resp_" + id
	}
	return g.reports.next(t)
}

// answerAny answers requests of all three APIs, each with an id of its own.
func answerAny() func(seen, io.Writer) {
	var n atomic.Int64
	return func(s seen, w io.Writer) {
		id := n.Add(1)
		body := `{"choices":[{"message":{"content":"Fine."},"finish_reason":"stop"}]}`
		switch {
		case strings.Contains(s.line, "/responses"):
			body = fmt.Sprintf(`{"id":"resp_%d","object":"response","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Fine."}]}]}`, id)
		case strings.Contains(s.line, "/messages"):
			body = `{"type":"message","role":"assistant","content":[{"type":"text","text":"Fine."}]}`
		}
		kind := "application/json"
		if strings.Contains(s.body, `"stream":true`) && strings.Contains(s.line, "/responses") {
			kind = "text/event-stream"
			body = fmt.Sprintf("event: response.created\ndata: {\"type\":\"response.created\",\"response\":%s}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":%[1]s}\n\n", body)
		}
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)
	}
}

// apps returns an app for each way to hold conversations.
func apps() (all []app) {
	for _, api := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		for _, window := range []int{0, 2, 3} {
			all = append(all, app{api: api, window: window})
		}
	}
	for _, stream := range []bool{false, true} {
		all = append(all, app{api: "/v1/responses", held: "previous_response_id", stream: stream}, app{api: "/v1/responses", held: "conversation", stream: stream})
	}
	return all
}

// Whatever an application sends of a conversation, all of its turns have one policy: over three
// APIs, with a history that is whole, cut off, or held by the upstream, and over a restart.
func TestConversationsNeverHaveTwoPolicies(t *testing.T) {
	u, dir, random := newUpstream(t, answerAny()), t.TempDir(), rand.New(rand.NewPCG(1, 47))
	var open []*app
	arms := map[*app]string{}
	for round := range 2 { // the second is after a restart
		store, stop := runStore(t, dir)
		g := openExperiment(t, u, store, half(), nil)
		for len(open) < (round+1)*130 {
			for _, a := range apps() {
				a.name = fmt.Sprint(len(open))
				open = append(open, &a)
			}
		}
		for n := range 800 {
			a := open[random.IntN(len(open))]
			text := fmt.Sprintf("Question %d of %s?", n, a.name)
			if random.IntN(4) == 0 && len(a.turns) > 0 && a.window != 2 { // with fewer turns, nothing tells such conversations apart
				text = []string{"Yes", "And then?"}[random.IntN(2)] // as in many conversations
			}
			r := a.ask(t, g, text)
			u.next(t)
			of, before := r.Experiment, arms[a]
			if of.Name != "x" || before != "" && before != of.Arm {
				t.Fatalf("turn %d of %+v has arm %q after %q", len(a.turns), a, of.Arm, before)
			}
			if want := map[string]string{"a": "00000001", "b": "00000002"}[of.Arm]; r.PolicyHash != want {
				t.Fatalf("arm %s has policy %s", of.Arm, r.PolicyHash)
			}
			arms[a] = of.Arm
		}
		stop()
	}
	n := 0
	for _, arm := range arms {
		if arm == "b" {
			n++
		}
	}
	if share := float64(n) / float64(len(arms)); share < .4 || share > .6 {
		t.Errorf("%d of %d conversations have policy b", n, len(arms))
	}
}

// runStore opens a store that saves its state when stop is called.
func runStore(t *testing.T, dir string) (s *experiment.Store, stop func()) {
	t.Helper()
	s = experiment.New(dir, func(line string) { t.Error(line) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	stop = func() {
		cancel()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(cancel)
	return s, stop
}

// Requests that cannot be assigned get policy A and do not count.
func TestRequestsWithoutUnitHavePolicyA(t *testing.T) {
	u := newUpstream(t, answerAny())
	everybody := experiment.Settings{Share: .999999, Unit: experiment.UserHeader, Header: "X-User-Id"}
	f := func(what string, of experiment.Settings, want, request string) {
		t.Helper()
		g := openExperiment(t, u, experiment.New("", nil), of, nil)
		resp := g.raw(t, request)
		_, _ = io.Copy(io.Discard, resp.Body)
		if r := g.reports.next(t); r.Experiment.Arm != want || (r.PolicyHash == "00000002") != (want == "b") {
			t.Errorf("%s: arm %q, policy %s, want arm %q", what, r.Experiment.Arm, r.PolicyHash, want)
		}
	}
	const question = `{"model":"m","messages":[{"role":"user","content":"How long?"}]}`
	f("a user", everybody, "b", chatRequest(question, "X-User-Id: 7"))
	f("no user", everybody, "", chatRequest(question))
	f("two users", everybody, "", chatRequest(question, "X-User-Id: 7", "X-User-Id: 7"))
	f("an empty user", everybody, "", chatRequest(question, "X-User-Id:"))
	f("a long user", everybody, "", chatRequest(question, "X-User-Id: "+strings.Repeat("7", 257)))
	f("unreadable", everybody, "", chatRequest(`{"model":`, "X-User-Id: 7"))
	f("another route", everybody, "", strings.Replace(chatRequest(question, "X-User-Id: 7"), "/chat/completions", "/embeddings", 1))

	conversations, over := half(), half()
	conversations.Share, over.Share, over.Until = .999999, .999999, time.Now().Add(-time.Second)
	f("a conversation", conversations, "b", chatRequest(question))
	f("after the end", over, "", chatRequest(question))
	f("no message", conversations, "", chatRequest(`{"model":"m","messages":[{"role":"system","content":"Be brief."}]}`))
	f("an unknown response", conversations, "", strings.Replace(chatRequest(`{"model":"m","input":"And?","previous_response_id":"resp_x"}`), "/chat/completions", "/responses", 1))
	f("a background call", conversations, "", chatRequest(`{"model":"m","messages":[{"role":"user","content":"### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history."}]}`))
}

// A user's header is in no log.
func TestUserHeaderIsNotLogged(t *testing.T) {
	u := newUpstream(t, answerAny())
	g := openExperiment(t, u, experiment.New("", nil), experiment.Settings{Share: .5, Unit: experiment.UserHeader, Header: "X-User-Id"}, nil)
	g.post(t, `{"model":"m","messages":[{"role":"user","content":"How long?"}]}`, "X-User-Id: canary-77")
	r := g.reports.next(t)
	var lines strings.Builder
	(&report.Log{Lines: &lines}).Record(&r)
	if line := lines.String() + g.log.take(); strings.Contains(line, "canary-77") || !strings.Contains(line, `"experiment":"x","arm":"`+r.Experiment.Arm+`"`) || !json.Valid([]byte(lines.String())) {
		t.Errorf("log: %s", line)
	}
	if all := metricsText(t, g.metrics); !strings.Contains(all, fmt.Sprintf(`sidenote_experiment_requests_total{arm=%q,experiment="other"} 1`, r.Experiment.Arm)) {
		t.Errorf("metrics: %s", all)
	}
}

func metricsText(t *testing.T, m *report.Metrics) string {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&b, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), metric.GetCounter().GetValue())
		}
	}
	return b.String()
}

// The outcomes of both arms arrive. Citations are counted without being annotated, and answers stay
// as they are.
func TestOutcomesAreCounted(t *testing.T) {
	const text = `{"choices":[{"message":{"content":"It is so [1] [9]."},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`
	u, store := newUpstream(t, answerJSON(text)), experiment.New("", nil)
	g := openExperiment(t, u, store, half(), nil)
	requests := map[string]int{}
	for n := range 40 {
		a := &app{api: "/v1/chat/completions"}
		for _, question := range []string{fmt.Sprintf("How long is parental leave in country %d?", n), fmt.Sprintf("Parental leave in country %d, how long?", n)} {
			r := a.ask(t, g, question)
			requests[r.Experiment.Arm]++
			if len(a.turns) == 2 && (!r.Experiment.FollowUp || !r.Experiment.Repeats) {
				t.Fatalf("the second turn is %+v", r.Experiment)
			}
		}
	}
	_, body := g.post(t, `{"model":"m","messages":[{"role":"user","content":"How long?"}]}`)
	if r := g.reports.next(t); body != text {
		t.Errorf("the answer is %s", body)
	} else {
		requests[r.Experiment.Arm]++
	}
	v := store.Views()[0]
	if v.A.Requests != requests["a"] || v.B.Requests != requests["b"] || v.A.Requests*v.B.Requests == 0 || v.Left != 4000-81 {
		t.Errorf("%d and %d requests, want %v; %d left", v.A.Requests, v.B.Requests, requests, v.Left)
	}
	want := map[string][2]float64{"cited": {1, 0}, "citations": {1, 0}, "unknown_citations": {1, 0}, "silence": {0, 1}, "tokens": {110, 110}, "repeated": {1, 1}}
	for _, c := range v.Measures {
		if means, ok := want[c.Measure]; ok && (c.A.Mean != means[0] || c.B.Mean != means[1]) {
			t.Errorf("%s: %v and %v, want %v", c.Measure, c.A.Mean, c.B.Mean, means)
		}
		if c.Measure == "context_tokens" && (c.A.Mean < 50 || c.B.Mean != 0) || c.Measure == "retrieval_ms" && c.A.N != requests["a"] {
			t.Errorf("%s: %+v and %+v", c.Measure, c.A, c.B)
		}
	}
}

// In mode shadow, what would have been given is compared; nothing is known of citations.
func TestShadowsAreCompared(t *testing.T) {
	u, store := newUpstream(t, answerAny()), experiment.New("", nil)
	g := openExperiment(t, u, store, half(), func(c *proxy.Config) {
		for p := range c.Tenants.Unknown.All {
			p.Rewrite.Mode = rewrite.Shadow
		}
	})
	for n := range 40 {
		a := &app{api: "/v1/chat/completions"}
		if r := a.ask(t, g, fmt.Sprintf("How long is it in country %d?", n)); r.Outcome != rewrite.Shadowed {
			t.Fatalf("outcome %s", r.Outcome)
		}
		if s := u.next(t); strings.Contains(s.body, "canary of acme") {
			t.Fatalf("sent %s", s.body)
		}
	}
	for _, c := range store.Views()[0].Measures {
		switch c.Measure {
		case "silence":
			if c.A.Mean != 0 || c.B.Mean != 1 {
				t.Errorf("silence: %v and %v", c.A, c.B)
			}
		case "context_tokens":
			if c.A.Mean < 50 || c.B.Mean != 0 {
				t.Errorf("tokens: %v and %v", c.A, c.B)
			}
		case "retrieval_ms":
			if c.A.N == 0 {
				t.Errorf("time to find sources: %v", c.A)
			}
		case "cited":
			if c.A.N+c.B.N != 0 {
				t.Errorf("citations were counted: %v and %v", c.A, c.B)
			}
		}
	}
}

// The arms may be of any modes. What an answer of several calls takes is measured as a whole, and
// sources that a model read by a tool are cited like others.
func TestArmsMayDifferInMode(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}`
	text := `{"choices":[{"message":{"role":"assistant","content":"It is so [1]."},"finish_reason":"stop"}],` + usage + `}`
	call := `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read_knowledge","arguments":"{\"refs\":[\"kb-acme:leave.md:0\"]}"}}]},"finish_reason":"tool_calls"}],` + usage + `}`
	for _, row := range []struct {
		mode  rewrite.Mode
		set   func(b *tenant.Policy)
		calls int // of an answer under policy B
	}{
		{rewrite.Tools, func(b *tenant.Policy) { b.Rewrite.Mode, b.Tools = rewrite.Tools, toolPolicy() }, 2},
		{rewrite.Staged, func(b *tenant.Policy) { inStages(t, b, stagedTerms{}) }, len(fourStages())},
	} {
		t.Run(row.mode.String(), func(t *testing.T) {
			u := newUpstream(t, func(s seen, w io.Writer) {
				body := text
				if strings.Contains(s.body, `"read_knowledge"`) && !strings.Contains(s.body, `"tool_call_id"`) {
					body = call
				}
				answerJSON(body)(s, w)
			})
			store := experiment.New("", nil)
			g := openExperiment(t, u, store, half(), func(c *proxy.Config) {
				c.Tools, c.Timeouts = &proxy.RoundsKit{Box: newBox()}, proxy.DefaultTimeouts()
				a := c.Tenants.Unknown
				b := a.Experiment.B
				b.Rewrite.Knowledge = a.Rewrite.Knowledge
				row.set(b)
			})
			requests := map[string]int{}
			for n := range 30 {
				a := &app{api: "/v1/chat/completions"}
				var arms []string
				for _, question := range []string{fmt.Sprintf("How long is parental leave in country %d?", n), "And in the next one?"} {
					r := a.ask(t, g, question)
					requests[r.Experiment.Arm]++
					arms = append(arms, r.Experiment.Arm)
					if want := map[string]int{"a": 1, "b": row.calls}[r.Experiment.Arm]; len(r.Calls) != want || !r.Experiment.Counted {
						t.Fatalf("arm %s: %d calls, want %d: %+v", r.Experiment.Arm, len(r.Calls), want, r.Experiment)
					}
				}
				if arms[0] != arms[1] {
					t.Fatalf("a conversation had the arms %v", arms)
				}
			}
			v := store.Views()[0]
			if v.A.Requests != requests["a"] || v.B.Requests != requests["b"] || v.A.Requests*v.B.Requests == 0 {
				t.Errorf("%d and %d requests, want %v", v.A.Requests, v.B.Requests, requests)
			}
			want := map[string][2]float64{"cited": {1, 1}, "unknown_citations": {0, 0}, "tokens": {110, 110 * float64(row.calls)}}
			for _, c := range v.Measures {
				if means, ok := want[c.Measure]; ok && (c.A.Mean != means[0] || c.B.Mean != means[1]) {
					t.Errorf("%s: %v and %v, want %v", c.Measure, c.A.Mean, c.B.Mean, means)
				}
			}
		})
	}
}

// The kill switch and an application's own mode lower what both arms get, so such requests do not
// count, but conversations keep their arm.
func TestLoweredRequestsDoNotCount(t *testing.T) {
	u, store := newUpstream(t, answerAny()), experiment.New("", nil)
	modes, err := tenant.NewSwitch(nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	g := openExperiment(t, u, store, half(), func(c *proxy.Config) { c.Switch = modes })
	a := &app{api: "/v1/chat/completions"}
	before := a.ask(t, g, "How long?").Experiment
	body := `{"model":"m","messages":[{"role":"user","content":"How long?"}]}`
	g.post(t, body, "Sidenote-Mode: off")
	if r := g.reports.next(t); r.Experiment.Arm != before.Arm || r.Experiment.Counted || !before.Counted {
		t.Errorf("with mode off: %+v after %+v", r.Experiment, before)
	}
	modes.Set(tenant.SwitchEntry{Mode: rewrite.Off, Since: time.Now()})
	if r := a.ask(t, g, "And then?"); r.Experiment.Arm != before.Arm || r.Experiment.Counted {
		t.Errorf("while the kill switch is on: %+v after %+v", r.Experiment, before)
	}
	if v := store.Views()[0]; v.Made() != 1 {
		t.Errorf("%d requests count", v.Made())
	}
}

// A request whose mode is lowered below that of only one policy counts in neither arm, so that both
// arms count the same requests.
func TestLoweringOneArmCountsInNeither(t *testing.T) {
	const inject = "Sidenote-Mode: inject"
	f := func(modeA, modeB rewrite.Mode, line string, limit *rewrite.Mode, want bool) {
		t.Helper()
		modes, err := tenant.NewSwitch(nil, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if limit != nil {
			modes.Set(tenant.SwitchEntry{Mode: *limit, Since: time.Now()})
		}
		g := openExperiment(t, newUpstream(t, answerAny()), experiment.New("", nil), half(), func(c *proxy.Config) {
			c.Tools, c.Timeouts, c.Switch = &proxy.RoundsKit{Box: newBox()}, proxy.DefaultTimeouts(), modes
			a := c.Tenants.Unknown
			for p, mode := range map[*tenant.Policy]rewrite.Mode{a: modeA, a.Experiment.B: modeB} {
				p.Rewrite.Mode, p.Tools = mode, toolPolicy()
			}
		})
		arms := map[string]int{}
		for n := range 20 {
			g.post(t, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"How long is leave in country %d?"}]}`, n), line)
			r := g.reports.next(t).Experiment
			if arms[r.Arm]++; r.Counted != want {
				t.Fatalf("modes %s and %s, %s: arm %s counts: %t, want %t", modeA, modeB, line, r.Arm, r.Counted, want)
			}
		}
		if arms["a"]*arms["b"] == 0 {
			t.Fatalf("requests by arm: %v", arms)
		}
	}
	const none = "Accept: */*"
	limit := rewrite.Inject
	f(rewrite.Inject, rewrite.Tools, none, nil, true)
	f(rewrite.Inject, rewrite.Inject, inject, &limit, true)
	f(rewrite.Inject, rewrite.Tools, inject, nil, false)
	f(rewrite.Tools, rewrite.Inject, inject, nil, false)
	f(rewrite.Inject, rewrite.Tools, none, &limit, false)
	f(rewrite.Tools, rewrite.Inject, none, &limit, false)
}

// feedbackRequest returns a feedback request.
func feedbackRequest(body string, lines ...string) string {
	return strings.Replace(chatRequest(body, lines...), "/v1/chat/completions", "/v1/feedback", 1)
}

// An application scores answers by their ids. An unknown id and another tenant's look the same.
func TestFeedback(t *testing.T) {
	u, store := newUpstream(t, answerAny()), experiment.New("", nil)
	mine, other := policyOf("acme", comparing(half())), policyOf("other", comparing(half()))
	store.Configure([]experiment.Settings{mine.Experiment.Settings})
	g := openIn(t, u, func(c *proxy.Config) {
		c.Tenants = tenant.Tenants{Keys: []tenant.Key{keyOf("k1", mine), keyOf("k2", other), keyOf("k3", policyOf("plain", nil))}}
		c.Experiments = store
	})
	auth := func(key string) string { return "Authorization: Bearer " + key }
	resp, _ := g.post(t, `{"model":"m","messages":[{"role":"user","content":"How long?"}]}`, auth("k1"))
	id := resp.Header.Get(report.HeaderID)
	g.reports.next(t)
	u.next(t)

	f := func(key, body string, want int, says string) string {
		t.Helper()
		resp := g.raw(t, feedbackRequest(body, auth(key)))
		got, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want || !strings.Contains(string(got), says) {
			t.Errorf("%s: %d %s, want %d with %s", body, resp.StatusCode, got, want, says)
		}
		g.reports.next(t)
		text, _, _ := strings.Cut(string(got), `,"sidenote_id"`)
		return text
	}
	mean := func() (experiment.Mean, experiment.Mean) {
		for _, c := range store.Views()[0].Measures {
			if c.Measure == "feedback" {
				return c.A, c.B
			}
		}
		return experiment.Mean{}, experiment.Mean{}
	}
	f("k1", fmt.Sprintf(`{"id":%q,"score":1}`, id), 204, "")
	f("k1", fmt.Sprintf(`{"id":%q,"score":-0.5}`, id), 204, "") // replaces the first one
	if a, b := mean(); a.N+b.N != 1 || a.Mean+b.Mean != -.5 {
		t.Errorf("feedback: %+v and %+v", a, b)
	}
	theirs := f("k2", fmt.Sprintf(`{"id":%q,"score":1}`, id), 404, "unknown_feedback_id")
	if unknown := f("k2", `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","score":1}`, 404, "unknown_feedback_id"); unknown != theirs {
		t.Errorf("an unknown id: %s\nanother tenant's: %s", unknown, theirs)
	}
	for body, says := range map[string]string{
		`{"id":%q,"score":2}`:     "score: 2 is not a number from -1 to 1",
		`{"id":%q,"score":"1"}`:   `score: \"1\" is not a number`,
		`{"id":%q,"score":null}`:  "score: null is not a number",
		`{"id":%q}`:               "score: is missing",
		`{"score":1,"x":%q}`:      "id: is missing",
		`{"id":[%q],"score":1}`:   "is not the Sidenote-Id of an answer",
		`[%q]`:                    "not_json",
		`{"id":%q,"score":1e999}`: "score: 1e999 is not a number",
	} {
		f("k1", fmt.Sprintf(body, id), 400, says)
	}
	f("k1", `{"id":"`+strings.Repeat("x", 5000)+`"}`, 413, "body_too_large")
	if len(u.seen) != 0 {
		t.Errorf("the upstream got %+v", <-u.seen)
	}
	if resp := g.raw(t, feedbackRequest(`{}`, auth("k3"))); resp.StatusCode != 200 { // it has no experiment
		t.Fatalf("relayed feedback: %s", resp.Status)
	}
	if s := u.next(t); !strings.HasPrefix(s.line, "POST /v1/feedback") {
		t.Errorf("the upstream got %s", s.line)
	}
	g.reports.next(t)

	body := `{"model":"m","messages":[{"role":"user","content":"And then?"}]}`
	g.post(t, body, auth("k1"), "Sidenote-Feedback: "+id+"; score=0.25")
	if s := u.next(t); s.header("Sidenote-Feedback") != "" {
		t.Error("the header went to the upstream")
	}
	if a, b := mean(); a.N+b.N != 1 || a.Mean+b.Mean != .25 {
		t.Errorf("feedback by header: %+v and %+v", a, b)
	}
	for _, wrong := range []string{id, id + "; score=2", id + "; score=", "; score=1"} {
		resp, text := g.post(t, body, auth("k1"), "Sidenote-Feedback: "+wrong)
		if resp.StatusCode != 400 || !strings.Contains(text, "Sidenote-Feedback") {
			t.Errorf("%q: %d %s", wrong, resp.StatusCode, text)
		}
	}
}

// Policy B is not searched for in the names of metrics, and an override has its own policy B.
func TestOverridesHaveTheirOwnPolicyB(t *testing.T) {
	u, store := newUpstream(t, answerAny()), experiment.New("", nil)
	settings := half()
	settings.Share = .999999
	g := openExperiment(t, u, store, settings, func(c *proxy.Config) {
		p := c.Tenants.Unknown
		over, b := *p, *p.Experiment.B
		over.Hash, b.Hash = "0000000a", "0000000b"
		over.Experiment = &tenant.Experiment{Settings: p.Experiment.Settings, B: &b}
		p.Overrides = []tenant.Override{{Models: tenant.Models{"big"}, Policy: &over}}
	})
	for model, want := range map[string]string{"small": "00000002", "big": "0000000b"} {
		g.post(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"How long?"}]}`, model))
		if r := g.reports.next(t); r.PolicyHash != want || r.Policy != "other" {
			t.Errorf("model %s has policy %s (%s), want %s", model, r.Policy, r.PolicyHash, want)
		}
	}
}
