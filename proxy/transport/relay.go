package transport

import (
	"errors"
	"io"
	"net"
	"os"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
)

// A Relay configures how an answer is relayed to the client. The zero value relays it unchanged.
type Relay struct {
	// Replace replaces header lines of the upstream, e.g. Sidenote-Status. At most 64.
	Replace []Header
	// AppendHeaders appends header lines after the upstream's, each after a line end: "\r\nA: b".
	// It may be nil.
	AppendHeaders func(head []byte) []byte
	// OnPiece is called with each piece of the body before it is sent to the client. It must be
	// fast and must not keep or change the piece.
	OnPiece func(piece []byte)
	// Filter returns a writer that filters the body on its way to w, the client. It is closed when
	// the body has ended or was cut, to flush the rest. The length may change, so the client is not
	// told it. Nil: no filter.
	Filter func(w io.Writer) io.WriteCloser
	// KeepBody keeps the memory of ReadBody until the handler returns, because Filter reads it.
	KeepBody bool
	// Done is called once, when the last byte was written to the client's connection or the relay
	// failed. That is within Relay, except for an answer that switches to another protocol: then it
	// is after the handler has returned, and Done must not use the handler's RequestCtx.
	Done func(Outcome)

	through io.WriteCloser // returned by Filter
}

// An Outcome is how a relayed answer ended.
type Outcome struct {
	Bytes int64 // body bytes passed to the client
	Err   error // nil if complete, otherwise an *Error
}

func (how *Relay) done(panicked panics.Handler, o Outcome) {
	defer panics.Recover(panicked, nil)
	if how.Done != nil {
		how.Done(o)
	}
}

// Relay answers ctx's request with the upstream's answer. Status and header lines stay the same,
// except those of a single connection; each piece of the body is sent as it arrives. Call it last
// in the handler, as it may free the memory of ReadBody.
func (a *Answer) Relay(ctx *fasthttp.RequestCtx, how Relay) {
	if a.head.Status == 101 {
		a.relayUpgrade(ctx, how)
		return
	}
	x, client := a.x, clientOf(ctx)
	head := a.replyHead(client, &how)
	if a.head.Kind == http1.BodyFixed && how.Filter == nil {
		head.Length = a.head.Length
	}
	keep := a.head.Reusable()
	var readErr error
	err := Reply(ctx, head, func(w *ReplyWriter) error {
		a.free() // the writer has a copy, and a stream may be open for long
		if how.Filter != nil {
			how.through = how.Filter(w)
		}
		return a.copy(w, &how, &readErr)
	})
	x.end(err == nil && keep)
	how.done(client.guard.options.Panicked, Outcome{client.state.reply.bytes, x.relayError(err, readErr)})
}

// replyHead returns the head for the client, with an unknown body length.
func (a *Answer) replyHead(client *clientConn, how *Relay) ReplyHead {
	x := a.x
	client.flush = x.up.config.ClientWrite
	if x.upload != nil && x.upload.rest != nil {
		client.state.bodyRead = x.upload.complete()
	}
	if a.Sent() && !how.KeepBody { // else memory that is still being sent would be freed
		client.freeBody()
	}
	lines := func(dst []byte) []byte { return a.appendLines(dst, how) }
	return ReplyHead{Status: a.head.Status, Lines: lines, Length: -1, NoBody: a.head.Kind == http1.BodyNone}
}

// appendLines appends the reason and the header lines for the client.
func (a *Answer) appendLines(dst []byte, how *Relay) []byte {
	dst = a.head.Append(dst, how.Replace)
	if how.AppendHeaders != nil {
		dst = how.AppendHeaders(dst)
	}
	return dst
}

// ReplyWith answers ctx's request with the upstream's head and a body by write, which may read the
// answer, must close it, and may make other calls. The head is sent with the first piece. OnPiece
// and Filter of how are not called. Call ReplyWith last in the handler, like Relay.
func (a *Answer) ReplyWith(ctx *fasthttp.RequestCtx, how Relay, write func(w *ReplyWriter) error) {
	x, client := a.x, clientOf(ctx)
	err := Reply(ctx, a.replyHead(client, &how), write)
	a.Close()
	how.done(client.guard.options.Panicked, Outcome{client.state.reply.bytes, x.relayError(err, nil)})
}

// relayError returns what ended a relay as an *Error. readErr is the error of reading from the
// upstream, or nil.
func (x *upstreamCall) relayError(err, readErr error) error {
	switch {
	case err == nil, errors.Is(err, errPanic), ClassOf(err) != "":
		return err
	case readErr != nil:
		return x.classify(readErr, IdleTimeout, Truncated)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{ClientSlow, errors.New("client does not read")}
	case x.up.closed(): // at the end of a shutdown, which also cuts clients, see Server.Cut
		return &Error{Closed, net.ErrClosed}
	}
	return &Error{ClientGone, errors.New("client hung up")}
}

// copy relays the body. If reading it fails, readErr is set too.
func (a *Answer) copy(w *ReplyWriter, how *Relay, readErr *error) error {
	err := a.copyPieces(w, how, readErr)
	if how.through != nil {
		if closeErr := how.through.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		return err
	}
	return w.end(a.body.RelayedTrailer(how.Replace))
}

// copyPieces relays the body without its end.
//
// It takes a buffer only when there is something to read; until then it waits with the connection's
// small reader. After a large piece it does not wait first, because the next piece will probably
// fill a buffer too.
func (a *Answer) copyPieces(w *ReplyWriter, how *Relay, readErr *error) error {
	if !a.body.Ready() { // the head does not wait for the body
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for large := false; !a.body.Ended(); {
		if !large {
			if *readErr = a.body.Wait(); *readErr != nil {
				return *readErr
			}
		}
		n, err := a.copyPiece(w, how, readErr)
		if err != nil {
			return err
		}
		large = n >= readerSize/2
	}
	return nil
}

func (a *Answer) copyPiece(w *ReplyWriter, how *Relay, readErr *error) (n int, err error) {
	piece := w.client.guard.pieces.Get().(*[]byte)
	defer putBuffer(&w.client.guard.pieces, piece)
	n, err = a.body.Read(http1.DataOf(*piece))
	if n > 0 {
		if how.OnPiece != nil {
			how.OnPiece(http1.DataOf(*piece)[:n])
		}
		var passErr error
		if how.through == nil {
			passErr = w.pass(*piece, n, a.body.Ended() && !a.body.HasTrailer())
		} else if _, passErr = how.through.Write(http1.DataOf(*piece)[:n]); passErr == nil {
			passErr = w.Flush() // the head does not wait for a whole event
		}
		if passErr != nil {
			return n, passErr
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		*readErr = err
		return n, err
	}
	return n, nil
}
