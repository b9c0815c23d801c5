package transport_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

const upgrade = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"

// switching returns an origin that accepts another protocol and then echoes.
func switching(t *testing.T) (o *origin, requests <-chan string) {
	seen := make(chan string, 10)
	return newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		head, _, err := readMessage(br)
		if err != nil {
			return
		}
		seen <- head
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\nhello")
		_, _ = io.Copy(c, br)
	}), seen
}

func TestUpgrade(t *testing.T) {
	o, requests := switching(t)
	f := relaying(t, newUpstream(t, o.config("")))
	c := dial(t, f.addr)
	c.send(upgrade + "early")
	if got := await(t, requests, "request"); !strings.Contains(got, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n") {
		t.Errorf("upstream saw %q", got)
	}
	head, _ := c.message()
	if want := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n"; head != want {
		t.Errorf("got %q", head)
	}
	c.send(" and late")
	want := "helloearly and late"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c.br, got); err != nil || string(got) != want {
		t.Errorf("got %q %v", got, err)
	}
	c.Close()
	if out := await(t, f.outcomes, "outcome"); out.Err != nil || out.Bytes != int64(len(want)) {
		t.Errorf("outcome %+v", out)
	}
}

func TestUpgradeEnds(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		o, _ := switching(t)
		config := o.config("")
		config.Idle = 50 * time.Millisecond
		f := relaying(t, newUpstream(t, config))
		c := dial(t, f.addr)
		c.send(upgrade)
		if got := c.rest(); !strings.HasSuffix(got, "hello") {
			t.Errorf("got %q", got)
		}
		if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.IdleTimeout {
			t.Errorf("outcome %+v", out)
		}
	})
	t.Run("by the upstream", func(t *testing.T) {
		o := answering(t, "HTTP/1.1 101 OK\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
		config := o.config("")
		f := relaying(t, newUpstream(t, config))
		c := dial(t, f.addr)
		c.send(upgrade)
		c.message()
		f.up.Close()
		if !c.ended() {
			t.Error("the client's connection stays open")
		}
		await(t, f.outcomes, "outcome")
	})
}

// If the upstream declines an upgrade, the request is a normal one. An upgrade to h2c, or one that
// the caller removes, does not reach the upstream.
func TestUpgradeDeclined(t *testing.T) {
	o, seen := recording(t)
	u := newUpstream(t, o.config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := do(ctx, u, transport.Call{NoUpgrade: string(ctx.Path()) == "/no"})
		if err != nil {
			t.Error(err)
			return
		}
		answer.Relay(ctx, transport.Relay{})
	}, transport.ServerOptions{})
	c := dial(t, addr)
	for request, passes := range map[string]bool{
		upgrade: true,
		strings.Replace(upgrade, "/ws", "/no", 1):                   false,
		strings.Replace(upgrade, "websocket", "H2C", 1):             false,
		strings.Replace(upgrade, ", Upgrade", "", 1):                false,
		strings.Replace(upgrade, "websocket", "h2c, websocket", 1):  false,
		strings.Replace(upgrade, "Sec-", "Upgrade: h2c\r\nSec-", 1): false,
	} {
		c.send(request)
		if head, _ := c.message(); head != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" {
			t.Errorf("got %q", head)
		}
		if got := await(t, seen, "request"); strings.Contains(got, "pgrade: ") != passes {
			t.Errorf("upstream saw %q", got)
		}
	}
}
