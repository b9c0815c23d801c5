package transport_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// A body in pieces arrives whole, for any size and number of pieces: on a new connection, on a
// reused one, and again after an answer was discarded. The list of pieces does not change.
func TestPieces(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		n, err := io.Copy(hash, r.Body)
		_, _ = fmt.Fprintf(w, "%d of %d, %x, %v", n, r.ContentLength, hash.Sum(nil), err)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for _, server := range []*httptest.Server{plain, secure} {
		base, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		p := newPiecesFront(t, newUpstream(t, transport.Config{BaseURL: base, Dial: transport.OutboundOptions{RootCAs: roots}}))
		largest := 12 << 20
		if testing.Short() {
			largest = 2 << 20
		}
		for _, size := range []int{0, 1, 9_000, 16 << 10, 16<<10 + 1, 60_000, 64 << 10, 64<<10 + 1, 300_000, largest} {
			for _, count := range []int{1, 2, 3, 64, 65, 3000} {
				t.Run(fmt.Sprintf("%s, %d in %d", base.Scheme, size, count), func(t *testing.T) {
					body := make([]byte, size)
					_, _ = rand.NewChaCha8([32]byte{byte(size), byte(count)}).Read(body)
					p.send(t, inPieces(body, count), fmt.Sprintf("%d of %d, %x, <nil>", size, size, sha256.Sum256(body)))
				})
			}
		}
	}
}

// inPieces splits body into that many pieces; some may be empty.
func inPieces(body []byte, count int) (pieces [][]byte) {
	random := rand.New(rand.NewPCG(uint64(len(body)), uint64(count))) //nolint:gosec // a test's
	for ; count > 1; count-- {
		n := random.IntN(2*len(body)/count + 1)
		pieces, body = append(pieces, body[:n]), body[n:]
	}
	return append(pieces, body)
}

// A piecesFront is a front that sends pieces instead of its requests' bodies.
type piecesFront struct {
	addr   string
	pieces atomic.Pointer[[][]byte]
}

func newPiecesFront(t *testing.T, u *transport.Upstream) *piecesFront {
	p := new(piecesFront)
	p.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		r := transport.Call{Body: *p.pieces.Load(), Whole: true}
		answer, err := do(ctx, u, r)
		if err == nil && string(ctx.Path()) == "/again" {
			answer.Close()
			answer, err = do(ctx, u, r)
		}
		if err != nil {
			t.Error(err)
			return
		}
		answer.Relay(ctx, transport.Relay{})
	}, transport.ServerOptions{})
	return p
}

// send sends the pieces four times and requires that answer each time.
func (p *piecesFront) send(t *testing.T, pieces [][]byte, want string) {
	t.Helper()
	sent := slices.Clone(pieces)
	p.pieces.Store(&sent)
	c := dial(t, p.addr)
	for _, path := range []string{"/first", "/second", "/again"} {
		c.send("POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nno")
		if _, got := c.message(); got != want {
			t.Errorf("%s: the upstream read %s, want %s", path, got, want)
		}
	}
	if !slices.EqualFunc(sent, pieces, bytes.Equal) {
		t.Error("the list of pieces was changed")
	}
}
