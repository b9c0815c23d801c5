package chat

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// A message holds the offsets of one element of messages.
type message struct {
	role      role
	kind      Kind
	ambiguous bool  // two parsers could read it differently
	results   bool  // it has results of tools, of Messages
	n         int32 // its index in Request.Messages
	content   Span  // the content's value; if missing, where to insert it
	parts     Span  // indices into Request.parts of its texts, if content is an array
	last      int   // end of an array's last element; 0 if it has none
}

type role byte

const (
	roleOther role = iota
	roleSystem
	roleUser
)

// operator reports whether a message is from the application: system or developer.
func (m *message) operator() bool { return m.role == roleSystem }

// commonMessage is the fast path for messages of a role and a text, in the order and spacing that
// most clients use. For any other message, or one with an error, it consumes nothing and returns
// false.
func (p *Parser) commonMessage() bool {
	const (
		user      = `{"role":"user","content":"`
		assistant = `{"role":"assistant","content":"`
		system    = `{"role":"system","content":"`
		developer = `{"role":"developer","content":"`
	)
	switch rest := p.b[p.i:]; {
	case begins(rest, user):
		return p.commonText(roleUser, len(user))
	case begins(rest, assistant):
		return p.commonText(roleOther, len(assistant))
	case begins(rest, system):
		return p.commonText(roleSystem, len(system))
	case begins(rest, developer):
		return p.commonText(roleSystem, len(developer))
	}
	return false
}

// begins is bytes.HasPrefix for a constant, which the compiler compares word by word.
func begins(b []byte, with string) bool { return len(b) >= len(with) && string(b[:len(with)]) == with }

// commonText reads the rest of a common message, whose text begins after head bytes.
func (p *Parser) commonText(r role, head int) bool {
	start := p.i
	p.i += head - 1
	text, _ := p.str()
	if p.err != nil || p.i >= len(p.b) || p.b[p.i] != '}' {
		p.i, p.err = start, nil // the general path reads it again
		return false
	}
	p.i++
	unclear := p.loneSurrogate >= text.Start
	p.r.kept = append(p.r.kept, message{role: r, kind: KindString, ambiguous: unclear, n: int32(len(p.r.Messages)), content: text})
	if p.shape == nil {
		p.r.Messages = append(p.r.Messages, Span{start, p.i})
	}
	return true
}

func (p *Parser) message(n int) {
	if !p.describe && p.commonMessage() {
		return
	}
	if k := p.kind(); k != KindObject {
		p.notChat(path{n, -1, ""}, "%s, not an object", k)
		p.value()
		return
	}
	m := message{n: int32(len(p.r.Messages))}
	roleEnd := 0
	p.keys.quiet, p.keys.ambiguous = !p.describe, false
	level := p.keys.level()
	whole := p.object(func(key Span, escaped bool) {
		name, same := p.key(level, "messages[].", key, escaped, messageKeys)
		switch {
		case name == "role" && !same:
			p.ambiguous(n, "role", "differs from role only in case")
			p.value()
		case name == "role" && roleEnd > 0:
			p.ambiguous(n, "role", "is repeated")
			p.value()
		case name == "role":
			p.role(n, &m)
			roleEnd = p.i
		case name == "content" && same:
			p.content(n, &m)
		default:
			if name == "audio" && p.kind() == KindObject {
				p.r.Attachments++
			}
			p.value()
		}
	})
	p.keys.leave(level)
	m.ambiguous, p.keys.quiet = p.keys.ambiguous, false
	p.r.ambiguous = p.r.ambiguous || m.ambiguous
	if roleEnd == 0 {
		p.notChat(path{n, -1, "role"}, "missing")
	}
	if m.kind == KindMissing {
		m.content = Span{roleEnd, roleEnd}
	}
	if m.results { // nothing may stand behind them, and they are not a question
		m.role = roleOther
	}
	// A rewrite does not need messages of other roles (assistant, tool) without text. The first
	// message is always kept, so that a list of only such messages does not look empty.
	if n == 0 || m.role != roleOther || m.kind == KindString || m.parts.Start < m.parts.End {
		p.r.kept = append(p.r.kept, m)
	}
	if p.shape == nil { // a body with wrong types is not counted
		p.r.Messages = append(p.r.Messages, whole)
	}
}

func (p *Parser) role(n int, m *message) {
	if k := p.kind(); k != KindString {
		p.notChat(path{n, -1, "role"}, "%s, not a string", k)
		p.value()
		return
	}
	v, escaped := p.str()
	if p.err != nil {
		return
	}
	if p.garbled(v) {
		p.ambiguous(n, "role", "is not Unicode")
	}
	name := v.Of(p.b)[1 : v.End-v.Start-1]
	if escaped {
		name = []byte(Unquote(v.Of(p.b)))
	}
	switch string(name) {
	case "system", "developer":
		m.role = roleSystem
	case "user":
		m.role = roleUser
	}
}

// ambiguous records that the role or the type of a message is ambiguous. This always makes the
// whole body ambiguous, because they decide how a message is read.
func (p *Parser) ambiguous(n int, member, why string) {
	if p.keys.err == nil {
		at := path{n, -1, member}.in(p.dialect())
		p.keys.err = &Error{Reason: Ambiguous, Param: at, Message: at + " " + why}
	}
}

func (p *Parser) content(n int, m *message) {
	m.kind = p.kind()
	switch m.kind {
	case KindArray:
		m.parts.Start = len(p.r.parts)
		m.content = p.array(func(i int) {
			if kind := p.part(n, i); kind == "tool_result" {
				m.results = true
			}
			m.last = p.i
		})
		m.parts.End = len(p.r.parts)
	case KindString, KindNull:
		m.content = p.value()
		p.checkSurrogate(m.content)
	default:
		p.notChat(path{n, -1, "content"}, "%s, not a string or an array", m.kind)
		p.value()
	}
}

// part reads part i of the content of message n, or of system if n is negative, and returns its type.
func (p *Parser) part(n, i int) (kind string) {
	if k := p.kind(); k != KindObject {
		p.notChat(path{n, i, ""}, "%s, not an object", k)
		p.value()
		return ""
	}
	var text Span
	nested := 0
	at, keys := p.dialect().part, partKeys
	if p.r.API == Messages {
		if keys = blockKeys; n < 0 {
			at = "system[]."
		}
	}
	level := p.keys.level()
	p.object(func(key Span, escaped bool) {
		name, same := p.key(level, at, key, escaped, keys)
		k := p.kind()
		if name == "content" && k == KindArray {
			nested = p.nestedAttachments()
			return
		}
		v := p.value()
		switch {
		case p.err != nil || !same || name == "content":
		case name == "type" && k == KindString:
			kind = Unquote(v.Of(p.b))
		case name == "text" && k == KindString:
			text = v
			p.checkSurrogate(v)
		case name != "" && k != KindNull:
			p.notChat(path{n, i, name}, "%s, not a string", k)
		}
	})
	p.keys.leave(level)
	switch {
	case !p.r.API.isText(kind):
		p.r.Attachments += nested
		if p.r.API.attached(kind) {
			p.r.Attachments++
		}
	case text != Span{}:
		p.r.parts = append(p.r.parts, text)
	}
	return kind
}

// checkSurrogate records an ambiguity if a text of the current message has a lone surrogate.
func (p *Parser) checkSurrogate(text Span) {
	if p.loneSurrogate >= text.Start && p.keys.note() {
		p.keys.describe(p.dialect().element+"content", nil, "escaped lone surrogate at byte %d", p.loneSurrogate)
	}
}

// texts yields the string values of a message's text, quotes included.
func (r *Request) texts(m *message) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		if m.kind == KindString {
			yield(m.content)
			return
		}
		for _, p := range r.parts[m.parts.Start:m.parts.End] {
			if !yield(p) {
				return
			}
		}
	}
}

// EachText calls do with the texts of the messages up to index last (all if negative) as JSON
// strings. n is the index of the message in Messages, part that of the text in it.
func (r *Request) EachText(last int, do func(n, part int, raw []byte)) {
	if last < 0 {
		last = len(r.kept) - 1
	}
	for i := range r.kept[:last+1] {
		m := &r.kept[i]
		part := 0
		for text := range r.texts(m) {
			do(int(m.n), part, text.Of(r.Body))
			part++
		}
	}
}

// EscapesRunes reports whether the body has \u escapes.
func (r *Request) EscapesRunes() bool { return r.seen&markCode != 0 }

// MayHoldTags reports whether the messages contain a byte that may begin a tag.
func (r *Request) MayHoldTags() bool {
	return r.seen&(markWide|markCode) != 0 || mayHoldTags(r.list.Of(r.Body)) || mayHoldTags(r.operator.Of(r.Body))
}

func mayHoldTags(text []byte) bool {
	return bytes.IndexByte(text, '<') >= 0 || bytes.IndexByte(text, '&') >= 0
}

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

// ClipQuestion shortens a text as Question does.
func ClipQuestion(text string) string { return clip(text, MaxQuery) }
