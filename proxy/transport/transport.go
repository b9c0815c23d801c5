// Package transport is what calls and answers are made of. Capture takes the head of a
// client's request, Upstream.Do sends a request with it to an upstream, Watch is a context
// that ends when the client leaves, and Reply answers the client. Answer.Relay is Reply
// with the upstream's answer: head lines, body bytes and framing stay as they came unless
// the caller changes them, and streams are relayed as they arrive. If the upstream's answer
// is cut, the client's is, too.
//
// It knows nothing of chat, tenants or policies. It logs nothing, does not retry a
// request of which one byte may have been sent, and follows no redirect.
package transport

import (
	"errors"
	"fmt"

	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// A Class names what went wrong between client and upstream. The list is
// closed: it is safe as a metrics label.
type Class string

// The classes. Do returns those of the first group, before an answer: nothing has been
// written to the client then. Those of the second end a body that is being relayed.
// Those of the third group occur in both, and some of them with ReadBody.
const (
	ConnectFailed    Class = "connect"            // refused, unreachable, no such host
	ConnectTimeout   Class = "connect_timeout"    // TCP or TLS took longer than Config.Connect
	TLSFailed        Class = "tls"                // handshake or certificate
	FirstByteTimeout Class = "first_byte_timeout" // no head of an answer within Config.FirstByte
	ClosedEarly      Class = "closed_early"       // connection lost before a whole head; the request may have been executed
	BadTarget        Class = "bad_target"         // a request target that cannot be forwarded: the client's fault
	BadResponse      Class = "bad_response"       // head or framing that two readers could read differently

	Truncated   Class = "truncated"    // the upstream ended inside a body
	IdleTimeout Class = "idle_timeout" // the upstream sent nothing for Config.Idle inside a body
	ClientSlow  Class = "client_slow"  // the client took nothing of what was written for Config.ClientWrite

	ClientGone Class = "client_gone" // the client hung up
	ClientBody Class = "client_body" // the client's own body is broken or short
	ClientLate Class = "client_late" // the client's own body came too slowly
	NoRoom     Class = "no_room"     // there is no memory for the client's body, see Room
	Closed     Class = "closed"      // Upstream.Close was called
	Internal   Class = "internal"    // a panic in Sidenote
)

// errPanic ends a call that met a panic. The log has its stack.
var errPanic = &Error{Internal, errors.New("panic")}

// ErrUnsent is the cause where a context ended before the upstream had been reached.
var ErrUnsent = errors.New("given up before anything was sent")

// An Error is the type of the errors that this package returns.
type Error struct {
	Class Class
	Err   error // the cause; never holds a header or a body
}

// Error describes the failure in one line. It is fit for a log, not for a client.
func (e *Error) Error() string { return fmt.Sprintf("upstream %s: %v", e.Class, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the upstream took too long, for which clients get a 504 and not
// a 502.
func (e *Error) Timeout() bool {
	return e.Class == ConnectTimeout || e.Class == FirstByteTimeout || e.Class == IdleTimeout
}

// ClassOf returns the class of err, "" for nil and for foreign errors.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ""
}

// A Header is one header line.
type Header = http1.Header

// A Raw opens the raw connection that reads and writes go through, see tcp.Opener.
type Raw = tcp.Opener

// A Room bounds the memory for bodies. The caller of ReadBody gives back what was taken when
// the handler has returned, or once Answer.Sent is true.
type Room = http1.Room
