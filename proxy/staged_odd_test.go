package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// oddStages starts a rig whose chats are answered in stages with these names. Each prompt begins
// with the name of its stage and contains the previous output.
func oddStages(t *testing.T, u *stubUpstream, change func(*proxy.Config, *tenant.Policy), list ...staged.Stage) *rig {
	t.Helper()
	for i := range list {
		if list[i].UserPrompt = list[i].Name + ": {{QUESTION}} {{CONTEXT}}"; i > 0 {
			list[i].UserPrompt += " {{" + list[i-1].Name + "}}"
		}
	}
	chain, err := staged.Compile(list)
	if err != nil {
		t.Fatal(err)
	}
	return openIn(t, u, func(cfg *proxy.Config) {
		p := policyOf("acme", func(p *tenant.Policy) {
			p.Rewrite.Mode = rewrite.Staged
			p.Stages = staged.Policy{Stages: chain.Stages, Chain: chain, StageTimeout: patience, Timeout: patience}
		})
		cfg.Tenants.Unknown = p
		if change != nil {
			change(cfg, p)
		}
	})
}

// saying answers each stage by its name, and the request that replaces the stages by "". An answer
// that begins with "data:" is a stream, one that begins with "HTTP/" is sent unchanged; any other
// is the text of an answer.
func saying(answers map[string]string) func(seen, io.Writer) {
	return func(s seen, w io.Writer) {
		answer := answers[""]
		for name, a := range answers {
			if name != "" && strings.Contains(s.body, `"content":"`+name+": ") {
				answer = a
			}
		}
		head := okJSON
		switch {
		case strings.HasPrefix(answer, "HTTP/"):
			_, _ = io.WriteString(w, answer)
			return
		case strings.HasPrefix(answer, "data:"):
			head = "200 OK\r\nContent-Type: text/event-stream"
		default:
			answer = fmt.Sprintf(`{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, answer)
		}
		fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(answer), answer)
	}
}

// raised returns an upstream's answer as it is sent.
func raised(head, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

const oddBody = `{"model":"m","messages":[{"role":"user","content":"How long is parental leave?"}]}`

var oddStream = strings.Replace(oddBody, "{", `{"stream":true,`, 1)

// A stage's request is not the client's: it is not compressed like that, and has no idempotency
// key. The request that replaces the stages is the client's own.
func TestHeadsOfStages(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, oddStream); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	refused := raised("500 Internal Server Error", "{}")
	u := newUpstream(t, saying(map[string]string{"one": "evidence", "two": refused, "": "data: [DONE]\n\n"}))
	g := oddStages(t, u, nil, staged.Stage{Name: "one"}, staged.Stage{Name: "two"})
	if resp, got := g.post(t, b.String(), "Content-Encoding: gzip", "Idempotency-Key: key-1", "X-Own: kept"); resp.StatusCode != 200 {
		t.Fatal(resp.Status, got)
	}
	for _, key := range []string{"", "", "key-1"} {
		s := u.next(t)
		if !strings.HasPrefix(s.body, "{") || s.header("Content-Encoding") != "" {
			t.Errorf("the body %.20q is said to be in %s", s.body, s.header("Content-Encoding"))
		}
		if s.header("Idempotency-Key") != key || s.header("X-Own") != "kept" {
			t.Errorf("%s went up with %q", s.body, s.head)
		}
	}
}

// If the path names the model, as on Azure, a stage's path names its own model, escaped. Without a
// model of its own, and for the request that replaces the stages, it is the client's.
func TestDeploymentsOfStages(t *testing.T) {
	u := newUpstream(t, saying(map[string]string{"one": "evidence", "two": raised("500 Internal Server Error", "{}"), "": "answer"}))
	g := oddStages(t, u, nil, staged.Stage{Name: "one", Model: "our mini"}, staged.Stage{Name: "two"})
	request := strings.Replace(chatRequest(oddBody), "/v1/chat/completions", "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", 1)
	if resp := g.raw(t, request); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	for _, deployment := range []string{"our%20mini", "gpt-4o", "gpt-4o"} {
		if s := u.next(t); !strings.Contains(s.line, "/openai/deployments/"+deployment+"/chat/completions?api-version=2024-10-21 ") {
			t.Errorf("asked %s, want %s", s.line, deployment)
		}
	}
}

// A stage's own upstream gets no header that identifies the client, whatever its name, but
// Sidenote's own key for it.
func TestHeadsOfStagesElsewhere(t *testing.T) {
	answer := saying(map[string]string{"one": "evidence", "two": "review", "three": "answer"})
	u, open, keyed := newUpstream(t, answer), newUpstream(t, answer), newUpstream(t, answer)
	g := oddStages(t, u, func(cfg *proxy.Config, _ *tenant.Policy) {
		cfg.Upstreams["open"] = proxy.Upstream{BaseURL: open.url}
		cfg.Upstreams["keyed"] = proxy.Upstream{BaseURL: keyed.url, APIKey: proxy.NewSecret("sk-ours")}
	}, staged.Stage{Name: "one", Model: "m", Upstream: "open"}, staged.Stage{Name: "two", Model: "m", Upstream: "keyed"}, staged.Stage{Name: "three"})
	own := []string{
		"Authorization: Bearer sk-theirs-1", "api-key: sk-theirs-1", "Cookie: sid=theirs-2", "OpenAI-Organization: org-theirs-3", "openai-project: theirs-4",
		"Ocp-Apim-Subscription-Key: theirs-5", "X-Gateway-Auth: theirs-6", "Idempotency-Key: theirs-7",
	}
	if resp, got := g.post(t, oddBody, append(own, "Traceparent: 00-1", "User-Agent: app/1")...); resp.StatusCode != 200 || !strings.Contains(got, "answer") {
		t.Fatal(resp.Status, got)
	}
	for name, c := range map[string]struct {
		u    *stubUpstream
		auth string
	}{"open": {open, ""}, "keyed": {keyed, "Bearer sk-ours"}} {
		s := c.u.next(t)
		if strings.Contains(strings.Join(s.head, "\n"), "theirs") || s.header("Authorization") != c.auth {
			t.Errorf("%s is told %q", name, s.head)
		}
		if s.header("Traceparent") != "00-1" || s.header("User-Agent") != "app/1" || s.header("Content-Type") != "application/json" || s.header("Host") != c.u.url.Host {
			t.Errorf("%s is told %q", name, s.head)
		}
	}
	s := u.next(t)
	for _, line := range own[:7] {
		if !strings.Contains(strings.Join(s.head, "\n"), line) {
			t.Errorf("the client's own upstream is told %q, without %s", s.head, line)
		}
	}
}

// draftOf returns two stages; the first one's output is the answer if the second one fails.
func draftOf() []staged.Stage { return []staged.Stage{{Name: "one", Draft: true}, {Name: "two"}} }

// A last stage that outputs only white space counts as silent, streamed or not.
func TestStageSaysWhiteSpace(t *testing.T) {
	const piece = `data: {"id":"c","choices":[{"index":0,"delta":{"content":" \n"},"finish_reason":null}]}` + "\n\n"
	for _, blank := range []string{" \n", piece + piece + `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"} {
		u := newUpstream(t, saying(map[string]string{"one": "the draft", "two": blank}))
		g := oddStages(t, u, nil, draftOf()...)
		for _, body := range []string{oddBody, oddStream} {
			if body == oddBody && blank != " \n" {
				continue
			}
			if _, got := g.post(t, body); !strings.Contains(got, "the draft") || strings.Contains(got, ` \n`) {
				t.Error(got)
			}
			if r := g.reports.next(t); r.Stages.Answer != "one" || r.Stages.Called[1].Outcome != report.StageSilent {
				t.Errorf("%+v", r.Stages)
			}
		}
	}
}

// A stage whose model shows its reasoning is answered with a list of parts; the next stage gets
// their texts.
func TestStageSaysParts(t *testing.T) {
	parts := `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"the evidence"}]},"finish_reason":"stop"}]}`
	u := newUpstream(t, saying(map[string]string{"one": raised(okJSON, parts), "two": raised(okJSON, strings.Replace(parts, "evidence", "answer", 1))}))
	g := oddStages(t, u, nil, staged.Stage{Name: "one"}, staged.Stage{Name: "two"})
	if _, got := g.post(t, oddBody); !strings.Contains(got, "the answer") {
		t.Error(got)
	}
	u.next(t)
	if s := u.next(t); !strings.Contains(s.body, `\nthe evidence\n`) {
		t.Errorf("the second stage is asked %s", s.body)
	}
	if r := g.reports.next(t); r.Outcome != report.Staged || r.Stages.Called[1].Output != "the answer" {
		t.Errorf("%+v", r.Stages)
	}
}

// If the request that replaces the stages fails within a stream, the stream ends with an error:
// the upstream's own if it sent one.
func TestInsteadOfStagesIsNoAnswer(t *testing.T) {
	gzipped := raised("200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip", "\x1f\x8b")
	for want, answer := range map[string]string{
		`data: {"error":{"code":"upstream_broken",`:   gzipped,
		`data: {"error":{"message":"no such model"}}`: raised(okJSON, `{"error":{"message":"no such model"}}`),
	} {
		u := newUpstream(t, saying(map[string]string{"one": "evidence", "two": "", "": answer}))
		g := oddStages(t, u, nil, staged.Stage{Name: "one"}, staged.Stage{Name: "two"}, staged.Stage{Name: "three"})
		resp := g.raw(t, chatRequest(oddStream))
		got, err := io.ReadAll(resp.Body)
		if !strings.Contains(string(got), want) || strings.Contains(string(got), "[DONE]") || err == nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// A stream that ends with an error instead of an answer is reported as failed, as it is without a
// stream, and not as answered without stages. Clients are not told to retry what an upstream
// refuses, nor earlier than it says.
func TestStreamOfStagesFails(t *testing.T) {
	for head, want := range map[string]struct {
		message string
		wait    string // without a stream
	}{
		"429 Too Many Requests":                      {"Stage 2 of 2, two, was answered with status 429 by its upstream. Try again.", "1"},
		"429 Too Many Requests\r\nRetry-After: 17":   {"Stage 2 of 2, two, was answered with status 429 by its upstream. Try again.", "17"},
		"503 Service Unavailable\r\nRetry-After: 17": {"Stage 2 of 2, two, was answered with status 503 by its upstream. Try again.", "17"},
		"400 Bad Request\r\nRetry-After: 17":         {"Stage 2 of 2, two, was answered with status 400 by its upstream.", ""},
	} {
		u := newUpstream(t, saying(map[string]string{"one": "evidence", "two": raised(head, "{}")}))
		g := oddStages(t, u, func(_ *proxy.Config, p *tenant.Policy) { p.Stages.RefuseOnFailure = true }, staged.Stage{Name: "one"}, staged.Stage{Name: "two"})
		for _, body := range []string{oddBody, oddStream} {
			resp := g.raw(t, chatRequest(body))
			got, _ := io.ReadAll(resp.Body)
			if !strings.Contains(string(got), `"message":"`+want.message+`"`) {
				t.Errorf("%s: %s", head, got)
			}
			if wait := resp.Header.Get("Retry-After"); body == oddBody && wait != want.wait {
				t.Errorf("%s: Retry-After %q, want %q", head, wait, want.wait)
			}
			if r := g.reports.next(t); r.Outcome != report.Failed || r.Reason != report.ReasonStage || r.StageFailed() != "" || !strings.Contains(g.log.take(), "request failed") {
				t.Errorf("%s: %s, %s, went on without %q", head, r.Outcome, r.Reason, r.StageFailed())
			}
		}
	}
}
