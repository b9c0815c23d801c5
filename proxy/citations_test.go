package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
)

// checked starts a rig whose policy checks citations. Documents have the given address, and terms
// are words.
func checked(t *testing.T, u *stubUpstream, address string, change func(*tenant.Policy)) *rig {
	t.Helper()
	return openIn(t, u, func(cfg *proxy.Config) {
		cfg.Tenants.Unknown = policyOf("acme", func(p *tenant.Policy) {
			p.Citations.Annotate = true
			if change != nil {
				change(p)
			}
		})
		cfg.Documents = proxy.CitedDocuments{Terms: strings.Fields, URL: func(knowledge, doc string) string {
			if knowledge != "kb-acme" || doc != "kb-acme.md" {
				t.Errorf("asked for the address of %s in %s", doc, knowledge)
			}
			return address
		}}
	})
}

// annotated returns the annotation of [1] at the beginning of a text.
func annotated(title, address string) string {
	return `{"type":"url_citation","url_citation":{"start_index":0,"end_index":3,"title":"` + title + `","url":"` + address + `"}}`
}

// answering returns an upstream that answers with a head and a body.
func answering(head, body string) func(seen, io.Writer) {
	return func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
}

const ours = `[{"index":0,"delta":{"annotations":[`

// The citations of an answer are annotated as far as the policy exposes sources. They are counted
// in the status of an answer that is not a stream, in the report and in the metrics.
func TestCitations(t *testing.T) {
	const (
		whole  = `{"choices": [{"message":{"content":"[1] canary of acme [2]"%s}}], "x": 1.0}`
		stream = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"[1] canary of acme [2]\"}}]}\n\n%sdata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
		name   = "Über kb-acme"
		own    = "sidenote://kb-acme/kb-acme.md#0"
	)
	for what, c := range map[string]struct {
		expose         report.Expose
		remove         bool
		address, title string
		want           string // address in annotations
	}{
		"address":      {report.ExposeNames, false, "https://kb/a?b=ü&c", name, "https://kb/a?b=ü&c"},
		"no address":   {report.ExposeNames, false, "", name, own},
		"another one":  {report.ExposeNames, false, "javascript:alert(1)", name, own},
		"with a key":   {report.ExposeNames, false, "https://user:key@kb/a", name, own},
		"ids":          {report.ExposeIDs, false, "https://kb/a", "kb-acme.md", own},
		"none":         {report.ExposeNone, false, "https://kb/a", "", ""},
		"removed":      {report.ExposeNames, true, "", name, own},
		"none, remove": {report.ExposeNone, true, "", "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			inJSON, event, n := "", "", 0
			if c.title != "" {
				n = 1
				inJSON = `,"annotations":[` + annotated(c.title, c.want) + `]`
				event = `data: {"id":"c","choices":` + ours + annotated(c.title, c.want) + "]},\"finish_reason\":null}]}\n\n"
			}
			for head, answer := range map[string][2]string{
				okJSON: {fmt.Sprintf(whole, ""), fmt.Sprintf(whole, inJSON)},
				"200 OK\r\nContent-Type: text/event-stream": {fmt.Sprintf(stream, ""), fmt.Sprintf(stream, event)},
			} {
				u := newUpstream(t, answering(head, answer[0]))
				g := checked(t, u, c.address, func(p *tenant.Policy) { p.Expose, p.Citations.RemoveUnknown = c.expose, c.remove })
				resp, got := g.post(t, chatBody, "Accept-Encoding: gzip")
				want := answer[1]
				if c.remove {
					want = strings.Replace(want, " [2]", "", 1)
				}
				if got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				status := resp.Header.Get("Sidenote-Status")
				if told := strings.Contains(status, "; citations=1; unknown_citations=1"); told != (head == okJSON) {
					t.Errorf("status %s", status)
				}
				if s := u.next(t); s.header("Accept-Encoding") != "identity" {
					t.Errorf("the upstream is asked for %s", s.header("Accept-Encoding"))
				}
				r := g.reports.next(t)
				if found := r.Citations; found == nil || found.Annotations != n || found.Unknown != 1 || found.Times() != 1 || found.Unread != "" {
					t.Errorf("reported %+v", found)
				}
				if e := r.Rewrite.Ledger.Sources[0]; e.Cited != 1 || e.Support != nil {
					t.Errorf("in the ledger %+v", e)
				}
				for result, want := range map[string]float64{"given": 1, "unknown": 1} {
					if got := reporttest.Count(t, g.metrics, "sidenote_citations_total", result); got != want {
						t.Errorf("%s counted %v times", result, got)
					}
				}
			}
		})
	}
}

// Statements are compared with the texts of their sources.
func TestCitationSupport(t *testing.T) {
	u := newUpstream(t, answerJSON(`{"choices":[{"message":{"content":"canary of nobody [1]"}}]}`))
	g := checked(t, u, "", nil)
	g.post(t, chatBody)
	r := g.reports.next(t)
	if e := r.Rewrite.Ledger.Sources[0]; e.Support == nil || *e.Support < .66 || *e.Support > .67 {
		t.Errorf("in the ledger %+v", e)
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_citation_support", ""); n != 1 {
		t.Errorf("%v are measured", n)
	}
}

// An answer that cannot be checked is relayed unchanged, and that is reported; so is an answer
// that is not to be checked.
func TestCitationsUnread(t *testing.T) {
	const text = `{"choices":[{"message":{"content":"[1]"}}]}`
	long := `{"choices":[{"message":{"content":"[1]` + strings.Repeat(" ", answer.MaxCitedJSON) + `"}}]}`
	chunked := func(body string) func(seen, io.Writer) {
		return func(_ seen, w io.Writer) {
			fmt.Fprintf(w, "HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", okJSON, len(body), body)
		}
	}
	request := func(with string) string { return "{" + with + chatBody[1:] }
	for name, c := range map[string]struct {
		answer func(seen, io.Writer)
		body   string // of the request
		change func(*tenant.Policy)
		want   string
		unread answer.CitationsUnread // "-": not checked
	}{
		"off":               {answering(okJSON, text), chatBody, func(p *tenant.Policy) { p.Citations = answer.Policy{} }, text, "-"},
		"no sources":        {answering(okJSON, text), chatBody, func(p *tenant.Policy) { p.Rewrite.Knowledge = nil }, text, "-"},
		"shadow":            {answering(okJSON, text), chatBody, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow }, text, "-"},
		"an answer by form": {answering(okJSON, text), request(`"response_format":{"type":"json_object"},`), nil, text, "-"},
		"an error":          {answering("429 Slow\r\nContent-Type: application/json", text), chatBody, nil, text, "-"},
		"compressed":        {answering(okJSON+"\r\nContent-Encoding: gzip", gzipped(t, text)), chatBody, nil, gzipped(t, text), answer.UnreadEncoded},
		"large":             {answering(okJSON, long), chatBody, nil, long, answer.UnreadTooLarge},
		"large, in chunks":  {chunked(long), chatBody, nil, long, answer.UnreadTooLarge},
		"no chat":           {answering(okJSON, "Hello [1]"), chatBody, nil, "Hello [1]", answer.UnreadShape},
		"in chunks":         {chunked(text), chatBody, nil, strings.Replace(text, `"[1]"`, `"[1]","annotations":[`+annotated("Über kb-acme", "sidenote://kb-acme/kb-acme.md#0")+"]", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, c.answer)
			g := checked(t, u, "", c.change)
			resp, got := g.post(t, c.body, "Accept-Encoding: gzip")
			if got != c.want {
				t.Errorf("got %.300s", got)
			}
			if same := c.unread == "-"; same != (u.next(t).header("Accept-Encoding") == "gzip") && name != "an error" {
				t.Error("the upstream is asked for another encoding")
			}
			switch found, status := g.reports.next(t).Citations, resp.Header.Get("Sidenote-Status"); {
			case c.unread == "-":
				if found != nil || strings.Contains(status, "citations") {
					t.Errorf("reported %+v, %s", found, status)
				}
			case found == nil || found.Unread != c.unread || c.unread != "" && !strings.Contains(status, "; citations="+string(c.unread)):
				t.Errorf("reported %+v, %s", found, status)
			}
		})
	}
}

// A cut answer is relayed as cut; one for which memory is short is relayed unchanged.
func TestCitationsCut(t *testing.T) {
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: 99\r\n\r\n{\"choices\":[", okJSON)
		_ = w.(io.Closer).Close()
	})
	g := checked(t, u, "", nil)
	resp := g.raw(t, chatRequest(chatBody))
	if got, err := io.ReadAll(resp.Body); err == nil || string(got) != `{"choices":[` {
		t.Errorf("got %s, %v", got, err)
	}
	if r := g.reports.next(t); !r.Truncated || r.Citations == nil || r.Citations.Unread != answer.UnreadCut {
		t.Errorf("reported %+v", r.Citations)
	}
}

// A stream can have its citations checked and its usage hidden at the same time; each event is
// relayed before the next one arrives.
func TestCitationsOfMeteredStream(t *testing.T) {
	const (
		text   = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"[1]\"}}]}\n\n"
		finish = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
		used   = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10}}\n\n"
		done   = "data: [DONE]\n\n"
	)
	u, events, _, _ := streamer(t)
	g := checked(t, u, "", func(p *tenant.Policy) { p.Metered = true })
	_, r, _ := g.stream(t)
	ours := `data: {"id":"c","choices":` + ours + annotated("Über kb-acme", "sidenote://kb-acme/kb-acme.md#0") + "]},\"finish_reason\":null}]}\n\n"
	for _, step := range [][2]string{{text, text}, {finish, ours + finish}, {used, ""}, {done, done}} {
		events <- step[0]
		got := make([]byte, len(step[1]))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != step[1] {
			t.Fatalf("got %s, %v, want %s", got, err, step[1])
		}
	}
	close(events)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("then %s, %v", rest, err)
	}
	if r := g.reports.next(t); r.Usage.Output != 10 || r.Citations.Annotations != 1 {
		t.Errorf("reported %+v, %+v", r.Usage, r.Citations)
	}
}

// passages finds documents of one chunk.
type passages struct{}

func (passages) Passage(_ context.Context, _ retrieval.Query, p retrieval.Passage) ([]retrieval.Source, error) {
	return []retrieval.Source{{Type: "rag", Knowledge: p.Knowledge, Doc: p.Doc, Name: "Name of " + p.Doc, Text: "the only chunk"}}, nil
}

// In mode tools the answer of the last round is checked against the injected sources and those
// that tools returned.
func TestCitationsOfTools(t *testing.T) {
	const text = "It is so [1], the only one [2] [3]."
	dialogue := answertest.Dialogue{Name: "read", Answers: []answertest.Answer{
		{Calls: []answertest.Call{{Name: "read_knowledge", Arguments: `{"refs":["kb-acme:other.md:0"]}`}}},
		{Text: text, Finish: "stop"},
	}}
	for _, habit := range answertest.Habits() {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(habit.Name, stream), func(t *testing.T) {
				address, err := url.Parse(answertest.Start(t, dialogue, habit).URL + "/v1")
				if err != nil {
					t.Fatal(err)
				}
				g := openIn(t, &stubUpstream{url: address}, func(cfg *proxy.Config) {
					cfg.Tenants.Unknown = policyOf("acme", func(p *tenant.Policy) {
						p.Citations = answer.Policy{Annotate: true, RemoveUnknown: true}
						p.Rewrite.Mode = rewrite.Tools
						p.Tools = tools.Policy{Offer: []tools.ToolName{tools.ReadKnowledge}, FirstSearch: true, MaxRounds: 4, MaxTokens: 8000, Timeout: patience}
					})
					cfg.Documents.Terms = strings.Fields
					cfg.Tools = &proxy.RoundsKit{Box: &tools.Box{Knowledge: tools.Knowledge{Retriever: retrieval.Func(fromBases), Reader: passages{}, Terms: strings.Fields}}}
				})
				body := chatBody
				if stream {
					body = `{"stream":true,` + chatBody[1:]
				}
				resp, got := g.post(t, body)
				if n := strings.Count(got, `{"type":"url_citation"`); n != 2 ||
					!strings.Contains(got, `"start_index":9,"end_index":12,"title":"Über kb-acme","url":"sidenote://kb-acme/kb-acme.md#0"`) ||
					!strings.Contains(got, `"start_index":27,"end_index":30,"title":"Name of other.md","url":"sidenote://kb-acme/other.md#0"`) {
					t.Errorf("%d annotations in %s", n, got)
				}
				r := g.reports.next(t)
				if c := r.Citations; c == nil || c.Annotations != 2 || c.Unknown != 1 || c.Times() != 2 {
					t.Fatalf("reported %+v", c)
				}
				if e := r.Tools.Sources[0]; e.Cited != 1 || e.Support == nil || *e.Support < .6 {
					t.Errorf("of the source that was read: %+v", e)
				}
				if status := resp.Header.Get("Sidenote-Status"); strings.Contains(status, "citations=2; unknown_citations=1") == stream {
					t.Errorf("status %s", status)
				}
			})
		}
	}
}
