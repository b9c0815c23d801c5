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

// A Response is the head of an upstream's answer; its body is still to be read. It is
// for one goroutine, within the handler, and must not be used after Relay or Discard.
type Response struct {
	x    *upstreamCall
	text *[]byte // what head points into
	head answerHead
	body body
}

// Status returns the three-digit status code.
func (r *Response) Status() int { return r.head.status }

// Header returns the trimmed value of the first line of that name, in any letter case;
// nil if there is none. It is valid until Relay or Discard.
func (r *Response) Header(name string) []byte { return r.head.field([]byte(name)) }

// Sent reports whether all of the request was sent: Request.Body is not read any more,
// unless the caller sends it again.
func (r *Response) Sent() bool { return r.x.upload == nil || r.x.upload.complete() }

// Peek reads up to limit bytes of the body, so that a handler can read a short answer
// before it chooses between Discard and Relay, which relays it as if there had been no
// Peek. whole says that body is all of it. It is false if there is more (if the head
// announces more, nothing is read), and if the upstream broke off or was silent for
// Config.Idle, which Relay then passes on as a cut. Peek waits for the end of the body
// as long as pieces of it arrive, so it is for answers that are expected to be short,
// such as errors.
//
// body must not be changed. It stays valid after the Response.
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
	r.body.dropPeeked()
	if !r.body.ended() && r.head.kind != bodyUntilClose {
		r.x.conn.idle = min(r.x.up.config.Idle, time.Second)
		_, _ = io.CopyN(io.Discard, &r.body, maxDiscard) // what counts is whether the body has ended
	}
	r.x.end(r.body.ended() && r.head.reusable())
	r.free()
}

// free gives back r's memory. The upstreamCall may go on.
func (r *Response) free() {
	x := r.x
	state := stateOf(x.ctx)
	if x.upload != nil {
		complete := x.upload.complete()
		state.bodyRead = state.bodyRead || complete && x.upload.rest != nil
		state.bodyInUse = !complete
	}
	putBuffer(&x.up.heads, r.text)
	r.text = nil
}

// A Relay says what happens to an answer on its way to the client. The zero value
// relays it unchanged.
type Relay struct {
	// Replace puts lines in place of the upstream's, e.g. Sidenote-Status. At most 64.
	Replace []Header
	// Tap gets each piece of the body before the client does. It must not keep or
	// change it, and must be quick.
	Tap func(piece []byte)
	// Done is called once, when the last byte was written to the client's connection
	// or the relay failed: within Relay, or after the handler has returned. It must not
	// use the handler's RequestCtx.
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

// Relay makes the answer ctx's response. Status and head lines stay as they came, except
// those that concern one connection only. The body is relayed after the handler has
// returned, each piece flushed as it arrives. Call it last in the handler; lines set on
// ctx.Response before are kept.
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
	// If the body is still being sent, not all that the client sends may be read.
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
// Its setters would reorder lines, collapse doubled ones and drop Date. But it writes
// the reason as it stands in memory, right after the status code, so the lines are put
// there. SetStatusMessage allocates the memory. It is given zeros, as it would check
// each byte after a line end to blank out others; then the lines are copied over them.
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

// A stream is a body that is being relayed: fasthttp calls WriteTo, then CloseWithError.
// A tunnel uses it for its end.
type stream struct {
	x        *upstreamCall            // nil before the stream begins and after it has ended
	header   *fasthttp.ResponseHeader // takes the trailer while WriteTo runs; nil for a client that cannot read chunks
	body     body
	reusable bool // the connection can be used again after a clean end
	how      Relay
	bytes    int64
	bulk     bool  // the last piece was large
	err      error // of reading the upstream
}

// SupportsBodyWriteTo tells fasthttp to call WriteTo instead of Read: WriteTo can flush.
func (s *stream) SupportsBodyWriteTo() bool { return true }

// Read implements io.Reader, which fasthttp demands of every body.
func (s *stream) Read(p []byte) (int, error) { return s.body.Read(p) }

// WriteTo writes the body to w, piece by piece, until its clean end. After an error
// fasthttp closes the client's connection without the last chunk, so that the client
// notices the cut.
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

// unsupportedTrailer reports whether fasthttp cannot write a line of that name in a
// trailer.
func unsupportedTrailer(name []byte) bool { return is(name, "date") || is(name, "set-cookie") }

// passTrailer hands the upstream's trailer to fasthttp, which writes it after the last
// chunk. It leaves out lines that are not allowed in a trailer, those that fasthttp
// cannot write (Date and Set-Cookie) and those that Relay replaces.
func (s *stream) passTrailer() {
	if s.header == nil || len(s.body.trailer) == 0 {
		return
	}
	s.header.DisableNormalizing() // the head is written already, so this concerns the trailer only
	for line, rest, ok := cutLine(s.body.trailer); ok; line, rest, ok = cutLine(rest) {
		name, value, ok := cutField(line)
		if !ok || !validToken(name) || !validText(value) || kindOf(name).hopByHop() || replaced(s.how.Replace, name) >= 0 || unsupportedTrailer(name) {
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

// step relays one piece. It takes a buffer only when there is something to read; until
// then it waits with the connection's small reader. After a large piece it does not
// wait first, as the next one will most likely fill a buffer, too.
func (s *stream) step(w io.Writer) (end bool, err error) {
	if !s.bulk {
		if s.err = s.body.wait(); s.err != nil {
			return false, s.err
		}
	}
	piece := s.x.up.pieces.Get().(*[]byte)
	defer putBuffer(&s.x.up.pieces, piece)
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
	// fasthttp itself flushes chunks and the end of every body.
	if f, ok := w.(interface{ Flush() error }); ok && !s.body.ended() {
		return f.Flush()
	}
	return nil
}

// CloseWithError ends the call. writeErr is the error of writing to the client, or what
// WriteTo returned. Further calls do nothing.
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
	case s.x.up.closed(): // at the end of a shutdown, which also cuts clients, see Server.Cut
		outcome.Err = &Error{Closed, net.ErrClosed}
	default:
		outcome.Err = &Error{ClientGone, errors.New("client hung up")}
	}
	*s = stream{} // frees the memory: the connection may now be idle for long
	how.done(x.client.guard.options.Panicked, outcome)
	return nil
}
