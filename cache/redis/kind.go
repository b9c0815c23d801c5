package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// A Kind says why a call failed. It is from a closed list and a metric label.
type Kind string

// The kinds of failure.
const (
	Refused    Kind = "refused"     // no connection, or it was lost
	Timeout    Kind = "timeout"     // no answer in time
	Pool       Kind = "pool"        // no free connection in time: too many calls, so not a failure of Redis
	Protocol   Kind = "protocol"    // the server is not a Redis, or sends wrong lengths
	TLS        Kind = "tls"         // the handshake failed
	Denied     Kind = "denied"      // no or wrong password, or missing permissions
	Busy       Kind = "busy"        // loading, a script that does not end, too many clients, or no master
	Memory     Kind = "memory"      // full and configured not to evict: writes fail
	ReadOnly   Kind = "readonly"    // a replica, or a disk that cannot be written: writes fail
	Type       Kind = "type"        // the key holds a list or another type, which is somebody else's data
	TooLarge   Kind = "too_large"   // the value exceeds the limit
	Dropped    Kind = "dropped"     // a write dropped because too many were queued
	Other      Kind = "other"       // any other error reply
	callerGone Kind = "caller_gone" // the caller's time was up; not a failure of Redis, and not counted
)

// opensBreaker reports whether other calls are likely to fail, too, so that none should be made
// for a while. A refused write says nothing about reads. An exhausted pool means that Redis is
// used heavily; not using it would turn that into an outage.
func (k Kind) opensBreaker(op string) bool {
	switch k {
	case Refused, Timeout, Protocol, TLS:
		return true
	case Denied, Busy, Other:
		return op == opGet
	}
	return false
}

// isReported reports whether a failure is reported even though the breaker stays closed.
func (k Kind) isReported() bool {
	switch k {
	case Denied, Busy, Memory, ReadOnly, Other:
		return true
	}
	return false
}

// kindOf returns the kind of a call's error.
func kindOf(err error) Kind {
	var reply goredis.Error
	var handshake *handshakeError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrClosed):
		return callerGone
	case errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return Pool
	case errors.Is(err, errNoRedis):
		return Protocol
	case errors.As(err, &handshake):
		return TLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return Timeout
	case errors.As(err, &reply):
		return replyKind(reply.Error())
	case isMismatched(err):
		return Protocol
	case strings.Contains(err.Error(), "tls: "): // an alert after the handshake, which has no type
		return TLS
	}
	return Refused
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// isMismatched recognises the library's errors for a well-formed reply that does not fit the
// command.
func isMismatched(err error) bool {
	var number *strconv.NumError
	return errors.As(err, &number) || slices.ContainsFunc([]string{"can't", "invalid", "got", "the length", "unexpected"}, func(word string) bool {
		return strings.Contains(err.Error(), "redis: "+word+" ")
	})
}

// replyKind returns the kind of an error reply by its first word.
func replyKind(text string) Kind {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return Denied
	case "BUSY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK":
		return Busy
	case "OOM":
		return Memory
	case "READONLY", "MISCONF", "NOREPLICAS":
		return ReadOnly
	case "WRONGTYPE":
		return Type
	case "ERR":
		switch {
		case strings.HasPrefix(rest, "max number of clients"):
			return Busy
		case strings.Contains(rest, "without any password configured"), strings.Contains(rest, "no password is set"), strings.Contains(rest, "invalid password"):
			return Denied
		}
	}
	return Other
}
