package transport

import (
	"io"
	"time"

	"sidenote/proxy/transport/http1"
)

// maxDrained is how many bytes of a body Close reads to keep a connection usable.
const maxDrained = 64 << 10

// An Answer is the head of an upstream's answer and a reader of its body. It is not safe for
// concurrent use and must not be used after Relay or Close.
type Answer struct {
	x    *upstreamCall
	text *[]byte // backing memory of head
	head http1.AnswerHead
	body http1.Body
}

// Status returns the three-digit status code.
func (a *Answer) Status() int { return a.head.Status }

// Header returns the trimmed value of the first line with that name, ignoring case, or nil if there
// is none. It is valid until Relay or Close.
func (a *Answer) Header(name string) []byte { return a.head.Field([]byte(name)) }

// Sent reports whether the whole request was sent, so that Call.Body is no longer read.
func (a *Answer) Sent() bool { return a.x.upload == nil || a.x.upload.complete() }

// Read implements io.Reader for the body. It waits for at most Config.Idle.
func (a *Answer) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a body returns it as it is
		err = a.x.classify(err, IdleTimeout, Truncated)
	}
	return n, err
}

// Peek reads up to limit bytes of the body without consuming them: the caller can read a short
// answer before it chooses between Close and Relay. whole reports that body is all of it. It is
// false if there is more (nothing is read if the head announces more), and if the upstream broke
// off or was silent for Config.Idle; Relay then cuts the client's answer as well. Peek waits for
// the end of the body as long as data arrives, so use it for answers that should be short, such as
// errors.
//
// Memory beyond 64 KiB is reserved from room, unless that is nil. If there is none, Peek stops and
// whole is false; Relay still relays the whole body.
//
// body must not be changed. It stays valid after Close or Relay.
func (a *Answer) Peek(limit int, room BodyMemory) (body []byte, whole bool) {
	announced := 0
	if a.head.Kind == http1.BodyFixed {
		if a.head.Length > int64(limit) {
			return nil, false
		}
		announced = int(a.head.Length)
	}
	return a.body.Peek(limit, announced, room)
}

// Close discards the rest of the answer. It reads a short rest so that the connection can be
// reused; otherwise it closes the connection. After Relay or Close it does nothing.
func (a *Answer) Close() {
	if a.text == nil {
		return
	}
	a.body.DropPeeked()
	if !a.body.Ended() && a.head.Kind != http1.BodyUntilClose {
		a.x.conn.idle = min(a.x.up.config.Idle, time.Second)
		_, _ = io.CopyN(io.Discard, &a.body, maxDrained) // only a.body.Ended matters
	}
	a.end(a.body.Ended())
}

// end ends the call. clean reports that the body was read to its end.
func (a *Answer) end(clean bool) {
	a.x.end(clean && a.head.Reusable())
	a.free()
}

// free releases the memory of the head. The call may go on.
func (a *Answer) free() {
	putBuffer(&a.x.up.heads, a.text)
	a.text = nil
}
