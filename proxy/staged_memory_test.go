package proxy_test

import (
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// limitBodies limits the memory of this process so that LeaveMemory decides how much bodies get:
// the limit is far above what a test has live.
func limitBodies(t *testing.T) {
	t.Helper()
	limit := debug.SetMemoryLimit(1 << 40)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
}

// If memory is too short for the answer of the last stage, the client gets the complete answer to
// the request that replaces the stages. If a stream has begun it gets an error that does not blame
// the upstream.
func TestStagedWithoutMemory(t *testing.T) {
	limitBodies(t)
	large := strings.Repeat("x", 3<<20)
	whole := func(_ seen, w io.Writer) {
		body, kind := answertest.Bytes(answertest.Answer{Text: large, Finish: "stop"}, plain(), false)
		writeWhole(w, "200 OK\r\nContent-Type: "+kind, string(body))
	}
	for name, c := range map[string]struct{ stream, refuse bool }{
		"whole": {}, "stream": {stream: true}, "whole, refused": {refuse: true}, "stream, refused": {stream: true, refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(s seen, w io.Writer) {
				if n := stageOf(s); n == 0 || n == 4 {
					whole(s, w)
				} else {
					say(said(n))(s, w)
				}
			})
			stages := fourStages()
			stages[2].StopIf = "" // otherwise the draft is the answer
			terms := stagedTerms{}
			terms.Stages, terms.RefuseOnFailure = stages, c.refuse
			g := openStaged(t, newTill(t), u, terms)
			free := proxy.LeaveMemory(g.server, 1<<20)
			defer free()
			body := weeksBody
			if c.stream {
				body = weeksStream
			}
			p := g.plays(t, body)
			r := g.reports.next(t)
			switch {
			case c.stream:
				if !strings.Contains(p.body, `"error":{`) || r.Client == report.ClientCutUpstream || r.Truncated {
					t.Errorf("%d %.300s, %v; %s, %s, truncated %t", p.status, p.body, p.err, r.Outcome, r.Client, r.Truncated)
				}
				if !c.refuse && (!strings.Contains(p.body, `"code":"overloaded"`) || r.Outcome != report.Failed || r.Reason != rewrite.ReasonOverload) {
					t.Errorf("%.500s; %s %s", p.body, r.Outcome, r.Reason)
				}
			case c.refuse:
				if p.status < 500 || p.err != nil {
					t.Errorf("%d %.300s, %v", p.status, p.body, p.err)
				}
			default:
				if p.status != 200 || p.err != nil || !strings.Contains(p.body, large) || r.Client != report.ClientCompleted || r.Truncated {
					t.Errorf("%d, %d bytes, %v; %s, truncated %t", p.status, len(p.body), p.err, r.Client, r.Truncated)
				}
			}
		})
	}
}

// If memory is too short for the answer of a round with tools, which may contain calls, the client
// gets an error before the first byte, in the first and in a later round.
func TestRoundWithoutMemory(t *testing.T) {
	limitBodies(t)
	large := answertest.Answer{Text: strings.Repeat("x", 3<<20), Finish: "stop"}
	call := answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"leave"}`}}}
	for name, c := range map[string]struct {
		say  []answertest.Answer
		sent int
	}{"first round": {[]answertest.Answer{large}, 1}, "further round": {[]answertest.Answer{call, large}, 2}} {
		t.Run(name, func(t *testing.T) {
			left := c.say
			u := newUpstream(t, func(_ seen, w io.Writer) {
				body, kind := answertest.Bytes(left[0], plain(), false)
				left = left[1:]
				writeWhole(w, "200 OK\r\nContent-Type: "+kind, string(body))
			})
			g := openTools(t, u, nil)
			free := proxy.LeaveMemory(g.server, 1<<20)
			defer free()
			resp, text := g.post(t, chatBody)
			r := g.reports.next(t)
			if resp.StatusCode != 503 || !strings.Contains(text, `"error"`) || r.Reason != rewrite.ReasonOverload || r.Truncated || len(u.seen) != c.sent {
				t.Errorf("%d %.300s; %s %s, truncated %t, %d requests", resp.StatusCode, text, r.Outcome, r.Reason, r.Truncated, len(u.seen))
			}
		})
	}
}
