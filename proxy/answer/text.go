package answer

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A spot is a byte of a text, and where the event has it.
type spot struct {
	b        byte
	event    int // number
	from, to int // of the byte, or of the escape that it is from
}

// A cut is a part of an event that is removed.
type cut struct{ event, from, to int }

// A citedText is the content of one choice, read byte by byte.
type citedText struct {
	checker  *CitationChecker
	choice   int
	runes    int         // code points that the client has got of it
	added    []placed    // annotations that were not written yet
	marker   candidate   // that is being read
	start    int         // code points before marker
	atHead   bool        // nothing but spaces stands before marker on its line
	space    spot        // the byte before, or before marker, if it is a space; else its b is 0
	high     rune        // the first half of a surrogate pair whose second has not come
	said     []byte      // the end of the text
	clause   int         // where in said the clause begins
	phrase   int         // likewise, the sentence
	ended    bool        // the sentence has
	stopped  bool        // a full stop was last, which ends it if a space follows
	cited    bool        // a marker was last
	escaped  bool        // a backslash was last
	fixed    bool        // nothing is removed of the marker that is being read
	finished bool        // the last event ends it
	blocks   blockReader // knows what is code, and what the text of a link
	thoughts thoughts    // with which it begins
}

// A placed annotation is one at code points of a text.
type placed struct{ start, end, id int }

// maxSaid is how much of a text is kept, in bytes.
const maxSaid = 2 << 10

// put takes the next byte.
func (t *citedText) put(s spot) {
	if !t.thoughts.over {
		switch t.thoughts.read(s.b) {
		case begins: // the tag is no text either
			t.said, t.clause, t.phrase = t.said[:0], 0, 0
			t.blocks, t.space, t.marker.reading, t.escaped = blockReader{}, spot{}, noMarker, false
			t.runes++
			return
		case thinking:
			if s.b&0xc0 != 0x80 {
				t.runes++
			}
			return
		}
	}
	if t.marker.reading != noMarker && t.takeMarker(s) {
		return
	}
	if s.b&0xc0 != 0x80 {
		t.runes++
	}
	switch escaped := t.escaped; {
	case escaped:
		t.escaped = false
		t.decide(t.blocks.text(s.b))
	case t.blocks.inFence():
		t.blocks.fenced(s.b)
		return
	default:
		if t.begins(s) {
			return
		}
		t.escaped = s.b == '\\' && t.blocks.run == 0 // in code it is itself
		t.decide(t.blocks.read(s.b))
	}
	t.say(s.b)
	if t.space = (spot{}); s.b == ' ' {
		t.space = s
	}
}

// begins begins a marker with a byte, if it can.
func (t *citedText) begins(s spot) bool {
	if !t.marker.begin(s) {
		return false
	}
	t.atHead = !t.blocks.indented
	t.start = t.runes - 1
	t.decide(t.blocks.text(s.b))
	if t.blocks.inFence() { // that ~~~ before it has opened
		t.marker.reading = noMarker
	}
	return true
}

// takeMarker adds a byte to the marker. It returns false if the byte is to be read as text:
// the marker is over, or was none.
func (t *citedText) takeMarker(s spot) bool {
	k := &t.marker
	if k.reading == wholeMarker {
		t.endMarker(s.b)
		return false
	}
	if !k.add(s) {
		t.failMarker()
		return false
	}
	if s.b&0xc0 != 0x80 {
		t.runes++
	}
	if k.reading == wholeWide {
		t.endMarker(0)
	}
	return true
}

// failMarker reads what was no marker as text.
func (t *citedText) failMarker() {
	k := &t.marker
	k.reading = noMarker
	for _, s := range k.bytes {
		t.say(s.b)
	}
	if k.bytes[0].b == '[' {
		t.blocks.open()
	}
	if t.space = (spot{}); k.bytes[len(k.bytes)-1].b == ' ' && !t.fixed {
		t.space = k.bytes[len(k.bytes)-1]
	}
	t.fixed = false
}

// endMarker decides on a marker by the byte behind it, 0 at the end of the text.
func (t *citedText) endMarker(next byte) {
	k := &t.marker
	k.reading = noMarker
	link := next == '(' && !k.wide || next == ':' && t.atHead
	if !link {
		m := t.mention()
		if !t.blocks.hold(&m) {
			t.accept(&m, t.checker.options.RemoveUnknown && !t.fixed)
		}
	}
	for _, s := range k.bytes {
		t.said = append(t.said, s.b)
	}
	t.cited, t.fixed, t.space = true, false, spot{}
}

// A mention is a marker in its statement.
type mention struct {
	ids              []int
	start, end       int // in code points
	clause, sentence string
	before           string // the bytes before it
}

// mention is the marker that was just read.
func (t *citedText) mention() mention {
	last := func(from, n int) string { return string(t.said[max(min(from, len(t.said)), len(t.said)-n):]) }
	m := mention{start: t.start, end: t.runes, clause: last(t.clause, maxStatement), sentence: last(t.phrase, maxStatement), before: last(0, contextSize)}
	for _, id := range t.marker.ids {
		if !slices.Contains(m.ids, id.number) {
			m.ids = append(m.ids, id.number)
		}
	}
	return m
}

// accept takes a marker that is one. remove says that unknown ids may still be removed from it.
func (t *citedText) accept(m *mention, remove bool) {
	c := t.checker
	var given, unknown []int
	for _, id := range m.ids {
		if c.options.Own.quotes(id, m.before) {
			continue
		}
		if _, ok := c.source(id); ok {
			given = append(given, id)
		} else if _, own := c.options.Own[id]; !own {
			unknown = append(unknown, id)
		}
	}
	c.report.Unknown += len(unknown)
	if remove && len(unknown) > 0 {
		m.end = t.remove(unknown)
	}
	for _, id := range given {
		if len(c.claims) < maxClaims {
			c.claims = append(c.claims, claim{id, m.clause, m.sentence})
		}
		if !c.options.CountOnly && len(t.added) < maxAnnotations {
			t.added = append(t.added, placed{m.start, m.end, id})
		}
	}
}

// remove removes ids from the marker that was just read, and the space before it if none is left.
// It returns where the rest of the marker ends, in code points.
func (t *citedText) remove(unknown []int) (end int) {
	k, gone := &t.marker, 0
	drop := func(s spot) {
		if s.b&0xc0 != 0x80 {
			gone++
		}
		t.checker.cuts = append(t.checker.cuts, cut{s.event, s.from, s.to})
	}
	for _, part := range k.without(func(id int) bool { return slices.Contains(unknown, id) }) {
		for _, s := range k.bytes[part[0]:part[1]] {
			drop(s)
		}
		if part[1]-part[0] == len(k.bytes) && t.space.b != 0 {
			drop(t.space)
		}
	}
	t.runes -= gone
	return t.runes
}

// decide accepts the markers of which it turned out that they are some.
func (t *citedText) decide(held []*mention) {
	for _, m := range held {
		t.accept(m, false)
	}
}

// feed takes the content of an event, as it stands between its quotes from an offset on.
func (t *citedText) feed(raw []byte, event, from int) {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			t.flushSurrogate()
			t.put(spot{raw[i], event, from + i, from + i + 1})
			i++
			continue
		}
		n, r := unescape(raw[i:])
		t.escape(r, event, from+i, from+i+n)
		i += n
	}
}

// escape takes a character that is written as an escape. Halves of surrogate pairs belong together
// though they come in two events.
func (t *citedText) escape(r rune, event, from, to int) {
	switch {
	case t.high != 0 && utf16.IsSurrogate(r) && utf16.DecodeRune(t.high, r) != utf8.RuneError:
		r, t.high = utf16.DecodeRune(t.high, r), 0
	case utf16.IsSurrogate(r) && r < 0xdc00:
		t.flushSurrogate()
		t.high = r
		return
	default:
		t.flushSurrogate()
	}
	for _, b := range utf8.AppendRune(nil, r) {
		t.put(spot{b, event, from, to})
	}
}

// flushSurrogate takes a half of a surrogate pair that stands alone, as decoders read it.
func (t *citedText) flushSurrogate() {
	if t.high == 0 {
		return
	}
	t.high = 0
	for _, b := range []byte("\uFFFD") {
		t.put(spot{b: b})
	}
}

// unescape returns the character of the escape with which raw begins, and its length.
func unescape(raw []byte) (n int, r rune) {
	const names, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := bytes.IndexByte([]byte(names), raw[1]); i >= 0 {
		return 2, rune(values[i])
	}
	code, _ := strconv.ParseUint(string(raw[2:6]), 16, 16) // the JSON was checked
	return 6, rune(code)
}

// finish reads the end of the text.
func (t *citedText) finish() {
	t.flushSurrogate()
	switch t.marker.reading {
	case noMarker:
	case wholeMarker:
		t.endMarker(0)
	default:
		t.failMarker()
	}
	t.space = spot{}
	t.decide(t.blocks.end())
}

// say adds a byte to what was said, and looks for sentences.
func (t *citedText) say(b byte) {
	switch {
	case b == ' ' || b == '\n' || b == '\t':
		t.ended = t.ended || t.stopped
	case b == '.' || b == '!' || b == '?':
		t.stopped = true
	case b == '"' || b == '\'' || b == ')' || b == '*' || b == '_':
	case b >= 0x80 || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z':
		t.stopped = false
		if t.ended || t.blocks.fresh {
			t.phrase, t.clause = len(t.said), len(t.said)
		} else if t.cited {
			t.clause = len(t.said)
		}
		t.ended, t.cited, t.blocks.fresh = false, false, false
	default:
		t.stopped = false
	}
	t.said = append(t.said, b)
	if b >= 0x80 && (bytes.HasSuffix(t.said, []byte("。")) || bytes.HasSuffix(t.said, []byte("！")) || bytes.HasSuffix(t.said, []byte("？"))) {
		t.ended = true
	}
	if len(t.said) > 2*maxSaid {
		n := len(t.said) - maxSaid
		t.said = append(t.said[:0], t.said[n:]...)
		t.phrase, t.clause = max(0, t.phrase-n), max(0, t.clause-n)
	}
}

// undecided returns the first event of which a part may still be removed; false if there is none.
func (t *citedText) undecided() (event int, ok bool) {
	switch {
	case t.fixed:
	case t.space.b != 0:
		return t.space.event, true
	case t.marker.reading != noMarker:
		return t.marker.bytes[0].event, true
	}
	return 0, false
}

// keepMarker gives up to remove the marker that is being read.
func (t *citedText) keepMarker() { t.fixed, t.space = t.marker.reading != noMarker, spot{} }
