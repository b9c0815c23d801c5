package transport

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

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
