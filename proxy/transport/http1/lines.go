// Package http1 reads and writes the syntax of HTTP/1.1: header lines, heads of answers and the
// framing of bodies. Ambiguous syntax is an error.
package http1

import "bytes"

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
