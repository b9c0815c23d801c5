package transport_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// Heads are relayed unchanged: order, letter case, duplicate lines, unusual reasons. Only
// hop-by-hop lines differ, and framing comes last.
func TestAnswerHead(t *testing.T) {
	for name, c := range map[string]struct{ method, answer, got string }{
		"verbatim": {
			answer: "HTTP/1.1 299 Quite  fine\r\nserver: a\r\nDate: then\r\nServer: b\r\nset-cookie: x=1; Path=/\r\nX-B:1\r\nContent-Type: a/b\r\nSet-Cookie: x=2\r\nx-b:  2\t\r\nContent-Length: 2\r\n\r\nok",
			got:    "HTTP/1.1 299 Quite  fine\r\nserver: a\r\nDate: then\r\nServer: b\r\nset-cookie: x=1; Path=/\r\nX-B:1\r\nContent-Type: a/b\r\nSet-Cookie: x=2\r\nx-b:  2\t\r\nContent-Length: 2\r\n\r\nok",
		},
		"nothing invented": {
			answer: "HTTP/1.1 200\r\nA: b\r\nContent-Length: 2\r\n\r\nok",
			got:    "HTTP/1.1 200 \r\nA: b\r\nContent-Length: 2\r\n\r\nok",
		},
		"this hop only": {
			answer: "HTTP/1.1 200 OK\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nProxy-Authenticate: p\r\nTrailer: t\r\nUpgrade: h2\r\nY: 1\r\nContent-Length: 0\r\n\r\n",
			got:    "HTTP/1.1 200 OK\r\nY: 1\r\nContent-Length: 0\r\n\r\n",
		},
		"chunks": {
			answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nA: b\r\n\r\n2;e=1\r\nok\r\n0\r\nT: 1\r\n\r\n",
			got:    "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\n\r\n",
		},
		"trailers": {
			answer: "HTTP/1.1 200 OK\r\nTrailer: x-Sum, B\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-Sum:1\r\nB: 2\r\nB: 3\r\nContent-Length: 9\r\nConnection: close\r\nno line\r\nA b: 4\r\nL: " + strings.Repeat("l", 9000) + "\r\n\r\n",
			got:    "HTTP/1.1 200 OK\r\nTrailer: x-Sum, B\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-Sum: 1\r\nB: 2, 3\r\nL: " + strings.Repeat("l", 9000) + "\r\n\r\n",
		},
		"interim answers": {
			answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			got:    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		},
		"1.0": {
			answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
			got:    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		},
		"bare line feeds": {
			answer: "HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nok",
			got:    "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok",
		},
		"equal lengths": {
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
			got:    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		},
		"HEAD": {
			method: "HEAD",
			answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\n",
			got:    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\n",
		},
		"204": {
			answer: "HTTP/1.1 204 No Content\r\nA: b\r\n\r\n",
			got:    "HTTP/1.1 204 No Content\r\nA: b\r\n\r\n",
		},
		"304": {
			answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n",
			got:    "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n",
		},
		"redirects stay": {
			answer: "HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n\r\n",
			got:    "HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := answering(t, c.answer)
			f := relaying(t, newUpstream(t, o.config("")))
			method := c.method
			if method == "" {
				method = "GET"
			}
			// Twice, to check that both connections stay in step.
			got := dial(t, f.addr)
			request := method + " / HTTP/1.1\r\nHost: h\r\n"
			got.send(request + "\r\n" + request + "Connection: close\r\n\r\n")
			second := strings.Replace(c.got, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
			if diff := cmp.Diff(c.got+second, got.rest()); diff != "" {
				t.Error(diff)
			}
			for range 2 {
				if out := await(t, f.outcomes, "outcome"); out.Err != nil {
					t.Error(out.Err)
				}
			}
			if n := o.count(); n != 1 {
				t.Errorf("%d connections to the upstream, want 1", n)
			}
		})
	}
}

// Interim answers reach the client before the final one if the caller wants that, but never an
// HTTP/1.0 client, and never 100 Continue or Sidenote's lines.
func TestInterimAnswers(t *testing.T) {
	o := answering(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nSIDENOTE_Id: forged\r\nConnection: x\r\nX: 1\r\nContent-Length: 3\r\n\r\n"+
		"HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	f := &front{up: newUpstream(t, o.config("")), outcomes: make(chan transport.Outcome, 2), errs: make(chan error, 2)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) { f.relay(ctx, transport.Call{Interim: true}) }, transport.ServerOptions{})
	const final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
	for version, want := range map[string]string{
		"1.1": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n" + final,
		"1.0": final,
	} {
		c := dial(t, f.addr)
		c.send("GET / HTTP/" + version + "\r\nHost: h\r\nConnection: close\r\n\r\n")
		if diff := cmp.Diff(want, c.rest()); diff != "" {
			t.Errorf("HTTP/%s: %s", version, diff)
		}
	}
}

// A client that does not read an interim answer gets nothing after it, because it could not read
// what follows a partial one.
func TestInterimAnswerNotTaken(t *testing.T) {
	hint := "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 60<<10) + "\r\n\r\n"
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, _, err := readMessage(br); err == nil {
			_, _ = io.WriteString(c, hint)
			_, _ = br.ReadByte() // until the connection ends
		}
	})
	f := &front{up: newUpstream(t, o.config("")), errs: make(chan error, 1)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		for n := 1; n > 0; { // until the buffers are full
			n, _ = ctx.Conn().Write(make([]byte, 1<<20))
		}
		f.relay(ctx, transport.Call{Interim: true})
	}, transport.ServerOptions{Write: 20 * time.Millisecond})
	c := dial(t, f.addr)
	c.send(get)
	if err := await(t, f.errs, "end of the call"); transport.ClassOf(err) != transport.ClientGone {
		t.Errorf("got %v, want %s", err, transport.ClientGone)
	}
}

func TestReplacedAnswerLines(t *testing.T) {
	o := answering(t, "HTTP/1.1 200 OK\r\nsidenote-status: forged\r\nA: b\r\nSidenote-Status: again\r\nX: 1\r\nContent-Length: 0\r\n\r\n")
	u := newUpstream(t, o.config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := do(ctx, u, transport.Call{})
		if err != nil {
			t.Error(err)
			return
		}
		if got := string(answer.Header("SIDENOTE-status")); got != "forged" || answer.Status() != 200 {
			t.Errorf("head says %q %d", got, answer.Status())
		}
		answer.Relay(ctx, transport.Relay{Replace: []transport.Header{{Name: "Sidenote-Status", Value: "true"}, {Name: "X", Value: ""}, {Name: "Sidenote-Id", Value: "7"}},
			AppendHeaders: func(head []byte) []byte { return append(head, "\r\nSidenote-Sources: 8"...) }})
	}, transport.ServerOptions{})
	c := dial(t, addr)
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	head, _ := c.message()
	want := "HTTP/1.1 200 OK\r\nSidenote-Status: true\r\nA: b\r\nSidenote-Id: 7\r\nSidenote-Sources: 8\r\nContent-Length: 0\r\n\r\n"
	if diff := cmp.Diff(want, head); diff != "" {
		t.Error(diff)
	}
}

// An ambiguous answer is refused.
func TestMalformedAnswers(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" // with a chunk in the same segment
	long := strings.Repeat("x", 70<<10)
	for answer, want := range map[string]transport.Class{
		"":                                      transport.ClosedEarly,
		"HTTP/1.1 200 OK\r\nA: b\r\n":           transport.ClosedEarly,
		"HTTP/1.1 100 Continue\r\n\r\n":         transport.ClosedEarly,
		"\r\nHTTP/1.1 200 OK\r\n\r\n":           transport.BadResponse,
		"HTTP/2.0 200 OK\r\n\r\n":               transport.BadResponse,
		"HTTP/1.1  200 OK\r\n\r\n":              transport.BadResponse,
		"HTTP/1.1 20 OK\r\n\r\n":                transport.BadResponse,
		"HTTP/1.1 2000 OK\r\n\r\n":              transport.BadResponse,
		"HTTP/1.1 099 OK\r\n\r\n":               transport.BadResponse,
		"HTTP/1.1 200 O\x00K\r\n\r\n":           transport.BadResponse,
		"ICY 200 OK\r\n\r\n":                    transport.BadResponse,
		"HTTP/1.1 200 OK\r\nA b\r\n\r\n":        transport.BadResponse,
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n":      transport.BadResponse,
		"HTTP/1.1 200 OK\r\n: b\r\n\r\n":        transport.BadResponse,
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n": transport.BadResponse,
		"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n": transport.BadResponse,
		"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n":    transport.BadResponse,
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab":                 transport.BadResponse,
		"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na":                                    transport.BadResponse,
		"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na":                                      transport.BadResponse,
		"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\na":                                        transport.BadResponse,
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\na":                    transport.BadResponse,
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n":     transport.BadResponse,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n":                         transport.BadResponse,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n": transport.BadResponse,
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n":                               transport.BadResponse,
		"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n":                 transport.BadResponse,
		"HTTP/1.1 200 OK\r\nA: " + long + "\r\n\r\n":                                          transport.BadResponse,
		chunks + "zz\r\n":                                                    transport.BadResponse,
		chunks + "2\nab\r\n0\r\n\r\n":                                        transport.BadResponse,
		chunks + "-2\r\nab\r\n0\r\n\r\n":                                     transport.BadResponse,
		chunks + "2 2\r\nab\r\n0\r\n\r\n":                                    transport.BadResponse,
		chunks + "ffffffffffffffff\r\nab":                                    transport.BadResponse,
		chunks + ";\r\nab\r\n0\r\n\r\n":                                      transport.BadResponse,
		strings.Repeat("HTTP/1.1 103 Hint\r\nA: "+long[:9000]+"\r\n\r\n", 9): transport.BadResponse,
	} {
		o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
			if _, _, err := readMessage(br); err == nil {
				_, _ = io.WriteString(c, answer)
			}
		})
		f := relaying(t, newUpstream(t, o.config("")))
		c := dial(t, f.addr)
		c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if head, body := c.message(); body != string(want) || !strings.HasPrefix(head, "HTTP/1.1 502 ") {
			t.Errorf("%.60q: got %.20q %q, want %s", answer, head, body, want)
		}
	}
}

// Whatever ends a body too soon, the client sees a cut and not a normal end.
func TestCutAnswers(t *testing.T) {
	const chunks, fixed = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
	for _, c := range []struct {
		answer, got string
		class       transport.Class
	}{
		{chunks, "", transport.Truncated},
		{chunks + "5", "", transport.Truncated},
		{chunks + "5\r\nab", "2\r\nab\r\n", transport.Truncated},
		{chunks + "2\r\nab", "2\r\nab\r\n", transport.Truncated},
		{chunks + "2\r\nab\r\n", "2\r\nab\r\n", transport.Truncated},
		{chunks + "2\r\nab\r\n0\r\n", "2\r\nab\r\n", transport.Truncated},
		{chunks + "2\r\nab\r\n0\r\nT: 1\r\n", "2\r\nab\r\n", transport.Truncated},
		{chunks + "2\r\nabc\r\n0\r\n\r\n", "2\r\nab\r\n", transport.BadResponse},
		{chunks + strings.Repeat("0", 5000) + "\r\n\r\n", "", transport.BadResponse},
		{fixed, "", transport.Truncated},
		{fixed + "abcdefgh", "abcdefgh", transport.Truncated},
	} {
		o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
			if _, _, err := readMessage(br); err == nil {
				_, _ = io.WriteString(conn, c.answer)
			}
		})
		f := relaying(t, newUpstream(t, o.config("")))
		got := dial(t, f.addr)
		got.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		head, body, _ := strings.Cut(got.rest(), "\r\n\r\n")
		// If the first bytes are faulty, the head may not have been sent yet.
		if body != c.got || !strings.HasPrefix(head, "HTTP/1.1 200 OK") && (head != "" || c.class != transport.BadResponse) {
			t.Errorf("%q reached the client as %q %q", c.answer, head, body)
		}
		if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != c.class {
			t.Errorf("%q: outcome %v, want %s", c.answer, out.Err, c.class)
		}
	}
}

// A body that ends with the upstream's connection is chunked for clients that can read chunks; for
// others it ends with their connection.
func TestUntilClose(t *testing.T) {
	const (
		chunked = "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
		plain   = "HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nabc"
	)
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n": chunked,
		"GET / HTTP/1.0\r\n\r\n":                                 plain,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n":       plain,
	} {
		o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
			if _, _, err := readMessage(br); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nA: b\r\n\r\nabc")
			}
		})
		f := relaying(t, newUpstream(t, o.config("")))
		c := dial(t, f.addr)
		c.send(request)
		if got := c.rest(); got != want {
			t.Errorf("%q: got %q", request, got)
		}
		if out := await(t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != 3 {
			t.Errorf("outcome %+v", out)
		}
	}
}

// An HTTP/1.0 client cannot read chunks, but must still notice a cut.
func TestOldClientSeesCut(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, _, err := readMessage(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\n")
		}
	})
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	c.send("GET / HTTP/1.0\r\n\r\n")
	b, err := io.ReadAll(c)
	if err == nil {
		t.Errorf("%q ended like a whole answer", b)
	}
}

// For an HTTP/1.0 client the end of the connection is the end of the body. It is a clean end even
// if the client has sent more than its request, for which the kernel would reset the connection.
func TestOldClientSeesEnd(t *testing.T) {
	more := make(chan struct{})
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, _, err := readMessage(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabZ\r\n")
			<-more
			_, _ = io.WriteString(c, "3\r\ndef\r\n0\r\n\r\n")
		}
	})
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	c.send("POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx")
	if _, err := c.br.ReadString('Z'); err != nil {
		t.Fatal(err)
	}
	c.send("\r\n")
	close(more)
	if got := c.rest(); got != "def" {
		t.Errorf("got %q", got)
	}
}

func TestUpstreamFailures(t *testing.T) {
	closed := listen(t)
	closed.Close()
	silent := func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) }
	stalled := func(c net.Conn, br *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na")
		_, _ = io.Copy(io.Discard, br)
	}
	for name, c := range map[string]struct {
		script func(net.Conn, *bufio.Reader)
		change func(*transport.Config)
		want   transport.Class
		late   bool // the fault is after the head
	}{
		"refused":    {silent, func(c *transport.Config) { c.BaseURL.Host = closed.Addr().String() }, transport.ConnectFailed, false},
		"no host":    {silent, func(c *transport.Config) { c.BaseURL.Host = "host.invalid:1" }, transport.ConnectFailed, false},
		"not TLS":    {stalled, func(c *transport.Config) { c.BaseURL.Scheme = "https" }, transport.TLSFailed, false},
		"mute TLS":   {silent, func(c *transport.Config) { c.BaseURL.Scheme = "https"; c.Connect = 20 * time.Millisecond }, transport.ConnectTimeout, false},
		"no answer":  {silent, func(c *transport.Config) { c.FirstByte = 20 * time.Millisecond }, transport.FirstByteTimeout, false},
		"falls mute": {stalled, func(c *transport.Config) { c.Idle = 20 * time.Millisecond }, transport.IdleTimeout, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := newOrigin(t, c.script).config("")
			c.change(&config)
			f := relaying(t, newUpstream(t, config))
			client := dial(t, f.addr)
			client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			var err error
			if c.late {
				client.rest()
				err = await(t, f.outcomes, "outcome").Err
			} else {
				client.message()
				err = await(t, f.errs, "error")
			}
			if got := transport.ClassOf(err); got != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
