package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

const hidden = "GET /v1/hidden HTTP/1.1\r\nHost: x\r\n\r\n"

// answersOnce sends bytes and requires one answer, then the end of the connection, and at most
// sends requests at the upstream, none of them the hidden one.
func (g *rig) answersOnce(t *testing.T, u *stubUpstream, name, sent, status string, sends int) {
	t.Helper()
	c := g.dial(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.WriteString(c, sent) // may fail if the server has closed
	}()
	all, _ := io.ReadAll(c) // may end with a reset
	<-done
	if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(all), "HTTP/1.1 "+status+" ") || !strings.Contains(string(all), "\r\nConnection: close\r\n") {
		t.Errorf("%s: %d answers: %q", name, n, all)
	}
	if len(u.seen) > sends {
		t.Errorf("%s: %d requests at the upstream", name, len(u.seen))
	}
	for len(u.seen) > 0 {
		if s := <-u.seen; strings.Contains(s.line, "hidden") {
			t.Errorf("%s: the upstream saw %s", name, s.line)
		}
	}
}

// C14, T16: each of these could hide a second request in the first, or be read differently by the
// next server. (TestSmuggling of package transport has those that are not about framing.)
func smuggling(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := openIn(t, u, func(c *proxy.Config) { c.Timeouts.ClientRead = time.Second })
	for name, head := range map[string]string{
		"length and encoding":   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"encoding and length":   "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"two lengths":           "Content-Length: 1\r\nContent-Length: 0\r\n\r\na",
		"one length, twice":     "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"list of lengths":       "Content-Length: 0, 0\r\n\r\n",
		"two encodings":         "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"chunked, twice":        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"list of encodings":     "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"unknown encoding":      "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"encoding, tab":         "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"space before colon":    "Content-Length : 1\r\n\r\na",
		"encoding before colon": "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"signed length":         "Content-Length: +1\r\n\r\na",
		"negative length":       "Content-Length: -1\r\n\r\n",
		"hexadecimal length":    "Content-Length: 0x1\r\n\r\na",
		"huge length":           "Content-Length: 99999999999999999999\r\n\r\na",
		"empty length":          "Content-Length:\r\n\r\n",
		"folded line":           "A: b\r\n Content-Length: 9\r\n\r\n",
		"folded encoding":       "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
		"bare line feed":        "A: b\nContent-Length: 9\r\n\r\n",
		"bare feed at the end":  "A: b\r\n\n",
		"lone return":           "A: b\rContent-Length: 9\r\n\r\n",
		"line without colon":    "Content-Length 9\r\n\r\n",
		"name with a space":     "Content Length: 9\r\n\r\n",
		"bad chunk":             "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
		"signed chunk":          "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
		"chunk too long":        "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
		"chunk, bare feed":      "Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
		"chunk, huge":           "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/files"} {
			// A body that breaks off while it is streamed has partly reached the upstream, and is
			// cut there.
			sends := 0
			g.answersOnce(t, u, name+", "+path, "POST "+path+" HTTP/1.1\r\nHost: x\r\n"+head+hidden, "400", sends)
		}
	}
	g.answersOnce(t, u, "bare line feeds only", "GET /v1/models HTTP/1.1\nHost: x\n\n", "400", 0)
}

// If a request is refused before its body was read, the body is not read as a request.
func unreadBody(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("acme", nil))}},
	}, nil)
	for head, status := range map[string]string{
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer kz\r\n":                       "401",
		"PUT /v1/files HTTP/1.1\r\nHost: x\r\n":                                                               "401",
		"PUT /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ka\r\n":                                   "403",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ka\r\nSidenote-Mode: odd\r\n": "400",
	} {
		for _, body := range []string{
			"Content-Length: 20000\r\n\r\n" + strings.Repeat("x", 9000) + hidden,
			"Content-Length: 20000\r\n\r\n" + hidden + strings.Repeat("x", 20000-len(hidden)) + hidden,
			"Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden) + hidden,
			"Transfer-Encoding: chunked\r\n\r\n" + hidden,
		} {
			g.answersOnce(t, u, head+body[:24], head+body, status, 0)
		}
	}
}

// Pipelined requests of two tenants on one connection are answered in order, each with its own
// sources.
func pipelinedTenants(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s.body), s.body)
	})
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("acme", nil)), keyOf("kb", policyOf("beta", nil))}},
	}, nil)
	keys := []string{"ka", "kb", "kz"} // kz is unknown
	c := g.dial(t)
	var all strings.Builder
	const requests = 60
	for i := range requests {
		all.WriteString(chatRequest(fmt.Sprintf(`{"messages":[{"role":"user","content":"question %d."}]}`, i), "Authorization: Bearer "+keys[i%len(keys)]))
	}
	go io.WriteString(c, all.String())
	br := bufio.NewReader(c)
	for i := range requests {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		body := string(b)
		switch tenant := []string{"acme", "beta", ""}[i%len(keys)]; {
		case tenant == "":
			if resp.StatusCode != 401 {
				t.Errorf("request %d: %d", i, resp.StatusCode)
			}
		case strings.Count(body, "canary") != 1 || !strings.Contains(body, "canary of "+tenant+" in kb-"+tenant) || !strings.Contains(body, fmt.Sprintf("question %d.", i)):
			t.Errorf("request %d of %s: %s", i, tenant, body)
		}
	}
	if n := len(u.seen); n != requests*2/len(keys) {
		t.Errorf("%d requests at the upstream", n)
	}
}
