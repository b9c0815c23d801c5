package proxy

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite/chat"
)

// MaxWhole is the largest answer, in bytes, that is buffered.
const MaxWhole = 16 << 20

// isStream reports whether an answer is an event stream.
func isStream(answer *transport.Answer) bool {
	return bytes.HasPrefix(answer.Header(fasthttp.HeaderContentType), []byte("text/event-stream"))
}

// readWhole reads an answer into memory reserved from room. ok is false if body is incomplete: the
// answer is larger than MaxWhole, or was cut. The error is a *transport.Error of class NoRoom.
func readWhole(ans *transport.Answer, room transport.BodyMemory) (body []byte, ok bool, err error) {
	memory := &memory{BodyMemory: room}
	if body, ok = ans.Peek(MaxWhole, memory); memory.short {
		return nil, false, &transport.Error{Class: transport.NoRoom, Err: answer.ErrNoLoopRoom}
	}
	return body, ok, nil
}

// memory is a transport.BodyMemory that remembers whether a reservation failed.
type memory struct {
	transport.BodyMemory
	short bool
}

// Take implements transport.BodyMemory.
func (m *memory) Take(n int) bool {
	m.short = m.short || !m.BodyMemory.Take(n)
	return !m.short
}

// answerInstead returns a transport.Relay.Filter that replaces the upstream's body by body, then
// passes that through then, which may be nil.
func answerInstead(then func(io.Writer) io.WriteCloser, body []byte) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		if then == nil {
			return &replaced{w, body}
		}
		return &chained{replaced{nil, body}, then(w)}
	}
}

// replaced drops the upstream's body and writes another one.
type replaced struct {
	to   io.Writer
	body []byte
}

// Write implements io.Writer. It drops p.
func (w *replaced) Write(p []byte) (int, error) { return len(p), nil }

// Close writes the body.
func (w *replaced) Close() error {
	_, err := w.to.Write(w.body)
	return err
}

// chained is a replaced that also closes the writer it writes to.
type chained struct {
	replaced
	next io.WriteCloser
}

// Close implements io.Closer.
func (c *chained) Close() error {
	c.to = c.next
	if err := c.replaced.Close(); err != nil {
		return err
	}
	return c.next.Close()
}

// sendFixedAnswer answers with the policy's fixed text, in the shape that the request asked for.
// No upstream is called.
func (x *exchange) sendFixedAnswer(req *chat.Request, text string) {
	x.answerItself(x.fixedAnswer(req, req.Stream, text), req.Stream)
}

// fixedAnswer returns the body of an answer with a fixed text: an event stream or a JSON object.
func (x *exchange) fixedAnswer(req *chat.Request, stream bool, text string) []byte {
	f := answer.Fixed{API: req.API, ID: x.report.ID, Created: x.report.Time, Model: req.Model, Request: req.Body, Stream: stream, Text: text}
	if x.server.bodies != nil {
		x.ownAnswer = &answer.Text{Bytes: len(text), Text: text, Finish: f.Finish()}
	}
	return f.Append(nil)
}

// answerItself answers with a body that Sidenote wrote: an event stream or a JSON object.
func (x *exchange) answerItself(body []byte, stream bool) {
	r, h := &x.report, &x.ctx.Response.Header
	r.Status = fasthttp.StatusOK
	h.Set(report.HeaderID, r.ID)
	h.SetBytesV(report.HeaderStatus, report.AppendStatus(nil, r))
	if sources := report.AppendAllSources(nil, r); len(sources) > 0 {
		h.SetBytesV(report.HeaderSources, sources)
	}
	h.SetContentType("application/json")
	if stream {
		h.SetContentType("text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
	}
	x.ctx.Response.SetBodyRaw(body)
	r.TTFB = time.Since(r.Time)
}

// maxIdle is the largest buffer, in bytes, that is kept after Flush.
const maxIdle = 4 << 10

// An answerOut buffers the client's side of a stream until Flush.
type answerOut struct {
	bytes.Buffer
	Notes  bytes.Buffer // comments, written before the rest of the buffer
	To     io.Writer
	Broken error // set when nothing more may be written: a write failed, or an error was sent
}

// Flush writes the buffered notes and data.
func (o *answerOut) Flush() error {
	if o.Notes.Len() > 0 {
		o.Notes.Write(o.Bytes())
		o.Buffer, o.Notes = o.Notes, bytes.Buffer{}
	}
	if o.Len() == 0 {
		return nil
	}
	_, err := o.To.Write(o.Bytes())
	if err != nil {
		o.Broken = err
	}
	if o.Reset(); o.Cap() > maxIdle {
		o.Buffer = bytes.Buffer{}
	}
	return err
}

// Heartbeat is the interval of comments on an idle stream. Idle timeouts of clients and proxies are ten
// seconds or more.
const Heartbeat = 5 * time.Second

// WithHeartbeat runs do. Meanwhile it calls comment, first after the duration first and then every
// Heartbeat, to write something that clients ignore. comment may be nil. It is not running when
// WithHeartbeat returns. If comment fails it is not called again, and its error is returned.
func WithHeartbeat(panicked panics.Handler, first time.Duration, comment func() error, do func()) error {
	if comment == nil {
		panics.Guard(panicked, do)
		return nil
	}
	var mu sync.Mutex // guards over, err and comment
	var beats *time.Timer
	var over bool
	var err error
	tick := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if err = comment(); err == nil { // an error means that the client has left, which ends do
			beats.Reset(Heartbeat)
		}
	}
	mu.Lock()
	beats = panics.AfterFunc(panicked, first, tick)
	mu.Unlock()
	defer beats.Stop()
	panics.Guard(panicked, do)
	mu.Lock()
	defer mu.Unlock()
	over = true
	return err
}
