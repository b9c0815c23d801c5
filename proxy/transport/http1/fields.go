// Package http1 reads and writes the syntax of HTTP/1.1: header lines, heads of answers and the
// framing of bodies. Ambiguous syntax is an error.
package http1

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/url"
	"slices"
	"strings"
)

// A Field holds the offsets of the parts of a header line, relative to its start.
type Field struct {
	Colon int // index of the colon, which ends the name
	end   int // index of the end of the value, which may be padded with blanks
	Next  int // index of the next line
}

// Name returns the name of the line at the start of block.
func (f Field) Name(block []byte) []byte { return block[:f.Colon] }

// Value returns the value of that line without surrounding blanks.
func (f Field) Value(block []byte) []byte { return trimBlanks(block[f.Colon+1 : f.end]) }

// Bare reports whether the line ends in a line feed alone.
func (f Field) Bare() bool { return f.Next == f.end+1 }

// NextField parses the first line of block in one pass. ok is false unless the line is a token, a
// colon and a value without control characters other than tabs.
func NextField(block []byte) (f Field, ok bool) {
	for f.Colon < len(block) && tokenByte(block[f.Colon]) {
		f.Colon++
	}
	if f.Colon == 0 || f.Colon == len(block) || block[f.Colon] != ':' {
		return f, false
	}
	f.end = f.Colon + 1 + untilControl(block[f.Colon+1:])
	switch rest := block[f.end:]; {
	case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
		f.Next = f.end + 2
	case len(rest) > 0 && rest[0] == '\n':
		f.Next = f.end + 1
	default:
		return f, false
	}
	return f, true
}

// tokenByte reports whether c is allowed in a token (RFC 9110 §5.6.2).
func tokenByte(c byte) bool {
	const tokens = "................................" + // each character at its own index, a dot for one that is not allowed
		".!.#$%&'..*+.-.." + "0123456789......" + ".ABCDEFGHIJKLMNOPQRSTUVWXYZ...^_" + "`abcdefghijklmnopqrstuvwxyz.|.~."
	return c < 128 && tokens[c] == c
}

// untilControl returns the number of bytes before the first control character other than a tab.
func untilControl(b []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for i+8 <= len(b) {
		// The lowest bit set in found belongs to the first control character.
		eight := binary.LittleEndian.Uint64(b[i:])
		del := eight ^ 0x7f*ones
		found := ((eight-' '*ones)&^eight | (del-ones)&^del) & tops
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8
		if b[i] != '\t' {
			return i
		}
		i++
	}
	for i < len(b) && (b[i] >= ' ' && b[i] != 0x7f || b[i] == '\t') {
		i++
	}
	return i
}

// A Kind classifies header names that a relay treats specially.
type Kind uint8

const (
	OtherName Kind = iota
	HostName
	LengthName // Content-Length
	ExpectName
	CodingName // Content-Encoding
	DigestName // digest of the body: RFC 9530, RFC 3230, RFC 1864
	OwnName    // Sidenote-*

	// The kinds from here on are hop-by-hop, whatever Connection says.
	EncodingName // Transfer-Encoding
	ConnectionName
	UpgradeName
	TrailerName
	HopName
)

// HopByHop reports whether a header applies to a single connection and is not relayed.
func (k Kind) HopByHop() bool { return k >= EncodingName }

// KindOf returns the kind of name, which must not be empty. The hop-by-hop headers are those of RFC
// 9110 §7.6.1, of RFC 2616 §13.5.1 and of older proxies.
func KindOf(name []byte) Kind {
	known, kind := "", OtherName
	switch len(name) {
	case 2:
		known, kind = "te", HopName
	case 4:
		known, kind = "host", HostName
	case 6:
		if known, kind = "expect", ExpectName; name[0]|0x20 == 'd' {
			known, kind = "digest", DigestName
		}
	case 7:
		if known, kind = "upgrade", UpgradeName; name[0]|0x20 == 't' {
			known, kind = "trailer", TrailerName
		}
	case 10:
		if known, kind = "connection", ConnectionName; name[0]|0x20 == 'k' {
			known, kind = "keep-alive", HopName
		}
	case 11:
		if known, kind = "content-md5", DigestName; name[0]|0x20 == 'r' {
			known, kind = "repr-digest", DigestName
		}
	case 14:
		if known, kind = "content-length", LengthName; name[8]|0x20 == 'd' {
			known, kind = "content-digest", DigestName
		}
	case 16:
		if known, kind = "content-encoding", CodingName; name[0]|0x20 == 'p' {
			known, kind = "proxy-connection", HopName
		}
	case 17:
		known, kind = "transfer-encoding", EncodingName
	case 18:
		known, kind = "proxy-authenticate", HopName
	case 19:
		known, kind = "proxy-authorization", HopName
	case 25:
		known, kind = "proxy-authentication-info", HopName
	}
	switch {
	case known != "" && Is(name, known):
		return kind
	case name[0]|0x20 == 's' && startsLike(name, "sidenote-"):
		return OwnName
	}
	return OtherName
}

// A Header is one header line. As a replacement it replaces all lines with that name, ignoring
// case; an empty Value removes them.
type Header struct{ Name, Value string }

// CutLine splits the first line off block, without its line end. ok is false if block contains no
// complete line.
func CutLine(block []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(block, '\n')
	if i < 0 {
		return nil, nil, false
	}
	line, rest = block[:i], block[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest, true
}

// CutField splits a header line at its colon and trims blanks around the value.
func CutField(line []byte) (name, value []byte, ok bool) {
	i := bytes.IndexByte(line, ':')
	if i <= 0 {
		return nil, nil, false
	}
	return line[:i], trimBlanks(line[i+1:]), true
}

// trimBlanks trims spaces and tabs. It is called so often that bytes.Trim would cost a microsecond
// per request.
func trimBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// Is reports whether name equals want, ignoring case. want must be lower case.
func Is(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := range len(want) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// startsLike reports whether name begins with prefix, ignoring case and with "_" equal to "-".
// CGI-style servers treat both spellings as the same name, so a header that must not pass is
// stopped in both.
func startsLike(name []byte, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if fold(name[i]) != fold(prefix[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c | 0x20
	case c == '_':
		return '-'
	}
	return c
}

// A Connection holds the options of a head's Connection lines.
type Connection struct {
	Close, KeepAlive, Upgrade bool
	named                     [][]byte // headers that must not be relayed; usually nil
}

// Add adds the value of one Connection line.
func (l *Connection) Add(value []byte) {
	for len(value) > 0 {
		token, rest, _ := bytes.Cut(value, []byte{','})
		value = rest
		token = trimBlanks(token)
		switch {
		case len(token) == 0:
		case Is(token, "close"):
			l.Close = true
		case Is(token, "keep-alive"):
			l.KeepAlive = true
		case Is(token, "upgrade"):
			l.Upgrade = true
		default:
			l.named = append(l.named, token)
		}
	}
}

// Names reports whether Connection names a header, which is then not relayed.
func (l *Connection) Names(name []byte) bool {
	for _, n := range l.named {
		if len(n) == len(name) && bytes.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// Replaced returns the index of name in list, or -1.
func Replaced(list []Header, name []byte) int {
	for i := range list {
		if len(list[i].Name) == len(name) && startsLike(name, list[i].Name) {
			return i
		}
	}
	return -1
}

// AppendLine appends a header line.
func AppendLine(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// ValidText reports whether b has no control characters other than tabs.
func ValidText(b []byte) bool { return untilControl(b) == len(b) }

// ValidToken reports whether name is a token (RFC 9110 §5.6.2).
func ValidToken(name []byte) bool {
	for _, c := range name {
		if !tokenByte(c) {
			return false
		}
	}
	return len(name) > 0
}

// AppendTarget appends the upstream's base path and a raw request target. If both have "/v1" it is
// written once. Of an absolute-form target only path and query are used: its host does not choose
// the upstream. deployment, if not "", replaces NAME in "/deployments/NAME/", which selects the
// model on Azure. ok is false for a target without a path.
func AppendTarget(dst []byte, base string, raw []byte, deployment string) (_ []byte, ok bool) {
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
	start := len(dst)
	dst = append(dst, base...)
	if base == "" && (len(raw) == 0 || raw[0] != '/') {
		dst = append(dst, '/')
	}
	if dst = append(dst, raw...); deployment != "" {
		dst = inDeployment(dst, start, deployment)
	}
	return dst, true
}

// inDeployment replaces the deployment in the path of dst[start:] by name, escaped.
func inDeployment(dst []byte, start int, name string) []byte {
	const marker = "/deployments/"
	path, _, _ := bytes.Cut(dst[start:], []byte("?"))
	i := bytes.Index(path, []byte(marker))
	if i < 0 {
		return dst
	}
	i += len(marker)
	old, _, _ := bytes.Cut(path[i:], []byte("/"))
	return slices.Replace(dst, start+i, start+i+len(old), []byte(url.PathEscape(name))...)
}
