package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A tape is a Recorder with what it has recorded.
type tape struct {
	*record.Recorder
	dir  string
	keys map[string]*cache.Keys
}

// newTape returns a tape of the policy "base", which records every chat unless change says otherwise.
func newTape(t *testing.T, change func(*record.Settings)) *tape {
	t.Helper()
	keys, err := cache.ParseKeys([]byte("one AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
	if err != nil {
		t.Fatal(err)
	}
	p := &tape{dir: t.TempDir(), keys: map[string]*cache.Keys{"base": keys}}
	p.Recorder = record.New(p.dir, record.Options{})
	s := record.Settings{Share: 1, Keep: time.Hour, Max: 64 << 20, Keys: keys}
	if change != nil {
		change(&s)
	}
	p.Configure(map[string]record.Settings{"base": s})
	t.Cleanup(func() { p.end(t) })
	return p
}

func (p *tape) end(t *testing.T) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// all ends the recording and returns the records.
func (p *tape) all(t *testing.T) (list []*record.Record) {
	t.Helper()
	p.end(t)
	r, err := record.Open(p.dir, p.keys)
	if err != nil {
		return nil
	}
	for of, err := range r.All(record.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, of)
	}
	return list
}

// What a chat asked, what it was given and how it ended is recorded, in each API, as a stream or not.
func TestRecordsChats(t *testing.T) {
	const (
		earlier   = `{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},`
		chat      = `{"model":"m",%s"messages":[{"role":"system","content":"Be brief."},` + earlier + `{"role":"user","content":"How long is leave?"}]}`
		messages  = `{"model":"m","max_tokens":5,%s"messages":[` + earlier + `{"role":"user","content":"How long is leave?"}]}`
		responses = `{"model":"m","store":false,%s"input":[` + earlier + `{"role":"user","content":"How long is leave?"}]}`
	)
	for path, body := range map[string]string{"chat/completions": chat, "messages": messages, "responses": responses} {
		for _, stream := range []string{"", `"stream":true,`} {
			p := newTape(t, nil)
			u := newUpstream(t, answerJSON(`{"usage":{"prompt_tokens":12,"completion_tokens":3,"input_tokens":12,"output_tokens":3}}`))
			g := openIn(t, u, func(cfg *proxy.Config) { cfg.Recorder = p.Recorder })
			request := strings.Replace(chatRequest(fmt.Sprintf(body, stream)), "chat/completions", path, 1)
			resp := g.raw(t, request)
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Fatal(err)
			}
			id, rep := resp.Header.Get(report.HeaderID), g.reports.next(t)
			if !p.Feedback("acme", id, 1) || p.Feedback("other", id, 1) || p.Feedback("acme", "x", 1) {
				t.Errorf("%s: the id is not known, or another one is", path)
			}
			all := p.all(t)
			if len(all) != 1 {
				t.Fatalf("%s: %d records", path, len(all))
			}
			of := all[0]
			if of.ID != id || of.Tenant != "acme" || of.Policy != "base" || of.Hash != "00000001" || of.Model != "m" || of.Row != "test" || of.Mode != "inject" || of.Stream != (stream != "") ||
				of.API != rep.API() || !of.Time.Equal(rep.Time) {
				t.Errorf("%s: %+v", path, of)
			}
			if of.Question != "How long is leave?" || len(of.Earlier) != 1 || of.Earlier[0] != "Hi" || of.Asked != nil || of.Body != nil {
				t.Errorf("%s: asked %q after %q, %+v, %s", path, of.Question, of.Earlier, of.Asked, of.Body)
			}
			if of.Outcome != rewrite.Injected || of.Status != 200 || len(of.Sources) != 1 || of.Sources[0].Doc != "kb-acme.md" || of.Sources[0].ID != 1 || len(of.Bases) != 1 || of.Bases[0].ID != "kb-acme" ||
				of.Tokens != rep.Rewrite.Ledger.Used || of.Budget != 4000 || of.TotalMS <= 0 {
				t.Errorf("%s: given %+v", path, of)
			}
			if sent := u.next(t).body; !strings.Contains(of.Block, "canary of acme in kb-acme") || !strings.Contains(sent, strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(of.Block)) {
				t.Errorf("%s: the block %q is not in %s", path, of.Block, sent)
			}
			if stream == "" && (of.PromptTokens != 12 || of.CompletionTokens != 3) {
				t.Errorf("%s: %d and %d tokens", path, of.PromptTokens, of.CompletionTokens)
			}
		}
	}
}

// Each way in which a chat can go is recorded, with the reason; background calls and requests that are
// no chats are not.
func TestRecordsOutcomes(t *testing.T) {
	title := strings.Replace(chatBody, "How long is parental leave?", "### Task:\\nGenerate a concise, 3-5 word title", 1)
	for name, c := range map[string]struct {
		request string
		change  func(*tenant.Policy)
		found   func(context.Context, retrieval.Query) (retrieval.Result, error)
		outcome rewrite.Outcome
		reason  rewrite.Reason
		sources int
		failed  string // what of the search
	}{
		"injected":    {request: chatRequest(chatBody), outcome: rewrite.Injected, sources: 1},
		"compressed":  {request: chatRequest(gzipped(t, chatBody), "Content-Encoding: gzip"), outcome: rewrite.Injected, sources: 1},
		"off":         {request: chatRequest(chatBody, "Sidenote-Mode: off"), outcome: rewrite.Untouched, reason: rewrite.ReasonOff},
		"shadow":      {request: chatRequest(chatBody), change: func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow }, outcome: rewrite.Shadowed, sources: 1},
		"partly":      {request: chatRequest(chatBody), found: partly, outcome: rewrite.Injected, sources: 1, failed: "search"},
		"found none":  {request: chatRequest(chatBody), found: nothing, outcome: rewrite.Untouched, reason: rewrite.ReasonNoMatch},
		"answered":    {request: chatRequest(chatBody), found: nothing, change: func(p *tenant.Policy) { p.Rewrite.OnEmpty, p.Rewrite.EmptyAnswer = rewrite.EmptyRefuse, "No." }, outcome: rewrite.Answered, reason: rewrite.ReasonNoMatch},
		"background":  {request: chatRequest(title)},
		"not JSON":    {request: chatRequest("no JSON")},
		"no chat":     {request: strings.Replace(chatRequest(chatBody), "chat/completions", "embeddings", 1)},
		"only counts": {request: strings.Replace(chatRequest(`{"input":"How long?"}`), "chat/completions", "responses/input_tokens", 1)},
	} {
		p, u := newTape(t, nil), newUpstream(t, answerJSON(`{"ok":true}`))
		if c.found == nil {
			c.found = fromBases
		}
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}, Recorder: p.Recorder,
			Tenants: tenant.Tenants{Unknown: policyOf("acme", c.change)},
		}, retrieval.Func(c.found))
		if _, err := io.ReadAll(g.raw(t, c.request).Body); err != nil {
			t.Fatal(err)
		}
		g.reports.next(t)
		all := p.all(t)
		switch {
		case c.outcome == "" && len(all) > 0:
			t.Errorf("%s: recorded %+v", name, all[0])
		case c.outcome == "":
		case len(all) != 1:
			t.Errorf("%s: %d records", name, len(all))
		case all[0].Outcome != c.outcome || all[0].Reason != c.reason || len(all[0].Sources) != c.sources || all[0].Degraded != c.failed || all[0].Question != "How long is parental leave?" || (all[0].Block != "") != (c.sources > 0):
			t.Errorf("%s: %+v", name, all[0])
		}
	}
}

// partly finds what fromBases does, while another base is late.
func partly(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	res, err := fromBases(ctx, q)
	res.Partial = true
	return res, err
}

// The options of a request are recorded, and a body if bodies are; both are redacted.
func TestRecordsRequests(t *testing.T) {
	p := newTape(t, func(s *record.Settings) { s.Requests, s.Redact.Emails = true, true })
	u := newUpstream(t, answerJSON(`{"ok":true}`))
	g := openIn(t, u, func(cfg *proxy.Config) { cfg.Recorder = p.Recorder })
	const filter = `{"type":"eq","key":"owner","value":"ann@x.test"}`
	body := `{"model":"m","sidenote":{"context_tokens":900,"query":"leave of ann\u0040x.test","filters":` + filter + `,"knowledge":["kb-acme"]},"messages":[{"role":"user","content":"Ask ann@x.test"}]}`
	g.post(t, body)
	g.reports.next(t)
	of := p.all(t)[0]
	want := strings.ReplaceAll(strings.ReplaceAll(body, `\u0040`, "@"), "ann@x.test", "(an email)")
	if string(of.Body) != want || of.BodyBytes != len(body) || of.Question != "Ask (an email)" {
		t.Errorf("%d: %s, %q", of.BodyBytes, of.Body, of.Question)
	}
	a := of.Asked
	if a == nil || a.ContextTokens != 900 || a.Query != "leave of (an email)" || len(a.Knowledge) != 1 || string(a.Filters) != strings.ReplaceAll(filter, "ann@x.test", "(an email)") || string(of.Filter) != string(a.Filters) {
		t.Errorf("asked %+v, in force %s", a, of.Filter)
	}
}

// A body that is too long to be kept is left out, and its question is not.
func TestRecordsLongBodies(t *testing.T) {
	p := newTape(t, func(s *record.Settings) { s.Requests, s.Max = true, 16<<20 })
	u := newUpstream(t, answerJSON(`{"ok":true}`))
	g := openIn(t, u, func(cfg *proxy.Config) { cfg.Recorder = p.Recorder })
	body := strings.Replace(chatBody, "Be brief.", strings.Repeat("Be brief. ", 60_000), 1)
	g.post(t, body)
	g.reports.next(t)
	if of := p.all(t)[0]; of.Body != nil || of.BodyBytes != len(body) || of.Question != "How long is parental leave?" {
		t.Errorf("%d bytes, %q", of.BodyBytes, of.Question)
	}
}

// The sources that the model read by tools are recorded, and what the answer cites.
func TestRecordsTools(t *testing.T) {
	dialogue := answertest.Dialogue{Name: "read", Answers: []answertest.Answer{
		{Calls: []answertest.Call{{Name: "read_knowledge", Arguments: `{"refs":["kb-acme:other.md:0"]}`}}},
		{Text: "It is so [1], the only one [2] [3].", Finish: "stop"},
	}}
	address, err := url.Parse(answertest.Start(t, dialogue, plain()).URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	p := newTape(t, nil)
	g := openIn(t, &stubUpstream{url: address}, func(cfg *proxy.Config) {
		cfg.Recorder = p.Recorder
		cfg.Tenants.Unknown = policyOf("acme", func(p *tenant.Policy) {
			p.Citations, p.Rewrite.Mode = answer.Policy{Annotate: true}, rewrite.Tools
			p.Tools = tools.Policy{Offer: []tools.ToolName{tools.ReadKnowledge}, FirstSearch: true, MaxRounds: 4, MaxTokens: 8000, Timeout: patience}
		})
		cfg.Tools = &proxy.RoundsKit{Box: &tools.Box{Knowledge: tools.Knowledge{Retriever: retrieval.Func(fromBases), Reader: passages{}, Terms: strings.Fields}}}
	})
	g.post(t, chatBody)
	g.reports.next(t)
	of := p.all(t)[0]
	if of.Outcome != report.WithTools || len(of.Sources) != 2 || of.Sources[0].Doc != "kb-acme.md" || of.Sources[1].Doc != "other.md" ||
		of.Sources[0].Cited != 1 || of.Sources[1].Cited != 1 || !of.Checked || of.Unknown != 1 || !of.Cites() || !strings.Contains(of.Block, "canary of acme") {
		t.Errorf("%+v", of)
	}
}

// A chat in stages is recorded with the text that the stages were given.
func TestRecordsStages(t *testing.T) {
	p, b := newTape(t, nil), newTill(t)
	u := newUpstream(t, plays(0, nil))
	g := openStaged(t, b, u, stagedTerms{}, func(cfg *proxy.Config) { cfg.Recorder = p.Recorder })
	g.plays(t, weeksBody)
	g.reports.next(t)
	if of := p.all(t)[0]; of.Outcome != report.Staged || of.Block == "" || len(of.Sources) == 0 || of.Question != "How long is leave?" {
		t.Errorf("%+v", of)
	}
}

// The citations of an answer are recorded under a policy that does not annotate, whatever form the
// answer has, and the answer does not change; those of an answer that is too long or no gzip are
// unknown.
func TestRecordsCitations(t *testing.T) {
	const (
		whole  = `{"choices":[{"message":{"content":"canary of nobody [1] and [7]"}}]}`
		stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"canary of nobody [1]\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" and [7]\"}}]}\n\ndata: [DONE]\n\n"
	)
	long := strings.Replace(whole, "canary", strings.Repeat("canary ", 64<<10), 1)
	for name, c := range map[string]struct {
		head, body string
		unknown    bool
	}{
		"JSON":       {head: okJSON, body: whole},
		"a stream":   {head: "200 OK\r\nContent-Type: text/event-stream", body: stream},
		"compressed": {head: okJSON + "\r\nContent-Encoding: gzip", body: gzipped(t, whole)},
		"too long":   {head: okJSON, body: long, unknown: true},
		"no gzip":    {head: okJSON + "\r\nContent-Encoding: gzip", body: whole, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTape(t, nil)
			g := openIn(t, newUpstream(t, answering(c.head, c.body)), func(cfg *proxy.Config) {
				cfg.Recorder, cfg.Documents = p.Recorder, proxy.CitedDocuments{Terms: strings.Fields}
			})
			resp := g.raw(t, chatRequest(chatBody))
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != c.body {
				t.Errorf("got %d bytes, %v", len(text), err)
			}
			if r := g.reports.next(t); r.Citations != nil {
				t.Errorf("reported %+v", r.Citations)
			}
			of := p.all(t)[0]
			if of.Checked == c.unknown || of.Cites() == c.unknown {
				t.Fatalf("recorded %+v", of)
			}
			if s := of.Sources[0]; !c.unknown && (of.Unknown != 1 || s.Cited != 1 || s.Support == nil || *s.Support < .4) {
				t.Errorf("recorded %d unknown, %+v", of.Unknown, s)
			}
		})
	}
}

// Feedback for a recorded answer is in its record, whether it comes while the record waits to be
// written or later; the last score counts. Other ids are unknown, and a tenant that records nothing
// has its feedback relayed.
func TestRecordsFeedback(t *testing.T) {
	p := newTape(t, nil)
	u := newUpstream(t, answerJSON(`{}`))
	g := openIn(t, u, func(cfg *proxy.Config) { cfg.Recorder = p.Recorder })
	rate := func(body string, status int) {
		t.Helper()
		if resp := g.raw(t, feedbackRequest(body)); resp.StatusCode != status {
			text, _ := io.ReadAll(resp.Body)
			t.Errorf("%s: %d %s", body, resp.StatusCode, text)
		}
	}
	var ids []string
	for range 2 {
		resp, _ := g.post(t, chatBody)
		ids = append(ids, resp.Header.Get(report.HeaderID))
		g.reports.next(t)
	}
	rate(fmt.Sprintf(`{"id":%q,"score":-1}`, ids[0]), 204)
	rate(fmt.Sprintf(`{"id":%q,"score":0.5}`, ids[0]), 204)
	rate(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","score":1}`, 404)
	rate(fmt.Sprintf(`{"id":%q,"score":2}`, ids[0]), 400)
	all := p.all(t)
	if len(all) != 2 || all[0].ID != ids[0] || all[0].Feedback == nil || *all[0].Feedback != 0.5 || all[1].Feedback != nil {
		t.Errorf("recorded %+v", all)
	}
}

// An answer that the upstream cut off says nothing of what it would have cited.
func TestRecordsNoCitationsOfACutAnswer(t *testing.T) {
	p := newTape(t, nil)
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n" + `data: {"choices":[{"index":0,"delta":{"content":"I "}}]}` + "\n\n"
	u := newUpstream(t, func(_ seen, w io.Writer) {
		_, _ = io.WriteString(w, answer)
		_ = w.(net.Conn).Close()
	})
	g := openIn(t, u, func(cfg *proxy.Config) { cfg.Recorder = p.Recorder })
	_, _ = io.ReadAll(g.raw(t, chatRequest(chatBody)).Body) // it is cut off for the client, too
	if r := g.reports.next(t); !r.Truncated {
		t.Fatalf("reported %+v", r)
	}
	if of := p.all(t)[0]; of.Checked || len(of.Sources) != 1 {
		t.Errorf("recorded %+v", of)
	}
}

// Counting the citations of a recorded answer changes nothing that others read.
func TestCountingCitationsChangesACopy(t *testing.T) {
	req, err := new(chat.Parser).Parse(chat.Completions, []byte(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	shared := &rewrite.Repeated{Sources: []rewrite.SourceEntry{{ID: 2}}, Texts: []string{"two"}}
	of := &report.Report{}
	of.Rewrite.Ledger.Sources, of.Rewrite.Ledger.Repeated = []rewrite.SourceEntry{{ID: 1}}, shared
	sources := of.Rewrite.Ledger.Sources
	proxy.CountCitations(of, req, &record.Answer{Body: []byte(`{"choices":[{"message":{"content":"[1] and [2]"}}]}`)})
	if l := &of.Rewrite.Ledger; l.Sources[0].Cited != 1 || l.Repeated.Sources[0].Cited != 1 {
		t.Errorf("got %+v and %+v", l.Sources, l.Repeated)
	}
	if sources[0].Cited != 0 || shared.Sources[0].Cited != 0 {
		t.Errorf("shared are %+v and %+v", sources, shared)
	}
}
