package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// inChunks returns a chat request in chunks of the given number of bytes.
func inChunks(body string, each int, lines ...string) string {
	var b strings.Builder
	b.WriteString("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + strings.Join(append(lines, ""), "\r\n") + "Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(each, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// A chunked chat request is sent chunked if it is unchanged, and with a Content-Length if it is
// changed.
func TestChunkedStaysChunked(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	inject := open(t, u, nil)
	off := open(t, u, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off })
	f := func(g *rig, body string, changed bool, lines ...string) {
		t.Helper()
		if resp := g.raw(t, inChunks(body, 10_000, lines...)); resp.StatusCode != http.StatusOK {
			t.Errorf("%.40s: %d", body, resp.StatusCode)
		}
		encoding, length := "chunked", ""
		s := u.next(t)
		if changed {
			encoding, length = "", strconv.Itoa(len(s.body))
		}
		if s.header("Transfer-Encoding") != encoding || s.header("Content-Length") != length || (s.body != body) != changed {
			t.Errorf("%.40s, changed %v: went up as %q, %d bytes", body, changed, s.head, len(s.body))
		}
	}
	f(inject, chatBody, true)
	f(inject, "", false)
	f(inject, "no chat", false)
	f(off, strings.Replace(chatBody, "{", `{"sidenote":{"mode":"off"},`, 1), true)
	for _, size := range []int{0, 10_000, 60_000, 1 << 20} {
		f(off, strings.Replace(chatBody, "{", "{"+strings.Repeat(" ", size), 1), false)
	}
	for name, packed := range compressedForms(t, chatBody) {
		f(off, packed, false, "Content-Encoding: "+name)
		f(off, packed[:len(packed)-7], false, "Content-Encoding: "+name) // truncated, so it cannot be decoded
		f(inject, packed, true, "Content-Encoding: "+name)
	}
}

// A client's digests of its body are forwarded only with an unchanged body.
func TestDigests(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	inject := open(t, u, nil)
	off := open(t, u, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off })
	digests := []string{"Content-Digest", "content-md5", "REPR-DIGEST", "Digest"}
	var lines []string
	for _, name := range digests {
		lines = append(lines, name+": d")
	}
	lines = append(lines, "Content-Digestive: d", "Want-Digest: d", "Expect_: d", "Content-Lengtd: d", "Xepr-Digest: d", "Digesd: d")
	f := func(g *rig, body, want string, more ...string) {
		t.Helper()
		g.post(t, body, append(more, lines...)...)
		s := u.next(t)
		for _, name := range digests {
			if s.header(name) != want {
				t.Errorf("%.40q: %s is %q, want %q", body, name, s.header(name), want)
			}
		}
		for _, line := range lines[len(digests):] {
			if name, _, _ := strings.Cut(line, ":"); s.header(name) != "d" {
				t.Errorf("%.40q: %s is gone", body, name)
			}
		}
	}
	f(inject, chatBody, "")
	f(inject, "no chat", "d")
	f(off, chatBody, "d")
	for name, packed := range compressedForms(t, chatBody) {
		f(inject, packed, "", "Content-Encoding: "+name)
		f(off, packed, "d", "Content-Encoding: "+name)
	}
	large := open(t, u, func(p *tenant.Policy) { p.MaxRewriteBytes = 10 })
	f(large, chatBody, "d")
}
