package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
)

// maxDiscard is how much of an answer's body Discard reads to save a connection.
const maxDiscard = 64 << 10

// A Response is the head of an upstream's answer, its body still to come.
// It is used by one goroutine, within the handler, and is dead after Relay or
// Discard.
type Response struct {
	x    *exchange
	text *[]byte // what head points into
	head answerHead
	body body
}

// Status is the three-digit status code.
func (r *Response) Status() int { return r.head.status }

// Header returns the value of the first line of that name, in any letter case,
// trimmed; nil without one. It is valid until Relay or Discard.
func (r *Response) Header(name string) []byte { return r.head.field([]byte(name)) }

// Sent reports whether all of the request went up: Request.Body is not looked at
// any more, unless it is sent again.
func (r *Response) Sent() bool { return r.x.upload == nil || r.x.upload.complete() }

// Peek reads the body ahead, up to limit bytes, so that a handler can look at a
// short answer before it chooses between Relay, which passes it on as if nobody
// had looked, and Discard. whole says that body is all of it. It is false when
// there is more (of a body that announces more, nothing is read), and when the
// upstream broke off or was silent for Config.Idle, which Relay then shows as
// the cut it is. Peek waits for a body's end as long as pieces of it arrive: it
// is for answers that one expects to be short, such as errors.
//
// body must not be changed. It outlives the Response.
func (r *Response) Peek(limit int) (body []byte, whole bool) {
	announced := 0
	if r.head.kind == bodyFixed {
		if r.head.length > int64(limit) {
			return nil, false
		}
		announced = int(r.head.length)
	}
	return r.body.peek(limit, announced)
}

// Discard drops the answer. A short remainder of the body is read so that the
// connection can be used again, otherwise it is closed.
func (r *Response) Discard() {
	r.body.dropAhead()
	if !r.body.ended() && r.head.kind != bodyUntilClose {
		r.x.conn.idle = min(r.x.up.config.Idle, time.Second)
		_, _ = io.CopyN(io.Discard, &r.body, maxDiscard) // what matters is where it ended
	}
	r.x.end(r.body.ended() && r.head.reusable())
	r.free()
}

// free ends the life of r, while that of the exchange may go on.
func (r *Response) free() {
	x := r.x
	state := stateOf(x.ctx)
	if x.upload != nil {
		complete := x.upload.complete()
		state.bodyRead = state.bodyRead || complete && x.upload.rest != nil
		state.lent = !complete
	}
	give(&x.up.heads, r.text)
	r.text = nil
}

// A Relay says what happens on an answer's way down. The zero value passes it on.
type Relay struct {
	// Replace puts lines in the place of the upstream's, e.g. Sidenote-Status.
	// At most 64.
	Replace []Header
	// Tap sees each piece of the body before the client does. It must not keep
	// or change it, and must be quick.
	Tap func(piece []byte)
	// Done is called once, when the last byte was handed to the client's
	// connection or the relay failed: within Relay, or after the handler has
	// returned. It must not touch the handler's RequestCtx.
	Done func(Outcome)
}

// An Outcome is how a relayed answer ended.
type Outcome struct {
	Bytes int64 // of the body, as passed to the client
	Err   error // nil: complete. Otherwise an *Error
}

func (how *Relay) done(panicked panics.Handler, o Outcome) {
	defer panics.Recover(panicked, nil)
	if how.Done != nil {
		how.Done(o)
	}
}

// Relay makes ctx's response out of the answer: status and head lines as they
// came, but for those that concern one connection only, and a body that flows
// after the handler has returned, each piece flushed as it arrives. Call it
// last in the handler; lines set on ctx.Response before are kept.
func (r *Response) Relay(ctx *fasthttp.RequestCtx, how Relay) {
	if r.head.status == 101 {
		r.relayUpgrade(ctx, how)
		return
	}
	r.writeHead(ctx, how.Replace)
	x, body, keep := r.x, r.body, r.head.reusable()
	panicked := x.client.guard.options.Panicked
	size := -1
	if r.head.kind == bodyFixed {
		size = int(r.head.length)
	}
	// From here on there may be more to come from the client than will be read.
	early := x.upload != nil && !x.upload.finished()
	r.free()
	if body.ended() {
		x.end(keep)
		how.done(panicked, Outcome{})
		return
	}
	s := &x.stream
	*s = stream{x: x, body: body, reusable: keep, how: how}
	switch {
	case size < 0 && !ctx.Request.Header.IsHTTP11():
		relayUntilClose(ctx, s)
	default:
		s.header = &ctx.Response.Header
		ctx.Response.ImmediateHeaderFlush = !s.body.ready()
		ctx.Response.SetBodyStream(s, size)
		if early {
			hijackResponse(ctx)
		}
	}
}

// writeHead makes fasthttp write the upstream's lines as they came.
//
// Its own setters would reorder lines, collapse doubled ones and drop Date.
// But the reason is written as it stands in memory, right after the status
// code; so the lines go there. SetStatusMessage makes room: of zeros, as it would
// look at each byte after the first line end to blank out others.
func (r *Response) writeHead(ctx *fasthttp.RequestCtx, replace []Header) {
	read := len(*r.text)
	*r.text = r.head.append(*r.text, replace)
	size := len(*r.text) - read
	*r.text = append(*r.text, make([]byte, size)...)
	header := &ctx.Response.Header
	header.SetStatusCode(r.head.status)
	header.SetStatusMessage((*r.text)[read+size:])
	copy(header.StatusMessage(), (*r.text)[read:])
}

// A stream is a relayed body: fasthttp calls WriteTo, then CloseWithError. A tunnel
// ends like one.
type stream struct {
	x        *exchange                // nil before it begins and when it has ended
	header   *fasthttp.ResponseHeader // takes the trailer while WriteTo runs; nil for who knows no chunks
	body     body
	reusable bool // the connection, after a clean end
	how      Relay
	bytes    int64
	bulk     bool  // the last piece was large
	err      error // of reading the upstream
}

// SupportsBodyWriteTo tells fasthttp to call WriteTo, which can flush.
func (s *stream) SupportsBodyWriteTo() bool { return true }

// Read implements io.Reader, which fasthttp asks of every body.
func (s *stream) Read(p []byte) (int, error) { return s.body.Read(p) }

// WriteTo passes the body to w, piece by piece, until its clean end. An error
// makes fasthttp close the client's connection without the terminal chunk, so
// that a cut stays a cut.
func (s *stream) WriteTo(w io.Writer) (_ int64, err error) {
	defer panics.Recover(s.x.client.guard.options.Panicked, func() { s.err, err = errPanic, errPanic })
	for {
		end, err := s.step(w)
		if err != nil {
			return s.bytes, err
		}
		if end {
			s.passTrailer()
			return s.bytes, nil
		}
	}
}

// unwritten reports whether fasthttp cannot write a line of that name in a trailer.
func unwritten(name []byte) bool { return is(name, "date") || is(name, "set-cookie") }

// passTrailer hands the upstream's trailer to fasthttp, which writes it behind the
// last chunk, and refuses lines that have no place there; Date and Set-Cookie it could
// not write. Lines that Relay replaces do not come in by this door.
func (s *stream) passTrailer() {
	if s.header == nil || len(s.body.trailer) == 0 {
		return
	}
	s.header.DisableNormalizing() // the head is written
	for line, rest, ok := cutLine(s.body.trailer); ok; line, rest, ok = cutLine(rest) {
		name, value, ok := cutField(line)
		if !ok || !validToken(name) || !validText(value) || kindOf(name).hopByHop() || replaced(s.how.Replace, name) >= 0 || unwritten(name) {
			continue
		}
		if before := s.header.PeekBytes(name); len(before) > 0 {
			value = slices.Concat(before, []byte(", "), value)
		} else if s.header.AddTrailerBytes(name) != nil {
			continue
		}
		s.header.SetBytesKV(name, value)
	}
}

// step passes one piece. It waits for it with nothing but the connection's
// small reader, and takes a buffer only when there is something to carry or
// when pieces come so large that they fill one.
func (s *stream) step(w io.Writer) (end bool, err error) {
	if !s.bulk {
		if s.err = s.body.wait(); s.err != nil {
			return false, s.err
		}
	}
	piece := s.x.up.pieces.Get().(*[]byte)
	defer give(&s.x.up.pieces, piece)
	n, err := s.body.Read(*piece)
	s.bulk = n >= readerSize/2
	if n > 0 {
		if err := s.pass(w, (*piece)[:n]); err != nil {
			return false, err
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
		return false, err
	}
	return s.body.ended(), nil
}

func (s *stream) pass(w io.Writer, piece []byte) error {
	if s.how.Tap != nil {
		s.how.Tap(piece)
	}
	if _, err := w.Write(piece); err != nil {
		return err
	}
	s.bytes += int64(len(piece))
	// fasthttp flushes chunks by itself, and the end of every body.
	if f, ok := w.(interface{ Flush() error }); ok && !s.body.ended() {
		return f.Flush()
	}
	return nil
}

// CloseWithError ends the exchange; writeErr is that of writing to the client,
// or what WriteTo returned. Further calls do nothing.
func (s *stream) CloseWithError(writeErr error) error {
	x, how, outcome := s.x, s.how, Outcome{Bytes: s.bytes}
	if x == nil {
		return nil
	}
	clean := s.err == nil && writeErr == nil && s.body.ended()
	x.end(clean && s.reusable)
	switch {
	case clean:
	case s.err != nil:
		outcome.Err = x.classify(s.err, IdleTimeout, Truncated)
	case errors.Is(writeErr, os.ErrDeadlineExceeded):
		outcome.Err = &Error{ClientSlow, errors.New("client does not read")}
	case s.x.up.closed(): // and the client's connection with it, see Server.Cut
		outcome.Err = &Error{Closed, net.ErrClosed}
	default:
		outcome.Err = &Error{ClientGone, errors.New("client hung up")}
	}
	*s = stream{} // a connection may be silent for long, and its exchange keeps nothing
	how.done(x.client.guard.options.Panicked, outcome)
	return nil
}
