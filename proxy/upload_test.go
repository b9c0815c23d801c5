package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/report"
)

// The time that a client takes to send its body does not count as Sidenote's overhead.
func TestOverheadLeavesOutTheUpload(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := strings.Replace(chatBody, "{", "{"+strings.Repeat(" ", 32<<10), 1)
	first, rest := body[:16<<10], body[16<<10:]
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), first)
	for range 100 { // other requests are served meanwhile
		g.post(t, chatBody)
		g.reports.next(t)
		<-u.seen
	}
	sent := time.Now()
	if _, err := io.WriteString(c, rest); err != nil {
		t.Fatal(err)
	}
	<-u.seen
	most := time.Since(sent)
	if rep := g.reports.next(t); rep.Overhead > most || rep.Total <= most {
		t.Errorf("overhead %v of %v; it was at most %v", rep.Overhead, rep.Total, most)
	}
}

// If a client's body breaks off while its answer is relayed, the client has cut the answer, not
// the upstream.
func TestBrokenUploadIsNoTruncation(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	go func() { // the upstream answers before it has read the body, and continues to read
		defer close(ended)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		_, _ = io.Copy(io.Discard, c)
	}()
	g := open(t, &stubUpstream{url: &url.URL{Scheme: "http", Host: ln.Addr().String()}}, nil)
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	fmt.Fprint(c, "zz\r\n")
	if rep := g.reports.next(t); rep.Truncated || rep.Client != report.ClientGoneStreaming {
		t.Errorf("truncated %v, client %s", rep.Truncated, rep.Client)
	}
}
