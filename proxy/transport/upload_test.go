package transport_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport"
)

// A 64 MiB upload passes unchanged, in either framing, within 4 MiB.
func TestUploadMemory(t *testing.T) {
	const size = 64 << 20
	for _, length := range []int64{size, -1} {
		sums, peak := make(chan string, 1), make(chan uint64, 1)
		o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
			request, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if request.ContentLength != length {
				t.Errorf("length %d became %d", length, request.ContentLength)
			}
			hash, most, buf := sha256.New(), uint64(0), make([]byte, 1<<20)
			for {
				n, err := request.Body.Read(buf)
				hash.Write(buf[:n])
				if rand.IntN(200) == 0 {
					most = max(most, inUse())
				}
				if err != nil {
					break
				}
			}
			peak <- most
			sums <- fmt.Sprintf("%x", hash.Sum(nil))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		f := relaying(t, newUpstream(t, o.config("")))
		before := inUse()
		hash := sha256.New()
		body := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), hash)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+f.addr+"/v1/files", body)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = length
		client := http.Transport{DisableKeepAlives: true}
		answer, err := client.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got, want := await(t, sums, "upload"), fmt.Sprintf("%x", hash.Sum(nil)); got != want {
			t.Errorf("length %d: digest %s, want %s", length, got, want)
		}
		// This includes the buffers of the test's own client and upstream.
		if most := await(t, peak, "peak"); most > before+4<<20 {
			t.Errorf("length %d: %d KiB more in use than before", length, (most-before)>>10)
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// If an upstream answers before it has read the body, its answer is relayed, whatever it does with
// the rest, and the client's connection is closed after the answer.
func TestEarlyAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer, body string
	}{
		"fixed":   {"HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big", "too big"},
		"chunked": {"HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ntoo big\r\n0\r\n\r\n", "too big"},
		"no body": {"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", ""},
	} {
		for _, framing := range []string{"Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			t.Run(name+", "+framing, func(t *testing.T) {
				ended := make(chan struct{})
				o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
					if _, err := http.ReadRequest(br); err == nil {
						_, _ = io.WriteString(conn, c.answer)
						_, _ = io.Copy(io.Discard, br)
					}
					close(ended)
				})
				f := relaying(t, newUpstream(t, o.config("")))
				client := dial(t, f.addr)
				client.send("PUT / HTTP/1.1\r\nHost: h\r\n" + framing + "\r\n\r\n10000\r\n" + strings.Repeat("x", 50_000))
				head, body := client.message()
				if !strings.HasPrefix(head, "HTTP/1.1 413 Too Large\r\n") || !strings.Contains(head, "\r\nConnection: close\r\n") || body != c.body {
					t.Errorf("got %q %q", head, body)
				}
				if !client.ended() {
					t.Error("the connection stays open")
				}
				if out := await(t, f.outcomes, "outcome"); out.Err != nil {
					t.Error(out.Err)
				}
				await(t, ended, "end at the upstream")
			})
		}
	}
}

// The answer is relayed while the body is still being sent.
func TestFullDuplex(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		request, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		var b [1]byte
		for {
			if _, err := io.ReadFull(request.Body, b[:]); err != nil {
				break
			}
			_, _ = fmt.Fprintf(c, "1\r\n%s\r\n", b[:])
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	for line := ""; line != "\r\n"; {
		line, _ = c.br.ReadString('\n')
	}
	for _, letter := range "echo" {
		c.send("1\r\n" + string(letter) + "\r\n")
		var got string
		if _, err := fmt.Fscanf(c.br, "1\r\n%s\r\n", &got); err != nil || got != string(letter) {
			t.Fatalf("sent %c, got %q %v", letter, got, err)
		}
	}
	c.send("0\r\n\r\n")
	if got := c.rest(); got != "0\r\n\r\n" {
		t.Errorf("ended with %q", got)
	}
	if out := await(t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != 4 {
		t.Errorf("outcome %+v", out)
	}
}

// A truncated body never looks complete to the upstream.
func TestBrokenUpload(t *testing.T) {
	const put = "PUT / HTTP/1.1\r\nHost: h\r\n"
	for name, c := range map[string]struct {
		sent string
		fin  bool
		want transport.Class
	}{
		"cut":        {put + "Content-Length: 90000\r\n\r\n" + strings.Repeat("x", 70_000), true, transport.ClientGone},
		"cut chunk":  {put + "Transfer-Encoding: chunked\r\n\r\n9\r\nabc", true, transport.ClientGone},
		"cut after":  {put + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true, transport.ClientGone},
		"bad chunk":  {put + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", false, transport.ClientBody},
		"falls mute": {put + "Content-Length: 90000\r\n\r\n" + strings.Repeat("x", 70_000), false, transport.ClientLate},
	} {
		t.Run(name, func(t *testing.T) {
			began, upstream := make(chan struct{}), make(chan error, 1)
			o := newOrigin(t, func(_ net.Conn, br *bufio.Reader) {
				request, err := http.ReadRequest(br)
				close(began)
				if err == nil {
					_, err = io.Copy(io.Discard, request.Body)
				}
				upstream <- err
			})
			config := o.config("")
			if c.want == transport.ClientLate {
				config.ClientRead = 50 * time.Millisecond
			}
			f := relaying(t, newUpstream(t, config))
			client := dial(t, f.addr)
			client.send(c.sent)
			if c.fin { // not earlier, else the upstream gets no request
				await(t, began, "request")
				_ = client.CloseWrite()
			}
			if err := await(t, f.errs, "error"); transport.ClassOf(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if err := await(t, upstream, "upstream"); err == nil {
				t.Error("the upstream read a whole body")
			}
			if got := client.rest(); !strings.Contains(got, "\r\nConnection: close\r\n") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A large rewritten body is sent while the answer is read, and its pooled buffers are not mixed up
// between requests.
func TestLargeBodies(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		for {
			_, body, err := readMessage(br)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	u := newUpstream(t, o.config(""))
	addr := readingFirst(t, u)
	c := dial(t, addr)
	for i := range 20 {
		want := strings.Repeat(string(rune('a'+i)), 30_000*(i+1))
		go func() {
			_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(want), want)
		}()
		if _, got := c.message(); got != want {
			t.Fatalf("body %d came back with %d bytes, want %d", i, len(got), len(want))
		}
	}
}
