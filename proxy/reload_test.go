package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// setupNumber returns a configuration whose parts carry one number: the key for the upstream, the
// hash of the policy and its base.
func setupNumber(u *stubUpstream, n int) proxy.Config {
	p := policyOf("acme", func(p *tenant.Policy) {
		p.Hash = fmt.Sprintf("%08d", n)
		p.Rewrite.Knowledge = []string{fmt.Sprintf("kb-%d", n)}
		p.Rewrite.Digest = p.Hash
	})
	return proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url, APIKey: proxy.NewSecret(fmt.Sprintf("sk-%d", n))}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("a", p)}},
	}
}

func rewriter() *rewrite.Rewriter {
	return &rewrite.Rewriter{Retriever: retrieval.Func(fromBases), Models: testModels{}}
}

// Row P3 of FAULTS.md: under load each request is answered by a single configuration.
func TestP3ReloadUnderLoad(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"q"}]}`
	up := newUpstream(t, func(s seen, w io.Writer) {
		answer := strings.TrimPrefix(s.header("Authorization"), "Bearer sk-")
		if !strings.Contains(s.body, "in kb-"+answer+"<") && !strings.Contains(s.body, "in kb-"+answer+`\n`) && !strings.Contains(s.body, "in kb-"+answer+`\u003c`) {
			answer = "torn: " + answer + " " + s.body
		}
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	})
	g := startWith(t, setupNumber(up, 0), rewriter())
	done := make(chan struct{})
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				resp, text := g.post(t, body, "Authorization: Bearer a")
				r := g.reports.next(t) // of this request or another one
				if resp.StatusCode != 200 || strings.HasPrefix(text, "torn") || r.Outcome != rewrite.Injected {
					t.Errorf("%d %s, %s", resp.StatusCode, text, r.Outcome)
					return
				}
				if got := fmt.Sprintf("kb-%d", atoi(r.PolicyHash)); len(r.Rewrite.Ledger.Sources) != 1 || r.Rewrite.Ledger.Sources[0].Knowledge != got {
					t.Errorf("policy hash %s with sources %+v", r.PolicyHash, r.Rewrite.Ledger.Sources)
				}
				<-up.seen
				mu.Lock()
				answers[text]++
				mu.Unlock()
			}
		})
	}
	const reloads = 100
	for n := 1; n <= reloads; n++ {
		if err := g.server.Reload(setupNumber(up, n), rewriter()); err != nil {
			t.Error(err)
		}
		for mu.Lock(); answers[fmt.Sprint(n)] == 0 && !t.Failed(); mu.Lock() { // until each setup was used
			mu.Unlock()
			if _, text := g.post(t, body, "Authorization: Bearer a"); text != fmt.Sprint(n) {
				t.Errorf("after reload %d: %s", n, text)
			}
			g.reports.next(t)
			<-up.seen
			mu.Lock()
			answers[fmt.Sprint(n)]++
			mu.Unlock()
		}
		mu.Unlock()
	}
	close(done)
	asking.Wait()
	if len(answers) < reloads {
		t.Errorf("%d setups were used", len(answers))
	}
}

func atoi(digits string) (n int) {
	_, _ = fmt.Sscanf(digits, "%d", &n)
	return n
}

// An open stream keeps its upstream, even if a reload removes that.
func TestP3StreamKeepsItsSetup(t *testing.T) {
	more := make(chan string)
	old := newUpstream(t, func(_ seen, w io.Writer) {
		io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for text := range more {
			fmt.Fprintf(w, "%x\r\n%s\r\n", len(text), text)
		}
		io.WriteString(w, "0\r\n\r\n")
	})
	next := newUpstream(t, answerJSON(`{"from":"next"}`))
	g := startWith(t, setupNumber(old, 1), rewriter())
	go func() { more <- "data: 1\n\n" }()
	resp := g.raw(t, chatRequest(`{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a"))
	first := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	if err := g.server.Reload(setupNumber(next, 2), rewriter()); err != nil {
		t.Fatal(err)
	}
	if _, text := g.post(t, `{"model":"m","messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a"); text != `{"from":"next"}` {
		t.Errorf("after the reload: %s", text)
	}
	if r := g.reports.next(t); r.PolicyHash != "00000002" {
		t.Errorf("policy %s", r.PolicyHash)
	}
	more <- "data: 2\n\n"
	close(more)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("the rest of the stream: %q, %v", rest, err)
	}
	if r := g.reports.next(t); r.PolicyHash != "00000001" || r.Client != "completed" {
		t.Errorf("the stream: policy %s, %s", r.PolicyHash, r.Client)
	}
}

// The connections to a removed upstream are closed: idle ones at once, that of an open stream when
// the stream has ended. So is one of an earlier request that calls the upstream later.
func TestP3RemovedUpstreamIsLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	more, closed := make(chan string), make(chan struct{}, 10)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				defer func() { closed <- struct{}{} }()
				for r := bufio.NewReader(c); ; {
					s, err := readSeen(r)
					switch {
					case err != nil:
						return
					case strings.Contains(s.body, "stream"):
						io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
						for text := range more {
							fmt.Fprintf(c, "%x\r\n%s\r\n", len(text), text)
						}
						io.WriteString(c, "0\r\n\r\n")
					default:
						answerJSON(`{}`)(s, c)
					}
				}
			})
		}
	})
	defer conns.Wait()
	defer ln.Close()
	left := func(what string) {
		t.Helper()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatalf("%s is not closed", what)
		}
	}
	old := &stubUpstream{url: &url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/v1"}}
	next := newUpstream(t, answerJSON(`{"from":"next"}`))
	searching, found := make(chan struct{}), make(chan struct{})
	slow := &rewrite.Rewriter{Models: testModels{}, Retriever: retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		if q.Text == "slow" {
			close(searching)
			<-found
		}
		return fromBases(ctx, q)
	})}
	g := startWith(t, setupNumber(old, 1), slow)
	stream := g.raw(t, chatRequest(`{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a"))
	g.post(t, `{"model":"m","messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a")
	late := make(chan string, 1)
	go func() {
		_, text := g.post(t, `{"model":"m","messages":[{"role":"user","content":"slow"}]}`, "Authorization: Bearer a")
		late <- text
	}()
	<-searching
	if err := g.server.Reload(setupNumber(next, 2), rewriter()); err != nil {
		t.Fatal(err)
	}
	left("the idle connection")
	close(found)
	if text := <-late; text != `{}` {
		t.Errorf("a request from before: %s", text)
	}
	left("its connection")
	more <- "data: 1\n\n"
	close(more)
	if text, err := io.ReadAll(stream.Body); err != nil || string(text) != "data: 1\n\n" {
		t.Errorf("%q, %v", text, err)
	}
	left("the connection of the stream")
	if _, text := g.post(t, `{"model":"m","messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a"); text != `{"from":"next"}` {
		t.Errorf("after the reload: %s", text)
	}
}

// Row P1: an invalid configuration changes nothing.
func TestP1BadSetup(t *testing.T) {
	up := newUpstream(t, answerJSON(`{}`))
	g := startWith(t, setupNumber(up, 1), rewriter())
	bad := setupNumber(up, 2)
	bad.Tenants.Keys[0].Policy.Upstream = "gone"
	if err := g.server.Reload(bad, rewriter()); err == nil || !strings.Contains(err.Error(), `upstream "gone" is not configured`) {
		t.Errorf("%v", err)
	}
	bad = setupNumber(up, 2)
	bad.Upstreams["other"] = proxy.Upstream{Name: "other"}
	if err := g.server.Reload(bad, rewriter()); err == nil || !strings.Contains(err.Error(), `upstream "other"`) {
		t.Errorf("%v", err)
	}
	g.post(t, `{"model":"m","messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a")
	if r := g.reports.next(t); r.PolicyHash != "00000001" || r.Status != 200 {
		t.Errorf("policy %s, status %d", r.PolicyHash, r.Status)
	}
}

// If the key for an upstream changes, connections stay open, and the next request has the new key.
func TestP5KeyOfUpstreamChanges(t *testing.T) {
	up := newUpstream(t, answerJSON(`{}`))
	g := startWith(t, setupNumber(up, 1), rewriter())
	for n := 1; n <= 2; n++ {
		if err := g.server.Reload(setupNumber(up, n), rewriter()); err != nil {
			t.Fatal(err)
		}
		g.post(t, `{"model":"m","messages":[{"role":"user","content":"q"}]}`, "Authorization: Bearer a")
		if got := up.next(t).header("Authorization"); got != fmt.Sprintf("Bearer sk-%d", n) {
			t.Errorf("%s after reload %d", got, n)
		}
	}
}
