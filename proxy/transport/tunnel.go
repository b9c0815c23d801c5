package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/tcp"
)

// relayUpgrade relays a 101 and then bytes in both directions. When one side closes, or both are
// silent for Config.Idle, both connections are closed.
func (a *Answer) relayUpgrade(ctx *fasthttp.RequestCtx, how Relay) {
	client := clientOf(ctx)
	head := append([]byte("HTTP/1.1 101 "), a.appendLines(nil, &how)...)
	head = append(head, "\r\n\r\n"...)
	a.free()
	a.x.handOver() // the tunnel reads from the client itself, and outlives the handler
	t := &tunnel{x: a.x, client: client, how: how}
	client.tunnel = t
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(ahead net.Conn) { // ahead starts with what fasthttp has buffered
		defer client.end()
		defer client.Close() //nolint:errcheck // nothing is left to be lost
		err := net.ErrClosed
		defer panics.Recover(t.panicked(), func() { t.end(errPanic) })
		t.seen.Store(time.Now().UnixNano())
		if _, err = client.Write(head); err == nil {
			err = t.run(ahead)
		}
		t.end(err)
	})
}

// A tunnel relays bytes after a switch to another protocol.
type tunnel struct {
	x      *upstreamCall
	client *clientConn
	how    Relay
	once   sync.Once
	seen   atomic.Int64 // time of the last byte in either direction, Unix nanoseconds
	down   atomic.Int64 // bytes to the client
}

// end ends the call, with err if not nil. Only the first call has an effect.
func (t *tunnel) end(err error) {
	t.once.Do(func() {
		t.x.end(false)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded), ClassOf(err) != "":
			err = t.x.classify(err, IdleTimeout, Truncated)
		default:
			err = t.x.classify(&Error{ClientGone, err}, IdleTimeout, Truncated)
		}
		t.how.done(t.panicked(), Outcome{t.down.Load(), err})
	})
}

// run copies in both directions until one ends, and returns why. A normal close is not an error. A
// panic overrides an earlier end of the other direction.
func (t *tunnel) run(client net.Conn) (err error) {
	var both sync.WaitGroup
	var lock sync.Mutex
	end := func(why error) {
		lock.Lock()
		defer lock.Unlock()
		if err == nil || errors.Is(why, errPanic) {
			err = why
		}
		t.x.conn.drop()
		_ = t.client.Close() // a second call does nothing
	}
	both.Add(1)
	panics.Go(t.panicked(), func() { end(t.copy(&t.x.conn.Timed, &t.client.Timed, client, nil)) }, both.Done)
	end(t.copy(&t.client.Timed, &t.x.conn.Timed, t.x.conn.br, &t.down))
	both.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (t *tunnel) panicked() panics.Handler { return t.client.guard.options.Panicked }

// copy copies from r to dst. r reads from src, whose deadlines are set.
func (t *tunnel) copy(dst, src *tcp.Timed, r io.Reader, count *atomic.Int64) (err error) {
	defer panics.Recover(t.panicked(), func() { err = errPanic })
	piece := t.client.guard.pieces.Get().(*[]byte)
	defer putBuffer(&t.client.guard.pieces, piece)
	idle := t.x.up.config.Idle
	for {
		if err := src.WaitRead(idle); err != nil {
			return err
		}
		n, err := r.Read(*piece)
		if n > 0 {
			t.seen.Store(time.Now().UnixNano())
			if _, err := dst.WriteWithin((*piece)[:n], t.x.up.config.ClientWrite); err != nil {
				return err
			}
			if count != nil {
				count.Add(int64(n))
			}
		}
		silent := time.Since(time.Unix(0, t.seen.Load()))
		if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && silent < idle) {
			return err
		}
	}
}
