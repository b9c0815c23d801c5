package chat

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// appendQuoted appends s as the inside of a JSON string. It escapes only what RFC 8259 requires:
// quote, backslash and C0 controls. UTF-8 is copied as it is.
func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for {
		n := unescapedLen(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return dst
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[n+1:]
	}
}

// AppendEscaped appends text as the inside of a JSON string, without quotes.
func AppendEscaped(dst []byte, text string) []byte { return appendQuoted(dst, text) }

// Unquote decodes a valid JSON string, quotes included. An escaped lone surrogate becomes U+FFFD;
// texts that are searched or extended have none.
func Unquote(raw []byte) string { return decode(raw[1 : len(raw)-1]) }

// Unescape decodes the inside of a valid JSON string, without quotes.
func Unescape(text []byte) string { return decode(text) }

// decode is Unquote for a string without its quotes.
func decode(raw []byte) string {
	i := unescapedLen(raw)
	if i == len(raw) {
		return string(raw)
	}
	out := make([]byte, len(raw)+8) // no escape is shorter than its character; words are written whole
	n := copy(out, raw[:i])
	for i < len(raw) {
		if len(raw)-i >= 8 && raw[i] != '\\' {
			w := word(raw[i:])
			binary.LittleEndian.PutUint64(out[n:], w)
			plain := 8
			if hit := special(w); hit != 0 {
				plain = max(1, bits.TrailingZeros64(hit)/8)
			}
			i, n = i+plain, n+plain
			continue
		}
		if raw[i] != '\\' {
			out[n] = raw[i]
			i, n = i+1, n+1
			continue
		}
		c := raw[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(raw[i : i+4])
			i += 4
			if r >= 0x800 && !utf16.IsSurrogate(r) { // most escaped characters
				out[n], out[n+1], out[n+2] = 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f
				n += 3
				continue
			}
			if utf16.IsSurrogate(r) && i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				low, _ := hex4(raw[i+2 : i+6])
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					r = pair
					i += 6
				}
			}
			n += utf8.EncodeRune(out[n:n+utf8.UTFMax], r)
			continue
		}
		out[n] = c
		n++
	}
	return unsafe.String(unsafe.SliceData(out), n) //nolint:gosec // out is not written to any more
}

// wholeNumber reads a JSON number in any notation, also in quotes, which lenient servers accept.
// It returns 0 for anything but a positive whole number; the upstream will refuse that itself.
func wholeNumber(raw []byte) int {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || f < 1 || f != math.Trunc(f) {
		return 0
	}
	return int(min(f, math.MaxInt32)) // so that the product of two of them fits into an int
}
