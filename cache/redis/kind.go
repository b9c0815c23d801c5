package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

// A Kind is what kept a call from working. It is a closed list and a metric
// label.
type Kind string

// The kinds of failure.
const (
	Refused  Kind = "refused"     // no connection, or it was lost
	Timeout  Kind = "timeout"     // no answer in time
	Pool     Kind = "pool"        // no connection was free in time: too many calls, which is no fault of Redis
	Protocol Kind = "protocol"    // what answers is no Redis, or lies about lengths
	TLS      Kind = "tls"         // the handshake failed
	Denied   Kind = "denied"      // no or wrong password, or a user that may not do this
	Busy     Kind = "busy"        // loading, a script that does not end, too many clients, no master
	Memory   Kind = "memory"      // full, and told not to evict: writes fail
	ReadOnly Kind = "readonly"    // a replica, or a disk that cannot be written: writes fail
	Type     Kind = "type"        // the key holds a list or the like: somebody else's
	TooLarge Kind = "too_large"   // the value is larger than is kept
	Dropped  Kind = "dropped"     // a write that had to make room: too many waited
	Other    Kind = "other"       // any other error reply
	gone     Kind = "caller_gone" // the caller's time was up; nobody's fault, and not counted
)

// fatal tells whether other calls are likely to fail the same way, so that it is
// better not to make them for a while. A write that Redis refuses says nothing of
// reads; a pool without a free connection says that Redis is wanted too much, and
// to stop asking would make that an outage.
func (k Kind) fatal(op string) bool {
	switch k {
	case Refused, Timeout, Protocol, TLS:
		return true
	case Denied, Busy, Other:
		return op == opGet
	}
	return false
}

// lasting tells whether a failure is worth telling people even though the breaker
// stays closed.
func (k Kind) lasting() bool {
	switch k {
	case Denied, Busy, Memory, ReadOnly, Other:
		return true
	}
	return false
}

// kindOf sorts an error of a call.
func kindOf(err error) Kind {
	var reply goredis.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrClosed):
		return gone
	case errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return Pool
	case errors.Is(err, errTooLarge):
		return TooLarge
	case errors.Is(err, errNoRedis):
		return Protocol
	case isTLS(err):
		return TLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return Timeout
	case errors.As(err, &reply):
		return replyKind(reply.Error())
	case strings.HasPrefix(err.Error(), "redis: can't parse"): // of the right form, and makes no sense
		return Protocol
	}
	return Refused
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &unverified) || errors.As(err, &unknown)
}

// replyKind sorts an error reply by its first word.
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
		case strings.Contains(rest, "without any password configured"), strings.Contains(rest, "invalid password"):
			return Denied
		}
	}
	return Other
}

// explain says in one line what is wrong and, where it is known, what to do. It
// never holds a password, a key or a value: an error text of the library does
// hold what a stranger answered, so none is passed on.
func (d *DB) explain(op string, err error) string {
	at := "redis " + d.address + ": "
	var reply goredis.Error
	word := ""
	if errors.As(err, &reply) {
		word, _, _ = strings.Cut(reply.Error(), " ")
	}
	what := ""
	switch kindOf(err) {
	case Timeout:
		what = "does not answer within " + d.timeout.String()
	case Protocol:
		what = "what answers there does not speak the Redis protocol"
	case TLS:
		what = tlsLine(err)
	case Denied:
		what = d.deniedLine(word)
	case Busy:
		what = busyLine(word)
	case Memory:
		what = "its memory is full (OOM)"
	case ReadOnly:
		what = "refuses writes (" + plainWord(word) + ")"
	case Other:
		what = "answers " + op + " with an error (" + plainWord(word) + ")"
	default:
		what = refusedLine(err)
	}
	if op == opSet && !kindOf(err).fatal(op) {
		return at + what + "; what it holds is read, nothing new is kept"
	}
	return at + what + "; going on without it"
}

func tlsLine(err error) string {
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		return "does not speak TLS; use redis:// or its TLS port"
	}
	return "TLS handshake failed: its certificate is not trusted; see redis.ca"
}

func (d *DB) deniedLine(word string) string {
	switch {
	case word == "NOPERM":
		return "the user may not do what is needed; grant +getrange +set on ~" + d.prefix + ":*"
	case word == "NOAUTH":
		return "wants a password; put one into redis.url"
	}
	return "refuses the user or password of redis.url"
}

func busyLine(word string) string {
	switch word {
	case "BUSY":
		return "busy with somebody's script (BUSY)"
	case "LOADING":
		return "loading its data (LOADING)"
	case "MOVED", "ASK":
		return "is one node of a cluster; write redis.url with ?cluster=true"
	case "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN":
		return "has no master for our keys (" + word + ")"
	}
	return "has too many clients"
}

func refusedLine(err error) string {
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return "no such host"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "closes the connection; does it expect TLS (rediss://)?"
	}
	return "cannot be reached"
}

// plainWord keeps a stranger's bytes out of logs.
func plainWord(word string) string {
	for _, c := range word {
		if (c < 'A' || c > 'Z') && c != '_' {
			return "unknown"
		}
	}
	return word[:min(len(word), 32)]
}
