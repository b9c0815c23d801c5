package transport

import (
	"io"
	"time"

	"sidenote/proxy/transport/http1"
)

// maxDrained is how much of an answer's body Close reads to save a connection.
const maxDrained = 64 << 10

// An Answer is the head of an upstream's answer and a reader of its body. It is for one
// goroutine and must not be used after Relay or Close.
type Answer struct {
	x    *upstreamCall
	text *[]byte // what head points into
	head http1.AnswerHead
	body http1.Body
}

// Status returns the three-digit status code.
func (a *Answer) Status() int { return a.head.Status }

// Header returns the trimmed value of the first line of that name, in any letter case;
// nil if there is none. It is valid until Relay or Close.
func (a *Answer) Header(name string) []byte { return a.head.Field([]byte(name)) }

// Sent reports whether all of the request was sent: Call.Body is not read any more.
func (a *Answer) Sent() bool { return a.x.upload == nil || a.x.upload.complete() }

// Read implements io.Reader for the body. It waits at most Config.Idle.
func (a *Answer) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a body returns it as it is
		err = a.x.classify(err, IdleTimeout, Truncated)
	}
	return n, err
}

// Peek reads up to limit bytes of the body, so that a caller can read a short answer
// before it chooses between Close and Relay, which relays it as if there had been no
// Peek. whole says that body is all of it. It is false if there is more (if the head
// announces more, nothing is read), and if the upstream broke off or was silent for
// Config.Idle, which Relay then passes on as a cut. Peek waits for the end of the body
// as long as pieces of it arrive, so it is for answers that are expected to be short,
// such as errors.
//
// Memory beyond 64 KiB is taken from room, unless that is nil. Where there is none Peek stops, and
// whole is false; Relay passes on the whole body even so.
//
// body must not be changed. It stays valid after the Answer.
func (a *Answer) Peek(limit int, room Room) (body []byte, whole bool) {
	announced := 0
	if a.head.Kind == http1.BodyFixed {
		if a.head.Length > int64(limit) {
			return nil, false
		}
		announced = int(a.head.Length)
	}
	return a.body.Peek(limit, announced, room)
}

// Close drops what is left of the answer. A short remainder of the body is read so that
// the connection can be used again, otherwise it is closed. Close after Relay or Close
// does nothing.
func (a *Answer) Close() {
	if a.text == nil {
		return
	}
	a.body.DropPeeked()
	if !a.body.Ended() && a.head.Kind != http1.BodyUntilClose {
		a.x.conn.idle = min(a.x.up.config.Idle, time.Second)
		_, _ = io.CopyN(io.Discard, &a.body, maxDrained) // what counts is whether the body has ended
	}
	a.end(a.body.Ended())
}

// end ends the call. clean says that the body was read to its end.
func (a *Answer) end(clean bool) {
	a.x.end(clean && a.head.Reusable())
	a.free()
}

// free gives back the memory of the head. The call may go on.
func (a *Answer) free() {
	putBuffer(&a.x.up.heads, a.text)
	a.text = nil
}
