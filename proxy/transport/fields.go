package transport

import (
	"encoding/binary"
	"math/bits"
)

// A field holds the positions of the parts of a head line, counted from its start.
type field struct {
	colon int // index of the colon, which ends the name
	end   int // index of the end of the value, which may have blanks around it
	next  int // index of the next line
}

func (f field) name(block []byte) []byte  { return block[:f.colon] }
func (f field) value(block []byte) []byte { return trimBlanks(block[f.colon+1 : f.end]) }

// bare reports whether a line feed alone ends the line.
func (f field) bare() bool { return f.next == f.end+1 }

// nextField reads the first line of block in one pass. ok is false unless the line is a
// token, a colon and a value without control characters other than tabs.
func nextField(block []byte) (f field, ok bool) {
	for f.colon < len(block) && tokenByte(block[f.colon]) {
		f.colon++
	}
	if f.colon == 0 || f.colon == len(block) || block[f.colon] != ':' {
		return f, false
	}
	f.end = f.colon + 1 + untilControl(block[f.colon+1:])
	switch rest := block[f.end:]; {
	case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
		f.next = f.end + 2
	case len(rest) > 0 && rest[0] == '\n':
		f.next = f.end + 1
	default:
		return f, false
	}
	return f, true
}

// tokenByte reports whether c may stand in a token of RFC 9110 §5.6.2.
func tokenByte(c byte) bool {
	const tokens = "................................" + // each character at its own index, a dot for one that may not
		".!.#$%&'..*+.-.." + "0123456789......" + ".ABCDEFGHIJKLMNOPQRSTUVWXYZ...^_" + "`abcdefghijklmnopqrstuvwxyz.|.~."
	return c < 128 && tokens[c] == c
}

// untilControl returns how many bytes of b stand before its first control character.
// Tabs do not count as such.
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

// A nameKind is the kind of a header name, as far as a relay must treat it in its own
// way.
type nameKind uint8

const (
	otherName nameKind = iota
	hostName
	lengthName // Content-Length
	expectName
	codingName // Content-Encoding
	digestName // of the body: RFC 9530, RFC 3230, RFC 1864
	ownName    // Sidenote-*

	// The kinds from here on concern one connection only, whatever Connection says.
	encodingName // Transfer-Encoding
	connectionName
	upgradeName
	trailerName
	hopName
)

// hopByHop reports whether a header concerns one connection only and is not relayed.
func (k nameKind) hopByHop() bool { return k >= encodingName }

// kindOf returns the kind of name, which is not empty. The headers of one connection
// are those of RFC 9110 §7.6.1, of RFC 2616 §13.5.1 and of proxies older than these.
func kindOf(name []byte) nameKind {
	known, kind := "", otherName
	switch len(name) {
	case 2:
		known, kind = "te", hopName
	case 4:
		known, kind = "host", hostName
	case 6:
		if known, kind = "expect", expectName; name[0]|0x20 == 'd' {
			known, kind = "digest", digestName
		}
	case 7:
		if known, kind = "upgrade", upgradeName; name[0]|0x20 == 't' {
			known, kind = "trailer", trailerName
		}
	case 10:
		if known, kind = "connection", connectionName; name[0]|0x20 == 'k' {
			known, kind = "keep-alive", hopName
		}
	case 11:
		if known, kind = "content-md5", digestName; name[0]|0x20 == 'r' {
			known, kind = "repr-digest", digestName
		}
	case 14:
		if known, kind = "content-length", lengthName; name[8]|0x20 == 'd' {
			known, kind = "content-digest", digestName
		}
	case 16:
		if known, kind = "content-encoding", codingName; name[0]|0x20 == 'p' {
			known, kind = "proxy-connection", hopName
		}
	case 17:
		known, kind = "transfer-encoding", encodingName
	case 18:
		known, kind = "proxy-authenticate", hopName
	case 19:
		known, kind = "proxy-authorization", hopName
	case 25:
		known, kind = "proxy-authentication-info", hopName
	}
	switch {
	case known != "" && is(name, known):
		return kind
	case name[0]|0x20 == 's' && startsLike(name, "sidenote-"):
		return ownName
	}
	return otherName
}
