package transport

import "bytes"

// cutLine splits the first line off block, without its line end.
// ok is false when block holds no whole line.
func cutLine(block []byte) (line, rest []byte, ok bool) {
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

// cutField splits a head line at its colon; the value is trimmed of OWS.
func cutField(line []byte) (name, value []byte, ok bool) {
	i := bytes.IndexByte(line, ':')
	if i <= 0 {
		return nil, nil, false
	}
	return line[:i], trimBlanks(line[i+1:]), true
}

// trimBlanks trims blanks and tabs. Head lines need it so often that bytes.Trim costs a
// microsecond a request.
func trimBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// is reports whether name is want, in any letter case. want is lower case.
func is(name []byte, want string) bool {
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

// startsLike reports whether name begins with prefix, in any letter case and with "_"
// for "-". Servers of the CGI family take both spellings for the same name, so a header
// that must not pass must be stopped in both.
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

// A connectionList holds the options of a head's Connection lines.
type connectionList struct {
	close, keepAlive, upgrade bool
	named                     [][]byte // headers that must not be relayed; mostly nil
}

// add adds the value of one Connection line.
func (l *connectionList) add(value []byte) {
	for len(value) > 0 {
		token, rest, _ := bytes.Cut(value, []byte{','})
		value = rest
		token = trimBlanks(token)
		switch {
		case len(token) == 0:
		case is(token, "close"):
			l.close = true
		case is(token, "keep-alive"):
			l.keepAlive = true
		case is(token, "upgrade"):
			l.upgrade = true
		default:
			l.named = append(l.named, token)
		}
	}
}

func (l *connectionList) names(name []byte) bool {
	for _, n := range l.named {
		if len(n) == len(name) && bytes.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// replaced returns the index of name in list, or -1.
func replaced(list []Header, name []byte) int {
	for i := range list {
		if len(list[i].Name) == len(name) && startsLike(name, list[i].Name) {
			return i
		}
	}
	return -1
}

func appendLine(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// validText reports whether b holds no control characters other than tabs.
func validText(b []byte) bool { return untilControl(b) == len(b) }

// validToken reports whether name is a token of RFC 9110 §5.6.2.
func validToken(name []byte) bool {
	for _, c := range name {
		if !tokenByte(c) {
			return false
		}
	}
	return len(name) > 0
}
