package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"sidenote/proxy/transport"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's pool has a goroutine that wakes up every ten seconds, even after it was
		// stopped.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		// Started by the relay that the benchmark compares with.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))
}

// patience is the longest wait in these tests. Only failures take that long.
const patience = 30 * time.Second

// An origin is an upstream that follows a script, one call per connection.
type origin struct {
	ln    net.Listener
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// newOrigin runs script for every connection until the test ends, and closes the connection
// when script returns.
func newOrigin(t testing.TB, script func(c net.Conn, br *bufio.Reader)) *origin {
	t.Helper()
	return newOriginOn(t, listen(t), script)
}

// newOriginOn is newOrigin with a listener.
func newOriginOn(t testing.TB, ln net.Listener, script func(c net.Conn, br *bufio.Reader)) *origin {
	t.Helper()
	o := &origin{ln: ln}
	o.wg.Go(func() {
		for {
			c, err := o.ln.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.conns = append(o.conns, c)
			o.mu.Unlock()
			_ = c.SetDeadline(time.Now().Add(patience))
			o.wg.Go(func() {
				defer c.Close()
				script(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		o.ln.Close()
		o.mu.Lock()
		for _, c := range o.conns {
			c.Close()
		}
		o.mu.Unlock()
		o.wg.Wait()
	})
	return o
}

// answering returns an origin that reads requests with their bodies and gives each the same answer,
// on any number of connections.
func answering(t testing.TB, answer string) *origin {
	return newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		for {
			if _, _, err := readMessage(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	})
}

// config returns a Config for o, which tests may change.
func (o *origin) config(path string) transport.Config {
	return transport.Config{
		BaseURL: &url.URL{Scheme: "http", Host: o.ln.Addr().String(), Path: path},
		Connect: patience, FirstByte: patience, Idle: patience,
		ClientRead: patience, ClientWrite: patience,
	}
}

func newUpstream(t testing.TB, c transport.Config) *transport.Upstream {
	t.Helper()
	u, err := transport.NewUpstream(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// A front is our server with a handler that relays to one upstream.
type front struct {
	addr     string
	up       *transport.Upstream
	outcomes chan transport.Outcome // of each relayed answer
	errs     chan error             // of each failed Do
}

func errorBody(status int, code string) []byte {
	return fmt.Appendf(nil, `{"error":{"status":%d,"code":%q}}`, status, code)
}

// do makes call for the request of ctx.
func do(ctx *fasthttp.RequestCtx, u *transport.Upstream, call transport.Call) (*transport.Answer, error) {
	call.Head = transport.Capture(ctx)
	return u.Do(transport.Watch(ctx, context.Background()), call)
}

// relaying returns a front that relays everything to u unchanged.
func relaying(t testing.TB, u *transport.Upstream) *front {
	return relayingMany(t, u, 100, transport.ServerOptions{})
}

// relayingMany is relaying with options and room for the outcomes of that many requests.
func relayingMany(t testing.TB, u *transport.Upstream, many int, o transport.ServerOptions) *front {
	f := &front{up: u, outcomes: make(chan transport.Outcome, many), errs: make(chan error, many)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) { f.relay(ctx, transport.Call{}) }, o)
	return f
}

func (f *front) relay(ctx *fasthttp.RequestCtx, r transport.Call) {
	answer, err := do(ctx, f.up, r)
	if err != nil {
		f.errs <- err
		ctx.SetStatusCode(fasthttp.StatusBadGateway)
		ctx.SetBodyString(string(transport.ClassOf(err)))
		return
	}
	answer.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { f.outcomes <- o }})
}

// readingFirst returns a front that reads bodies of up to 1 MiB before it sends them to u.
func readingFirst(t testing.TB, u *transport.Upstream) (addr string) {
	return serve(t, func(ctx *fasthttp.RequestCtx) {
		body, whole, err := transport.ReadBody(ctx, 1<<20, patience, nil)
		if err != nil || !whole {
			t.Errorf("whole %v, %v", whole, err)
		}
		answer, err := do(ctx, u, transport.Call{Body: [][]byte{body}, Whole: true})
		if err != nil {
			t.Error(err)
			return
		}
		answer.Relay(ctx, transport.Relay{})
	}, transport.ServerOptions{})
}

func serve(t testing.TB, h fasthttp.RequestHandler, o transport.ServerOptions) (addr string) {
	t.Helper()
	ln := listen(t)
	serveOn(t, ln, h, o)
	return ln.Addr().String()
}

func serveOn(t testing.TB, ln net.Listener, h fasthttp.RequestHandler, o transport.ServerOptions) *transport.Server {
	t.Helper()
	o.ErrorBody = errorBody
	s := transport.NewServer(h, o)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-stopped
	})
	return s
}

// A client is a raw connection.
type client struct {
	*net.TCPConn
	br *bufio.Reader
	t  testing.TB
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{c.(*net.TCPConn), bufio.NewReader(c), t}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// message reads one framed message.
func (c *client) message() (head, body string) {
	c.t.Helper()
	head, body, err := readMessage(c.br)
	if err != nil {
		c.t.Fatalf("%v after %q %q", err, head, body)
	}
	return head, body
}

// rest reads until the connection ends.
func (c *client) rest() string {
	c.t.Helper()
	b, err := io.ReadAll(c.br)
	if err != nil {
		c.t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}

// ended reports whether the server has closed the connection. It reads one byte.
func (c *client) ended() bool {
	_, err := c.br.ReadByte()
	return err != nil
}

// readMessage reads a request or an answer with a body in any framing except until-close; the body
// is returned without framing.
func readMessage(br *bufio.Reader) (head, body string, err error) {
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		line, err := br.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), "", err
		}
	}
	head = b.String()
	body, err = readBody(br, strings.ToLower(head))
	return head, body, err
}

func readBody(br *bufio.Reader, head string) (string, error) {
	var body bytes.Buffer
	if strings.Contains(head, "\r\ntransfer-encoding: chunked\r\n") {
		for {
			var n int64
			if _, err := fmt.Fscanf(br, "%x\r\n", &n); err != nil {
				return body.String(), err
			}
			if _, err := io.CopyN(&body, br, n); err != nil {
				return body.String(), err
			}
			if _, err := br.Discard(2); err != nil || n == 0 {
				return body.String(), err
			}
		}
	}
	if _, after, ok := strings.Cut(head, "\r\ncontent-length: "); ok {
		var n int64
		if _, err := fmt.Sscan(after, &n); err != nil {
			return "", err
		}
		_, err := io.CopyN(&body, br, n)
		return body.String(), err
	}
	return "", nil
}

// await receives from ch, or fails after patience.
func await[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// count returns the number of accepted connections.
func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns)
}

func mustURL(host string) *url.URL { return &url.URL{Scheme: "http", Host: host} }
