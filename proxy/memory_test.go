package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"sidenote/proxy"
)

// limitMemory bounds what this process may use, for as long as the test lasts. Of
// these 128 MiB bodies may take 32.
func limitMemory(t *testing.T) {
	t.Helper()
	runtime.GC() // the limit is compared with what has outlived one
	limit := debug.SetMemoryLimit(128 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
}

// Bodies that grow together are shed before memory is full, whatever else there is
// room for, and what they took comes back.
func TestBodiesHaveTheirShare(t *testing.T) {
	const many, size, most = 12, 6 << 20, 5 // most of them that fit together
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
		go c.Write(endless) // may fail: then the other side has closed
		go func() {
			all, _ := io.ReadAll(c) // the end may come as a reset
			answers <- string(all)
		}()
	}
	for range many - most {
		got := receive(t, answers)
		if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: 1\r\n") || !strings.Contains(got, `"overloaded"`) {
			t.Fatalf("got %.300q", got)
		}
	}
	if n := counted(t, g.metrics, "sidenote_shed_total", "memory"); n < many-most {
		t.Errorf("%v counted of %d", n, many-most)
	}
	if resp := g.patiently(t, chat(chatBody)); resp.StatusCode != 200 {
		t.Errorf("a small one beside them: %d", resp.StatusCode)
	}
	u.next(t)
	for _, c := range conns {
		c.Close()
	}
	large := chat(text + `"}]}`)
	for range 2 * most {
		if resp := g.patiently(t, large); resp.StatusCode != 200 {
			t.Errorf("a large one after them: %d", resp.StatusCode)
		}
		u.next(t)
	}
}

// patiently sends a request until there is room for it.
func (g *rig) patiently(t *testing.T, request string) *http.Response {
	t.Helper()
	for begin := time.Now(); ; runtime.GC() {
		resp := g.raw(t, request)
		if resp.StatusCode != http.StatusServiceUnavailable {
			return resp
		}
		if time.Since(begin) > patience {
			t.Fatal("shed for ever")
		}
	}
}

// What a body unpacks to counts as well; and a body for which there will never be
// room is one that is too large.
func TestUnpackedBodiesHaveTheirShare(t *testing.T) {
	limitMemory(t)
	u := newUpstream(t, answerJSON("{}"))
	lenient := open(t, u, func(p *proxy.Policy) { p.MaxRewriteBytes = 64 << 20 })
	strict := open(t, u, func(p *proxy.Policy) { p.Rewrite.RefuseOnFailure, p.MaxRewriteBytes = true, 64<<20 })
	plain := func(size int) string {
		return `{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
	}
	pack := func(text string) string {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.HuffmanOnly) // to an eighth
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
	if resp := strict.patiently(t, chat(bomb, "Content-Encoding: gzip")); resp.StatusCode != 413 {
		t.Errorf("strict: %d", resp.StatusCode)
	}
	resp := lenient.patiently(t, chat(bomb, "Content-Encoding: gzip"))
	if got := resp.Header.Get(proxy.HeaderStatus); resp.StatusCode != 200 || got != "untouched; reason=body-too-large" {
		t.Errorf("lenient: %d, %s", resp.StatusCode, got)
	}
	if got := u.next(t); got.body != bomb {
		t.Errorf("lenient: %d bytes of %d went up", len(got.body), len(bomb))
	}
	large := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 34000000\r\n\r\n" + strings.Repeat(" ", 9000)
	if resp := strict.patiently(t, large); resp.StatusCode != 413 {
		t.Errorf("uncompressed: %d", resp.StatusCode)
	}
	body := chat(pack(plain(8<<20)), "Content-Encoding: gzip")
	for range 5 { // what each took comes back
		if resp := lenient.patiently(t, body); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
		u.next(t)
	}
}

// receive waits for the next of ch.
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
