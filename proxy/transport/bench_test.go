//go:build unix

package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// BenchmarkRelay compares Relay with the shortest relay that fasthttp allows, in the same run and
// over real sockets. It measures the CPU time per request of the whole process, including client
// and upstream, and of the relay alone: the difference to the same load without a relay.
func BenchmarkRelay(b *testing.B) {
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
	fixed := func(n int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	for name, answer := range map[string]string{
		"1KB": fixed(1 << 10), "20KB": fixed(20 << 10),
		"21chunks": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 21) + "0\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			origin := benchOrigin(b, answer)
			u := newUpstream(b, transport.Config{BaseURL: mustURL(origin)})
			ours := serve(b, func(ctx *fasthttp.RequestCtx) {
				answer, err := do(ctx, u, transport.Call{})
				if err != nil {
					b.Error(err)
					return
				}
				answer.Relay(ctx, transport.Relay{})
			}, transport.ServerOptions{})
			bare := serveBare(b, origin, name == "21chunks")
			var direct, theirs, own time.Duration
			b.ReportAllocs()
			for b.Loop() { // in rounds, so that other load on the machine affects all three
				direct += load(b, origin)
				theirs += load(b, bare)
				own += load(b, ours)
			}
			per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(b.N*roundRequests) }
			b.ReportMetric(per(theirs-direct), "bare-µs/req")
			b.ReportMetric(per(own-direct), "relay-µs/req")
			b.ReportMetric(float64(own-direct)/float64(theirs-direct), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const (
	benchClients  = 32
	roundRequests = 3200
)

// load sends one round of requests and returns the CPU time that the process used.
func load(b *testing.B, addr string) time.Duration {
	request := "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nUser-Agent: OpenAI/Python 1.99\r\nAccept: application/json\r\nAccept-Encoding: gzip, deflate\r\nAuthorization: Bearer sk-0123456789012345678901234567890123456789\r\nContent-Type: application/json\r\nX-Stainless-Lang: python\r\nX-Stainless-Retry-Count: 0\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
	var conns []*bufio.Reader
	var writers []net.Conn
	for range benchClients {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns, writers = append(conns, bufio.NewReaderSize(c, 32<<10)), append(writers, c)
	}
	before := cpu()
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			for range roundRequests / benchClients {
				if _, err := io.WriteString(writers[i], request); err != nil {
					b.Error(err)
					return
				}
				if err := skipAnswer(conns[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return cpu() - before
}

// skipAnswer reads one answer as cheaply as possible.
func skipAnswer(br *bufio.Reader) error {
	length := -1
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if len(line) > 16 && string(line[:16]) == "Content-Length: " {
			length = 0
			for _, c := range line[16 : len(line)-2] {
				length = length*10 + int(c-'0')
			}
		}
	}
	if length >= 0 {
		_, err := br.Discard(length)
		return err
	}
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if string(line) == "0\r\n" {
			_, err = br.Discard(2)
			return err
		}
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchOrigin(b *testing.B, answer string) (addr string) {
	raw := []byte(answer)
	o := newOrigin(b, func(c net.Conn, br *bufio.Reader) {
		_ = c.SetDeadline(time.Time{})
		for {
			for {
				line, err := br.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) == 2 {
					break
				}
			}
			if _, err := br.Discard(1024); err != nil {
				return
			}
			if _, err := c.Write(raw); err != nil {
				return
			}
		}
	})
	return o.ln.Addr().String()
}

// serveBare starts the relay of fasthttp's own examples: it reads whole messages, parses them and
// writes them anew, and does not handle clients that leave or truncated bodies. It passes a stream
// piece by piece, as any relay of streams must.
func serveBare(b *testing.B, origin string, stream bool) (addr string) {
	client := &fasthttp.HostClient{Addr: origin, NoDefaultUserAgentHeader: true, MaxConns: 1024, StreamResponseBody: stream}
	ln := listen(b)
	s := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.SetStatusCode(fasthttp.StatusBadGateway)
		}
	}}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	b.Cleanup(func() {
		_ = s.Shutdown()
		client.CloseIdleConnections()
		<-done
	})
	return ln.Addr().String()
}
