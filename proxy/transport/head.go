package transport

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// A Request says how the client's request in ctx goes up. Its zero value is a
// plain relay: same target, same head lines, body streamed in the same framing.
type Request struct {
	// Body is a whole body in place of the client's (Whole), or what ReadBody
	// has read of it so far; the rest then follows from the client's stream.
	// Its pieces go up one after another. Neither they nor the list may change until
	// the answer was relayed or says that it is Sent, or Send failed.
	Body  [][]byte
	Whole bool
	// Replace puts lines in the place of the client's, e.g. Authorization with
	// the upstream's own key, and api-key and x-api-key with nothing.
	Replace []Header
	// NoUpgrade takes the wish for another protocol out of the request.
	NoUpgrade bool
}

// chunked as a length means that the length is not known.
const chunked = -1

// A requestHead turns the client's head into the one that goes up.
type requestHead struct {
	host      string
	base      string // path before the client's target
	replace   []Header
	upgrade   bool  // Upgrade passes
	length    int64 // of the body that goes up, or chunked
	connected connectionList
}

// append writes the request line and the client's lines verbatim and in order,
// each replaced line at the place of the first it replaces. Nothing is added
// that neither the client nor the caller asked for, but Host and framing.
// ok is false for a target that cannot be forwarded.
func (h *requestHead) append(dst []byte, client *fasthttp.RequestHeader) (_ []byte, ok bool) {
	dst = append(dst, client.Method()...)
	dst = append(dst, ' ')
	if dst, ok = appendTarget(dst, h.base, client.RequestURI()); !ok || client.IsConnect() {
		return dst, false
	}
	dst = append(dst, " HTTP/1.1\r\n"...)
	var written uint64 // bit i: h.replace[i] stands in dst
	var host, framing, connection bool
	block := client.RawHeaders()
	for line, rest, ok := cutLine(block); ok; line, rest, ok = cutLine(rest) {
		name, _, ok := cutField(line)
		if !ok {
			continue // the empty line at the end
		}
		i := replaced(h.replace, name)
		switch {
		case is(name, "host"):
			dst, host = appendOnce(dst, host, name, h.host), true
		case is(name, "content-length"), is(name, "transfer-encoding"):
			dst, framing = h.appendFraming(dst, framing), true
		case is(name, "connection"):
			if h.upgrade {
				dst, connection = appendOnce(dst, connection, name, "Upgrade"), true
			}
		case i >= 0:
			dst = h.appendReplacement(dst, i, &written)
		case h.passes(name):
			dst = append(dst, line...)
			dst = append(dst, "\r\n"...)
		}
	}
	if !host {
		dst = appendLine(dst, "Host", h.host)
	}
	if !framing && h.length != 0 {
		dst = h.appendFraming(dst, false)
	}
	for i := range h.replace {
		dst = h.appendReplacement(dst, i, &written)
	}
	return append(dst, "\r\n"...), true
}

func (h *requestHead) passes(name []byte) bool {
	if is(name, "upgrade") {
		return h.upgrade
	}
	return !hopByHop(name) && !is(name, "expect") && !startsLike(name, "sidenote-") && !h.connected.names(name)
}

func (h *requestHead) appendFraming(dst []byte, done bool) []byte {
	switch {
	case done:
		return dst
	case h.length == chunked:
		return appendLine(dst, "Transfer-Encoding", "chunked")
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, h.length, 10)
	return append(dst, "\r\n"...)
}

func (h *requestHead) appendReplacement(dst []byte, i int, written *uint64) []byte {
	if bit := uint64(1) << i; *written&bit == 0 && h.replace[i].Value != "" {
		*written |= bit
		dst = appendLine(dst, h.replace[i].Name, h.replace[i].Value)
	}
	return dst
}

func appendOnce(dst []byte, done bool, name []byte, value string) []byte {
	if done {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// wantsUpgrade reports whether a client asks for a protocol that we relay.
// h2c is not one: through it requests would pass that nobody looks at.
func wantsUpgrade(client *fasthttp.RequestHeader, connected *connectionList) bool {
	if !connected.upgrade {
		return false
	}
	asked := false
	for _, protocols := range client.PeekAll("Upgrade") { // all of these lines would pass
		if bytes.Contains(bytes.ToLower(protocols), []byte("h2c")) {
			return false
		}
		asked = asked || len(bytes.TrimSpace(protocols)) > 0
	}
	return asked
}

// appendTarget puts the upstream's base path before a raw request target. A
// "/v1" that would double stands once. Of an absolute-form target only path and
// query count: its host chooses nothing. ok is false for what has no path.
func appendTarget(dst []byte, base string, raw []byte) (_ []byte, ok bool) {
	switch {
	case len(raw) == 1 && raw[0] == '*':
		return append(dst, '*'), true
	case len(raw) > 0 && raw[0] == '/':
	default:
		i := bytes.Index(raw, []byte("://"))
		if i <= 0 {
			return dst, false
		}
		raw = raw[i+len("://"):]
		if i = bytes.IndexAny(raw, "/?#"); i < 0 {
			i = len(raw)
		}
		raw = raw[i:]
	}
	if strings.HasSuffix(base, "/v1") && bytes.HasPrefix(raw, []byte("/v1")) &&
		(len(raw) == 3 || raw[3] == '/' || raw[3] == '?') {
		raw = raw[3:]
	}
	dst = append(dst, base...)
	if base == "" && (len(raw) == 0 || raw[0] != '/') {
		dst = append(dst, '/')
	}
	return append(dst, raw...), true
}
