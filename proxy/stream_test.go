package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

const streamBody = `{"stream":true,"messages":[{"role":"user","content":"How long is parental leave?"}]}`

// streamer is an upstream whose streams the test writes event by event. Closing events ends a
// stream normally, closing cut breaks it off.
func streamer(t *testing.T) (u *stubUpstream, events chan string, cut chan struct{}, gone chan struct{}) {
	t.Helper()
	events, cut, gone = make(chan string), make(chan struct{}), make(chan struct{})
	u = newUpstream(t, func(_ seen, w io.Writer) {
		defer w.(io.Closer).Close()
		left := make(chan struct{})
		go func() { // if the client leaves, the connection to the upstream is closed
			io.Copy(io.Discard, w.(io.Reader))
			close(left)
		}()
		io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			select {
			case e, more := <-events:
				if !more {
					io.WriteString(w, "0\r\n\r\n")
					return
				}
				fmt.Fprintf(w, "%x\r\n%s\r\n", len(e), e)
			case <-cut:
				return
			case <-left:
				close(gone)
				return
			}
		}
	})
	return u, events, cut, gone
}

// stream requests a stream and returns it with its connection.
func (g *rig) stream(t *testing.T) (*http.Response, *bufio.Reader, net.Conn) {
	t.Helper()
	c := g.dial(t)
	fmt.Fprint(c, chatRequest(streamBody))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp, bufio.NewReader(resp.Body), c
}

// expect sends an event and requires that the client gets it.
func expect(t *testing.T, events chan<- string, r *bufio.Reader, event string) {
	t.Helper()
	events <- event
	got := make([]byte, len(event))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != event {
		t.Fatalf("got %q, %v; want %q", got, err, event)
	}
}

// Head and events of a stream arrive as they are sent, whatever the model was led to write (T08).
func TestStreamsEventByEvent(t *testing.T) {
	u, events, _, _ := streamer(t)
	g := open(t, u, nil)
	resp, r, _ := g.stream(t) // the head arrives before any event
	if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, "injected;") || resp.StatusCode != 200 {
		t.Fatalf("%d, %s", resp.StatusCode, got)
	}
	for i := range 5 {
		expect(t, events, r, fmt.Sprintf("data: {\"n\":%d}\n\n", i))
	}
	expect(t, events, r, `data: {"choices":[{"delta":{"content":"![x](https://elsewhere.test/?told=secret)"}}]}`+"\n\n")
	close(events)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if rep := g.reports.next(t); !rep.Stream || rep.Truncated || rep.Client != report.ClientCompleted {
		t.Errorf("report %+v", rep)
	}
}

func wait(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it never happened")
	}
}

// Beyond the limit requests are refused, and served again when others have ended. Streams count
// until they end.
func TestConcurrencySheds(t *testing.T) {
	u, events, _, _ := streamer(t)
	g := start(t, proxy.Config{
		Upstreams:   map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:     tenant.Tenants{Unknown: policyOf("acme", nil)},
		Concurrency: 1,
	}, nil)
	_, r, _ := g.stream(t)
	expect(t, events, r, "data: 1\n\n")
	resp, body := g.post(t, chatBody)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"overloaded"`) {
		t.Errorf("%d, %v, %s", resp.StatusCode, resp.Header, body)
	}
	close(events)
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	g.reports.next(t)
	g.reports.next(t)
	if resp, _, _ := g.stream(t); resp.StatusCode != 200 {
		t.Errorf("%d after there was room again", resp.StatusCode)
	}
}

// When memory is short requests are refused, and served again when there is memory.
func TestMemorySheds(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	b := ballast(t, 4<<20) // the limit is compared with the live memory of the last collection
	limit := debug.SetMemoryLimit(1 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	resp, body := g.post(t, chatBody)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"overloaded"`) {
		t.Errorf("%d, %v, %s", resp.StatusCode, resp.Header, body)
	}
	if reporttest.Count(t, g.metrics, "sidenote_shed_total", "memory") != 1 || len(u.seen) > 0 {
		t.Error("not counted, or sent")
	}
	runtime.KeepAlive(b)
	debug.SetMemoryLimit(limit)
	for begin := time.Now(); resp.StatusCode != 200; resp, _ = g.post(t, chatBody) {
		if time.Since(begin) > patience {
			t.Fatal("refused for ever")
		}
	}
}

// P6: during a shutdown, streams continue and new requests are refused; when its time is up the
// streams are cut, and clients notice.
func TestShutdown(t *testing.T) {
	u, events, _, gone := streamer(t)
	g := open(t, u, nil)
	_, r, _ := g.stream(t)
	expect(t, events, r, "data: 1\n\n")

	grace, end := context.WithCancel(t.Context())
	down := make(chan error, 1)
	go func() { down <- g.server.Shutdown(grace) }()
	for { // until the listener is closed
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			break
		}
		c.Close()
	}
	expect(t, events, r, "data: 2\n\n")
	end()
	if rest, err := io.ReadAll(r); err == nil {
		t.Errorf("the cut looks like an end after %q", rest)
	}
	wait(t, gone)
	if err := <-down; err == nil {
		t.Error("a shutdown that cut a stream says nothing of it")
	}
	if rep := g.reports.next(t); rep.Reason != report.ReasonShutdown || rep.Truncated {
		t.Errorf("report: %s, truncated %v", rep.Reason, rep.Truncated)
	}
}

// T28: a panic is logged with its stack, its value is shown to no client, and the next request is
// served.
func TestPanicIsOneRequests(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	bug := true
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil)},
	}, retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		if bug {
			panic("inner secret")
		}
		return fromBases(ctx, q)
	}))
	resp, body := g.post(t, chatBody)
	if resp.StatusCode != 500 || strings.Contains(body, "secret") || resp.Header.Get(report.HeaderID) == "" {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	if rep := g.reports.next(t); rep.Outcome != report.Failed || rep.Reason != report.ReasonInternal {
		t.Errorf("report %s, %s", rep.Outcome, rep.Reason)
	}
	if log := g.log.take(); !strings.Contains(log, "BUG: panic") || strings.Contains(log, "secret") || !strings.Contains(log, "TestPanicIsOneRequests") || strings.Contains(log, "parental") {
		t.Errorf("log: %s", log)
	}
	bug = false
	if resp, _ := g.post(t, chatBody); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

// breaking is a Recorder that panics.
type breaking struct{}

func (breaking) Record(*report.Report) { panic("inner secret") }

// P8: the record is written after the handler has returned, where no caller would recover a panic:
// the process would end, or the request would stay open.
func TestPanicInRecorder(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	log := new(lockedBuffer)
	s, err := proxy.New(proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil)},
		Timeouts:  proxy.DefaultTimeouts(),
	}, &rewrite.Rewriter{Retriever: retrieval.Func(fromBases), Models: testModels{}}, reporttest.NewMetrics(), slog.New(slog.NewTextHandler(log, nil)), breaking{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	g := &rig{server: s, addr: ln.Addr().String()}
	for range 2 {
		if resp, body := g.post(t, chatBody, "Connection: close"); resp.StatusCode != 200 || body != "{}" {
			t.Errorf("%d, %s", resp.StatusCode, body)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("a request is never over: %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if said := log.take(); strings.Count(said, "BUG: panic") != 2 || strings.Contains(said, "secret") || !strings.Contains(said, "stack=") {
		t.Errorf("log: %s", said)
	}
}

// T17: under load, on kept-alive connections, every request gets only the sources of its own
// tenant, and every answer belongs to its request.
func TestTenantsNeverMix(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s.body), s.body)
	})
	u.seen = make(chan seen, 10_000)
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("acme", nil)), keyOf("kb", policyOf("beta", nil))}},
	}, nil)
	go func() { // the Reports are not checked
		for {
			select {
			case <-g.reports:
			case <-t.Context().Done():
				return
			}
		}
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: patience}
	defer client.CloseIdleConnections()
	var callers sync.WaitGroup
	defer callers.Wait()
	for n := range 8 {
		callers.Go(func() {
			for i := range 200 {
				key, canary := "ka", "canary of acme in kb-acme"
				if (n+i)%2 == 1 {
					key, canary = "kb", "canary of beta in kb-beta"
				}
				question := fmt.Sprintf("question %d of caller %d %s?", i, n, strings.Repeat("x", i*17%3000))
				got, err := ask(client, g.addr, key, question)
				if err != nil || strings.Count(got, canary) != 1 || strings.Count(got, "canary") != 1 || !strings.Contains(got, question) {
					t.Errorf("%s: %v, %s", question, err, got)
					return
				}
			}
		})
	}
}

func ask(client *http.Client, addr, key, question string) (string, error) {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, question)
	req, err := http.NewRequest("POST", "http://"+addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}
