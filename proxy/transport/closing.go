package transport

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
)

// lingerTime is how long a connection that closes after an answer is still read from.
// If it were closed at once, the kernel would answer bytes that the client still sends
// with a reset, and the reset can overtake the answer.
const lingerTime = 2 * time.Second

// hijack lets write answer ctx outside of fasthttp's loop; after that the connection is
// closed. ahead reads the connection, beginning with what fasthttp has read ahead.
func hijack(ctx *fasthttp.RequestCtx, write func(client *clientConn, ahead net.Conn)) {
	client := clientOf(ctx)
	panicked := client.guard.options.Panicked
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(ahead net.Conn) {
		defer client.end()
		defer client.Close() //nolint:errcheck // nothing is left to be lost
		defer panics.Recover(panicked, func() { client.call.stream.err = errPanic })
		write(client, ahead)
	})
}

// hijackResponse writes ctx's response outside of fasthttp's loop and then closes the
// connection.
func hijackResponse(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	hijack(ctx, func(client *clientConn, _ net.Conn) {
		bw := bufio.NewWriterSize(client, readerSize)
		err := ctx.Response.Write(bw)
		if err == nil {
			err = bw.Flush()
		}
		// This does nothing unless writing failed before the body. fasthttp would close
		// the stream too, but only after it took the request's stream from an upload
		// that may still run.
		_ = ctx.Response.CloseBodyStream()
		if err == nil {
			linger(client)
		}
	})
}

// relayUntilClose relays a body of unknown length to an HTTP/1.0 client. Such a client
// cannot read chunks, so the end of the connection is the end of the body, and a body
// that was cut must end in a reset.
func relayUntilClose(ctx *fasthttp.RequestCtx, s *stream) {
	ctx.SetConnectionClose() // or fasthttp writes keep-alive if the client asked for it
	hijack(ctx, func(client *clientConn, _ net.Conn) {
		bw := bufio.NewWriterSize(client, readerSize)
		ctx.Response.Header.SetContentLength(-2) // no length, and Connection: close
		err := ctx.Response.Header.Write(bw)
		if err == nil {
			err = bw.Flush()
		}
		if err == nil {
			_, err = s.WriteTo(bw)
		}
		if err == nil {
			err = bw.Flush()
		}
		_ = s.CloseWithError(err) // always nil
		if err == nil {
			linger(client)
		} else if tcp, ok := tcpOf(client); ok {
			_ = tcp.SetLinger(0)
		}
	})
}

// linger ends our side of conn and reads what the peer still sends.
func linger(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // an error means that the peer has gone
	}
	drain(conn, lingerTime)
}

// drain reads and drops what the peer of conn sends within wait.
func drain(conn net.Conn, wait time.Duration) {
	if conn.SetReadDeadline(time.Now().Add(wait)) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// relayUpgrade relays a 101 and then bytes in both directions. When one side closes, or
// both are silent for Config.Idle, both connections are closed.
func (r *Response) relayUpgrade(ctx *fasthttp.RequestCtx, how Relay) {
	x := r.x
	head := append([]byte("HTTP/1.1 101 "), r.head.append(nil, how.Replace)...)
	head = append(head, "\r\n\r\n"...)
	r.free()
	x.unwatch() // the tunnel reads from the client itself
	s := &x.stream
	*s = stream{x: x, how: how}
	t := &tunnel{x: x}
	hijack(ctx, func(client *clientConn, ahead net.Conn) {
		t.seen.Store(time.Now().UnixNano())
		_, err := client.Write(head)
		if err == nil {
			err = t.run(ahead)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && ClassOf(err) == "" {
			err = &Error{ClientGone, err}
		}
		s.bytes, s.err = t.down.Load(), err
		_ = s.CloseWithError(nil) // always nil
	})
}

// A tunnel relays the bytes after a switch to another protocol.
type tunnel struct {
	x    *upstreamCall
	seen atomic.Int64 // time of the last byte in either direction, Unix nanoseconds
	down atomic.Int64 // bytes to the client
}

// run copies in both directions until one ends, and returns why. A normal close is not
// an error.
func (t *tunnel) run(client net.Conn) (err error) {
	var both sync.WaitGroup
	var first sync.Once
	end := func(why error) {
		first.Do(func() {
			err = why
			t.x.conn.drop()
			_ = t.x.client.Close() // hijack closes it again, which does nothing
		})
	}
	both.Add(1)
	panics.Go(t.panicked(), func() { end(t.copy(&t.x.conn.timed, &t.x.client.timed, client, nil)) }, both.Done)
	end(t.copy(&t.x.client.timed, &t.x.conn.timed, t.x.conn.br, &t.down))
	both.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (t *tunnel) panicked() panics.Handler { return t.x.client.guard.options.Panicked }

// copy writes to dst what it reads from r. r reads from src, whose deadlines are set.
func (t *tunnel) copy(dst, src *timed, r io.Reader, count *atomic.Int64) (err error) {
	defer panics.Recover(t.panicked(), func() { err = errPanic })
	piece := t.x.up.pieces.Get().(*[]byte)
	defer putBuffer(&t.x.up.pieces, piece)
	idle := t.x.up.config.Idle
	for {
		if err := src.waitRead(idle); err != nil {
			return err
		}
		n, err := r.Read(*piece)
		if n > 0 {
			t.seen.Store(time.Now().UnixNano())
			if _, err := dst.writeWithin((*piece)[:n], t.x.up.config.ClientWrite); err != nil {
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
