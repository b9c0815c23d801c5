package http1

import (
	"encoding/binary"
	"math/bits"
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
