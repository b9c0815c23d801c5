// Package transport carries requests and answers between clients, Sidenote and upstreams. Capture
// takes the head of a client's request, Upstream.Do sends a request with it to an upstream, Watch
// is a context that ends when the client leaves, and Reply answers the client. Answer.Relay replies
// with the upstream's answer: header lines, body bytes and framing stay the same unless the caller
// changes them, and streams are relayed as they arrive. If the upstream's answer is cut, so is the
// client's.
//
// It knows nothing of chats, tenants or policies. It does not log, does not retry a request of
// which a byte may have been sent, and does not follow redirects.
package transport

import (
	"errors"
	"fmt"
	"time"

	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// A Class names what went wrong between client and upstream. The set of values is closed, so it can
// be a metrics label.
type Class string

// The classes. Do returns those of the first group before an answer, when nothing has been written
// to the client. Those of the second end a body that is being relayed. Those of the third group
// occur in both, and some of them in ReadBody.
const (
	ConnectFailed    Class = "connect"            // refused, unreachable, no such host
	ConnectTimeout   Class = "connect_timeout"    // TCP or TLS took longer than Config.Connect
	TLSFailed        Class = "tls"                // handshake or certificate
	FirstByteTimeout Class = "first_byte_timeout" // no head of an answer within Config.FirstByte
	ClosedEarly      Class = "closed_early"       // connection lost before the head was complete; the request may have been executed
	BadTarget        Class = "bad_target"         // the request target cannot be forwarded: the client's fault
	BadResponse      Class = "bad_response"       // ambiguous or malformed head or framing

	Truncated   Class = "truncated"    // the upstream ended inside a body
	IdleTimeout Class = "idle_timeout" // the upstream sent nothing for Config.Idle inside a body
	ClientSlow  Class = "client_slow"  // the client accepted nothing for Config.ClientWrite

	ClientGone Class = "client_gone" // the client hung up
	ClientBody Class = "client_body" // the client's body is malformed or short
	ClientLate Class = "client_late" // the client's body came too slowly
	NoRoom     Class = "no_room"     // no memory for the client's body, see BodyMemory
	Closed     Class = "closed"      // Upstream.Close was called
	Internal   Class = "internal"    // a panic in Sidenote
)

// errPanic ends a call that panicked. The log has the stack.
var errPanic = &Error{Internal, errors.New("panic")}

// ErrUnsent is the cause if a context ended before the upstream was reached.
var ErrUnsent = errors.New("canceled before the request was sent")

// An Error is an error returned by this package.
type Error struct {
	Class Class
	Err   error // the cause; never holds a header or a body
}

// Error describes the failure in one line, for logs but not for clients.
func (e *Error) Error() string { return fmt.Sprintf("upstream %s: %v", e.Class, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the upstream took too long; clients then get a 504 instead of a 502.
func (e *Error) Timeout() bool {
	return e.Class == ConnectTimeout || e.Class == FirstByteTimeout || e.Class == IdleTimeout
}

// Upstream reports whether the upstream is at fault, or the way to it.
func (c Class) Upstream() bool {
	switch c {
	case ConnectFailed, ConnectTimeout, TLSFailed, FirstByteTimeout, ClosedEarly, BadResponse, Truncated, IdleTimeout:
		return true
	}
	return false
}

// Unsent reports whether err says that no connection was made, so that nothing reached the upstream.
func Unsent(err error) bool {
	switch ClassOf(err) {
	case ConnectFailed, ConnectTimeout, TLSFailed:
		return true
	}
	return false
}

// An Expired is the cause of an error if a limit of Config was exceeded.
type Expired struct {
	Limit time.Duration
	Err   error
}

// Error names the limit.
func (e *Expired) Error() string { return fmt.Sprintf("nothing within %s", e.Limit) }

// Unwrap returns the cause.
func (e *Expired) Unwrap() error { return e.Err }

// LimitOf returns the limit that was exceeded, 0 if err has another cause.
func LimitOf(err error) time.Duration {
	if e, ok := errors.AsType[*Expired](err); ok {
		return e.Limit
	}
	return 0
}

// ClassOf returns the class of err, "" for nil and foreign errors.
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

// A BodyMemory limits the memory for bodies. The caller of ReadBody gives back what was taken when
// the handler has returned, or once Answer.Sent is true.
type BodyMemory = http1.BodyMemory
