package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
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

// A ReplyHead is the head of an answer. Framing and Connection lines are added to it.
type ReplyHead struct {
	Status int
	// Lines appends the reason and the header lines, each line after a line end: "OK\r\nA: b".
	Lines  func(head []byte) []byte
	Length int64 // length of the body; negative if unknown
	NoBody bool  // the answer has no body (HEAD, 204, 304), and Lines may include a length
}

// A ReplyWriter writes an answer's body in framing that the client can read.
type ReplyWriter struct {
	client   *clientConn
	head     []byte // empty once written
	framing  replyFraming
	bytes    int64 // body bytes passed to the client
	ended    bool  // the last chunk was written
	writeErr error
}

type replyFraming int

const (
	replyFixed replyFraming = iota
	replyChunked
	replyUntilClose // for HTTP/1.0 clients, which cannot read chunks
)

// Reply answers the request of ctx with a body by write. If write fails or panics, or the client
// stops reading, the client's connection is closed, so that the client notices the cut. Call it in
// the handler, once per request; later changes to ctx.Response are ignored.
func Reply(ctx *fasthttp.RequestCtx, head ReplyHead, write func(*ReplyWriter) error) (err error) {
	client := clientOf(ctx)
	w := &client.state.reply
	*w = ReplyWriter{client: client, head: w.head[:0]}
	w.begin(ctx, head)
	client.replied = true
	defer func() {
		if err == nil {
			return
		}
		client.cut = true
		ctx.SetConnectionClose()
		if w.framing == replyUntilClose {
			tcp.Reset(client) // a normal close would look like the end of the body
		}
	}()
	defer panics.Recover(client.guard.options.Panicked, func() { err = errPanic })
	if err := write(w); err != nil {
		return err
	}
	return w.end(nil)
}

// begin prepares the head.
func (w *ReplyWriter) begin(ctx *fasthttp.RequestCtx, head ReplyHead) {
	old := !ctx.Request.Header.IsHTTP11()
	b := append(w.head, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(head.Status), 10)
	b = append(head.Lines(append(b, ' ')), "\r\n"...)
	switch {
	case head.NoBody:
	case head.Length >= 0:
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), head.Length, 10), "\r\n"...)
	case old:
		w.framing = replyUntilClose
	default:
		w.framing = replyChunked
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	switch {
	case w.framing == replyUntilClose || w.client.closes(ctx):
		ctx.SetConnectionClose()
		b = append(b, "Connection: close\r\n"...)
	case old:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	w.head = append(b, "\r\n"...)
}

// Write implements io.Writer. Each piece is sent at once.
func (w *ReplyWriter) Write(p []byte) (n int, err error) {
	piece := w.client.guard.pieces.Get().(*[]byte)
	defer putBuffer(&w.client.guard.pieces, piece)
	for n < len(p) {
		part := copy(http1.DataOf(*piece), p[n:])
		if err := w.pass(*piece, part, false); err != nil {
			return n, err
		}
		n += part
	}
	return n, nil
}

// pass writes the n bytes of data in piece, see http1.DataOf. last reports that the body ends with
// them.
func (w *ReplyWriter) pass(piece []byte, n int, last bool) error {
	out := piece[http1.FrameRoom : http1.FrameRoom+n]
	if w.framing == replyChunked {
		out = http1.ChunkIn(piece, n)
		if last {
			out, w.ended = append(out, http1.LastChunk...), true
		}
	}
	if len(w.head) > 0 && len(w.head)+len(out) <= maxCopied {
		w.head, out = append(w.head, out...), nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.send(out); err != nil {
		return err
	}
	w.bytes += int64(n)
	return nil
}

// Flush writes the rest of the head.
func (w *ReplyWriter) Flush() error {
	err := w.send(w.head)
	w.head = w.head[:0]
	return err
}

func (w *ReplyWriter) send(p []byte) error {
	if len(p) > 0 && w.writeErr == nil {
		_, w.writeErr = w.client.WriteWithin(p, w.client.flush)
	}
	return w.writeErr
}

// end ends the body. trailer holds complete lines.
func (w *ReplyWriter) end(trailer []byte) error {
	if w.framing == replyChunked && !w.ended {
		w.ended = true
		w.head = append(append(append(w.head, "0\r\n"...), trailer...), "\r\n"...)
	}
	return w.Flush()
}
