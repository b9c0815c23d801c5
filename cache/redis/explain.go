package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

// explain describes in one line what is wrong and, if known, what to do. The line never contains a
// password, a key or a value. Error texts of the library are not used, since they may quote what
// the server sent. meanwhile describes the effect while the problem lasts; if nil, that of the DB
// is used.
func (d *DB) explain(op string, err error, meanwhile func() string) string {
	var reply goredis.Error
	var word, rest string
	if errors.As(err, &reply) {
		word, rest, _ = strings.Cut(reply.Error(), " ")
	}
	kind, what := kindOf(err), ""
	switch kind {
	case Timeout:
		what = d.timeoutLine(err)
	case Protocol:
		what = "what answers there does not speak the Redis protocol"
	case TLS:
		what = tlsLine(err)
	case Denied:
		what = d.deniedLine(op, word, rest)
	case Busy:
		what = d.busyLine(word)
	case Memory:
		what = "its memory is full (OOM)"
	case ReadOnly:
		what = "refuses writes (" + safeWord(word) + ")"
	case Other:
		what = d.otherLine(op, word, rest, err)
	default:
		what = d.refusedLine(err)
	}
	out := d.meanwhile()
	if op == opSet && (kind == Memory || kind == ReadOnly || kind == Other || word == "NOPERM") {
		out = readsOnly
	}
	if meanwhile != nil {
		out = meanwhile()
	}
	return "redis " + d.address + ": " + what + "; " + out
}

// readsOnly describes the effect while writes of the cache fail.
const readsOnly = "what it holds is read, nothing new is kept"

// timeoutLine distinguishes a network that drops everything from a Redis that hangs.
func (d *DB) timeoutLine(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "cannot be connected to" + d.which(err) + " within " + d.dialTimeout().String()
	}
	return "does not answer within " + d.timeout.String()
}

func tlsLine(err error) string {
	var record tls.RecordHeaderError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record):
		return "does not speak TLS; use redis:// or its TLS port"
	case errors.As(err, &host):
		return "its TLS certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its TLS certificate is not valid at this time"
	case errors.As(err, &unverified):
		return "its TLS certificate is not trusted; see redis.ca"
	case isTimeout(err), isCut(err):
		return "does not answer in TLS; use redis:// or its TLS port"
	case strings.HasSuffix(err.Error(), "tls: certificate required"), strings.HasSuffix(err.Error(), "tls: bad certificate"):
		return "wants a TLS certificate of its clients; its tls-auth-clients must be no or optional"
	}
	return "TLS handshake failed"
}

func (d *DB) deniedLine(op, word, rest string) string {
	where := d.urlKey
	if d.url.MasterName != "" {
		where += " (a Sentinel's as sentinel_password)"
	}
	switch word {
	case "ERR":
		if !strings.Contains(rest, "invalid password") {
			return "wants no password, and " + d.urlKey + " holds one"
		}
	case "NOPERM":
		needed := "+getrange +set"
		if op == opScript {
			needed += " " + ledgerCommands
		}
		if d.url.DB != 0 {
			needed += " +select"
		}
		if isCluster(d.url) {
			needed += " +cluster|slots"
		}
		return "the user may not do what is needed; grant " + needed + " ~" + d.prefix + ":*"
	case "NOAUTH":
		return "wants a password; put it into " + where
	}
	return "refuses the user or password of " + where
}

func (d *DB) busyLine(word string) string {
	switch word {
	case "BUSY":
		return "busy running a script (BUSY)"
	case "LOADING":
		return "loading its data (LOADING)"
	case "MOVED", "ASK":
		return "is one node of a cluster; write " + d.urlKey + " with ?cluster=true"
	case "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN":
		return "has no master for our keys (" + word + ")"
	}
	return "has too many clients"
}

// otherLine explains errors that are caused by a wrong URL.
func (d *DB) otherLine(op, word, rest string, err error) string {
	switch {
	case d.url.MasterName != "" && errors.Is(err, goredis.Nil):
		return "that Sentinel knows no such master; see master_name in " + d.urlKey
	case strings.HasPrefix(rest, "DB index"):
		return "has no database " + strconv.Itoa(d.url.DB) + "; see " + d.urlKey
	case strings.Contains(rest, "cluster support disabled"):
		return "is no cluster; write " + d.urlKey + " without cluster=true"
	case strings.HasPrefix(rest, "unknown command") && d.url.MasterName != "":
		return "is no Sentinel; write " + d.urlKey + " without master_name"
	case strings.HasPrefix(rest, "unknown command"):
		return "does not know " + op + "; a Sentinel wants ?master_name=NAME in " + d.urlKey
	}
	return "answers " + op + " with an error (" + safeWord(word) + ")"
}

func (d *DB) refusedLine(err error) string {
	var name *net.DNSError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "no such host"
	case errors.As(err, &name):
		return "its name cannot be looked up"
	case errors.Is(err, fs.ErrNotExist):
		return "no such socket"
	case errors.Is(err, fs.ErrPermission):
		return "no permission to use its socket"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused" + d.which(err)
	case isCut(err) && d.url.TLSConfig == nil:
		return "closes the connection, as it does if it wants TLS (rediss://) or has too many clients"
	case isCut(err):
		return "closes the connection, as it does if it wants a certificate of ours or has too many clients"
	}
	return "cannot be reached" + d.which(err)
}

// which names the unreachable node, if there are several.
func (d *DB) which(err error) string {
	var op *net.OpError
	if d.url.MasterName == "" && !isCluster(d.url) || !errors.As(err, &op) || op.Addr == nil {
		return ""
	}
	return " (" + op.Addr.String() + ")"
}

func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

var capitals = regexp.MustCompile(`^[A-Z_]{1,32}$`)

// safeWord keeps what a server sent out of the logs, unless it is a word in capitals.
func safeWord(word string) string {
	if !capitals.MatchString(word) {
		return "unknown"
	}
	return word
}
