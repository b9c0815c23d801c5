package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
)

// say answers with a text, as a whole or as a stream as requested, and reports usage if requested.
func say(text string) func(seen, io.Writer) {
	const used = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` + "\n\n"
	return func(s seen, w io.Writer) {
		body, kind := answertest.Bytes(answertest.Answer{Text: text, Finish: "stop", PromptTokens: 10, Tokens: 5}, plain(), streams(s))
		if streams(s) && strings.Contains(s.body, `"include_usage":true`) {
			body = append(bytes.TrimSuffix(body, []byte(doneEvent)), used+doneEvent...)
		}
		writeWhole(w, "200 OK\r\nContent-Type: "+kind, string(body))
	}
}

// writeWhole writes an answer.
func writeWhole(w io.Writer, head, body string) {
	fmt.Fprintf(w, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// streams reports whether a request asks for a stream.
func streams(s seen) bool { return strings.Contains(s.body, `"stream":true`) }

// stageOf returns which of fourStages a request is for, from 1; 0 if for none.
func stageOf(s seen) int {
	for i, stage := range fourStages() {
		if strings.Contains(s.body, `{"role":"system","content":"`+stage.SystemPrompt+`"}`) {
			return i + 1
		}
	}
	return 0
}

// said returns the text of a stage's answer; 0 is the answer without stages.
func said(stage int) string {
	return [...]string{"Without stages [1].", "Evidence [1].", "Draft [1].", "Careless.", "Final [1]."}[stage]
}

// plays answers with said, except for one stage.
func plays(stage int, by func(seen, io.Writer)) func(seen, io.Writer) {
	return func(s seen, w io.Writer) {
		if n := stageOf(s); n != stage {
			say(said(n))(s, w)
			return
		}
		by(s, w)
	}
}

// openStaged opens a rig whose only policy is in mode staged and whose limits b counts.
func openStaged(t *testing.T, b *till, u *stubUpstream, terms stagedTerms, changes ...func(*proxy.Config)) *rig {
	t.Helper()
	policy := limited(t, plenty(), func(p *tenant.Policy) {
		p.Rewrite.Knowledge = []string{"kb-acme"}
		inStages(t, p, terms)
	})
	return openLimited(t, b, u, policy, retrieval.Func(staff{}.Retrieve), changes...)
}

// closedPort returns an upstream that refuses connections.
func closedPort(t *testing.T) proxy.Upstream {
	t.Helper()
	return proxy.Upstream{Name: "closed", BaseURL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/v1"}}
}

// stubAt returns a stubUpstream at another server's address, for rigs that need one.
func stubAt(t *testing.T, base string) *stubUpstream {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	return &stubUpstream{url: u}
}

// plays sends a chat and reads what the client gets.
func (g *rig) plays(t *testing.T, body string) played {
	t.Helper()
	c := g.dial(t)
	defer c.Close()
	if _, err := io.WriteString(c, chatRequest(body)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return played{status: resp.StatusCode, header: resp.Header, body: string(all), err: err}
}

// told returns the final status that the client gets: for a stream that in the comment at its end.
func (p *played) told() string {
	if _, comment, ok := strings.Cut(p.body, "\n: sidenote-status: "); ok {
		comment, _, _ = strings.Cut(comment, "\n")
		return comment
	}
	return p.header.Get(report.HeaderStatus)
}

// stageAt returns terms under which a stage has another upstream.
func stageAt(stage int, upstream string) stagedTerms {
	stages := slices.Clone(fourStages())
	stages[stage-1].Upstream, stages[stage-1].Model = upstream, "m"
	terms := stagedTerms{}
	terms.Stages = stages
	return terms
}
