package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/klauspost/compress/gzip"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
)

// limitMemory limits the memory of this process to 128 MiB during the test. Bodies may take 32 MiB
// of them.
func limitMemory(t *testing.T) {
	t.Helper()
	limit := debug.SetMemoryLimit(128 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
}

// Bodies that grow at the same time are refused before memory is full, and their memory is
// released.
func TestBodiesHaveTheirShare(t *testing.T) {
	const many, size, most = 12, 6 << 20, 5 // most is how many fit at the same time
	limitMemory(t)
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	text := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", size)
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	endless := fmt.Appendf(nil, "%s%x\r\n%s", head, 2*size, text)
	answers := make(chan string, many)
	var conns []io.Closer
	for range many {
		c := g.dial(t)
		conns = append(conns, c)
		go c.Write(endless) // may fail if the server has closed
		go func() {
			all, _ := io.ReadAll(c) // may end with a reset
			answers <- string(all)
		}()
	}
	for range many - most {
		got := receive(t, answers)
		if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: 1\r\n") || !strings.Contains(got, `"overloaded"`) {
			t.Fatalf("got %.300q", got)
		}
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_shed_total", "memory"); n < many-most {
		t.Errorf("%v counted of %d", n, many-most)
	}
	if resp := g.untilServed(t, chatRequest(chatBody)); resp.StatusCode != 200 {
		t.Errorf("a small one beside them: %d", resp.StatusCode)
	}
	u.next(t)
	for _, c := range conns {
		c.Close()
	}
	large := chatRequest(text + `"}]}`)
	for range 2 * most {
		if resp := g.untilServed(t, large); resp.StatusCode != 200 {
			t.Errorf("a large one after them: %d", resp.StatusCode)
		}
		u.next(t)
	}
}

// untilServed sends a request until there is room for it.
func (g *rig) untilServed(t *testing.T, request string) *http.Response {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		resp := g.raw(t, request)
		if resp.StatusCode != http.StatusServiceUnavailable {
			return resp
		}
		if time.Since(begin) > patience {
			t.Fatal("shed for ever")
		}
	}
}

// sink keeps the compiler from removing an allocation.
var sink []byte

// ballast allocates bytes and returns when a garbage collection has counted them as live.
func ballast(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	for begin := time.Now(); readMetric("/gc/heap/live:bytes") < uint64(size); sink = make([]byte, 1<<20) {
		if time.Since(begin) > patience {
			t.Fatal("nothing was collected")
		}
	}
	return b
}

func readMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Memory that was live at the last garbage collection, but is garbage now, causes no refusal.
func TestFreedMemoryIsUsedAtOnce(t *testing.T) {
	const limit, size = 256 << 20, 30 << 20 // bodies may take 64 MiB of the limit, and half of what is free
	before := debug.SetMemoryLimit(limit)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	u := newUpstream(t, answerJSON("{}"))
	large := chatRequest(`{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`)
	b := ballast(t, 190<<20)
	g := open(t, u, nil)
	runtime.KeepAlive(b)
	if resp := g.raw(t, large); resp.StatusCode != 200 {
		t.Errorf("what is free counts as taken: %d", resp.StatusCode)
	}
}

// While memory is short, requests are refused and garbage is collected once a second. Requests are
// served again once there is memory.
func TestCollectsWhileTight(t *testing.T) {
	const size, lasts = 100 << 20, 1500 * time.Millisecond
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	b := ballast(t, size)
	before := debug.SetMemoryLimit(size + size/20)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	start, collections := time.Now(), readMetric("/gc/cycles/forced:gc-cycles")
	for time.Since(start) < lasts {
		resp, err := http.Post("http://"+g.addr+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		g.reports.next(t)
		if resp.StatusCode != 503 && time.Since(start) > time.Second { // before that, the figure may be outdated
			t.Fatalf("after %s: %d", time.Since(start), resp.StatusCode)
		}
		if resp.StatusCode == 503 && (!bytes.Contains(body, []byte(`"overloaded"`)) || resp.Header.Get("Retry-After") != "1") {
			t.Errorf("%v %s", resp.Header, body)
		}
	}
	n := readMetric("/gc/cycles/forced:gc-cycles") - collections
	if took := time.Since(start); n == 0 || n > 1+uint64(took/time.Second) {
		t.Errorf("%d collections in %s", n, took)
	}
	if reporttest.Count(t, g.metrics, "sidenote_shed_total", "memory") == 0 {
		t.Error("nothing was refused")
	}
	runtime.KeepAlive(b)
	if resp := g.untilServed(t, chatRequest(chatBody)); resp.StatusCode != 200 {
		t.Errorf("after it was freed: %d", resp.StatusCode)
	}
}

// The decompressed body counts, too, and a body that could never fit into memory is too large.
func TestUnpackedBodiesHaveTheirShare(t *testing.T) {
	limitMemory(t)
	u := newUpstream(t, answerJSON("{}"))
	lenient := open(t, u, func(p *tenant.Policy) { p.MaxRewriteBytes = 64 << 20 })
	strict := open(t, u, func(p *tenant.Policy) { p.Rewrite.RefuseOnFailure, p.MaxRewriteBytes = true, 64<<20 })
	plain := func(size int) string {
		return `{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
	}
	pack := func(text string) string {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.HuffmanOnly) // compresses to an eighth
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	bomb := pack(plain(31 << 20))
	if resp := strict.untilServed(t, chatRequest(bomb, "Content-Encoding: gzip")); resp.StatusCode != 413 {
		t.Errorf("strict: %d", resp.StatusCode)
	}
	resp := lenient.untilServed(t, chatRequest(bomb, "Content-Encoding: gzip"))
	if got := resp.Header.Get(report.HeaderStatus); resp.StatusCode != 200 || got != "untouched; reason=body-too-large" {
		t.Errorf("lenient: %d, %s", resp.StatusCode, got)
	}
	if got := u.next(t); got.body != bomb {
		t.Errorf("lenient: %d bytes of %d went up", len(got.body), len(bomb))
	}
	large := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 34000000\r\n\r\n" + strings.Repeat(" ", 9000)
	if resp := strict.untilServed(t, large); resp.StatusCode != 413 {
		t.Errorf("uncompressed: %d", resp.StatusCode)
	}
	body := chatRequest(pack(plain(8<<20)), "Content-Encoding: gzip")
	for range 5 { // each releases its memory
		if resp := lenient.untilServed(t, body); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
		u.next(t)
	}
}

// A bodyWatch is a BodyKeeper that sends weak pointers to bodies.
type bodyWatch chan weak.Pointer[byte]

func (w bodyWatch) Received(_ *report.Report, body []byte) { w <- weak.Make(&body[0]) }
func (bodyWatch) Sent(*report.Report, [][]byte)            {}
func (bodyWatch) Answered(*report.Report, answer.Text)     {}

// The memory of a request's body is free while its answer is relayed, as a stream may be open for
// minutes.
func TestStreamsHoldNoBodies(t *testing.T) {
	body := `{"stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 200<<10) + `"}]}`
	for name, request := range map[string]string{
		"plain": chatRequest(body), "compressed": chatRequest(gzipped(t, body), "Content-Encoding: gzip"), "not JSON": chatRequest(body + "]"),
	} {
		u, events, _, _ := streamer(t)
		watch := make(bodyWatch, 1)
		g := openIn(t, u, func(cfg *proxy.Config) { cfg.Bodies = watch })
		resp := g.raw(t, request)
		expect(t, events, bufio.NewReader(resp.Body), "data: {}\n\n")
		held := receive(t, watch)
		for begin := time.Now(); held.Value() != nil; runtime.GC() { // a pool keeps its objects for two collections
			if time.Since(begin) > patience {
				t.Fatalf("%s: the body is still in memory", name)
			}
		}
		close(events)
	}
}

// receive waits for the next value from ch.
func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
