package answer

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A spot is a byte of a text and its place in an event.
type spot struct {
	b        byte
	event    int // number of the event
	from, to int // range of the byte, or of the escape that it comes from
	at       int // offset of the byte in the text
}

// A citedText reads one text byte by byte.
type citedText struct {
	checker  *CitationChecker
	number   int          // the choice, or the place in the output
	length   int          // bytes read
	removed  []int        // offsets of bytes that the client does not get
	foreign  int          // annotations that the upstream sent
	runes    int          // code points passed on to the client
	added    []annotation // annotations not yet written
	marker   candidate    // the marker that is being read
	start    int          // code points before marker
	atHead   bool         // only spaces stand before marker on its line
	space    spot         // the byte before marker (or the last byte) if it is a space; else b is 0
	decoder  textDecoder
	said     []byte        // the last part of the text
	clause   int           // start of the clause in said
	phrase   int           // start of the sentence in said
	ended    bool          // the sentence has ended
	stopped  bool          // the last byte may end the sentence, if a space follows
	cited    bool          // the last thing read was a marker
	escaped  bool          // the last byte was a backslash
	fixed    bool          // nothing may be removed from the current marker
	finished bool          // an event finished it
	blocks   blockReader   // finds code and link texts
	thoughts reasoningTags // reasoning at the start
}

// A placed annotation cites a source at a range of code points.
type annotation struct{ start, end, id int }

// maxSaid is how many bytes of a text are kept.
const maxSaid = 2 << 10

// put reads the next byte.
func (t *citedText) put(s spot) {
	s.at = t.length
	t.length++
	if !t.thoughts.over {
		switch t.thoughts.read(s.b) {
		case begins: // the tag is not text either
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
		t.escaped = s.b == '\\' && t.blocks.run == 0 // in code a backslash is literal
		t.decide(t.blocks.read(s.b))
	}
	t.say(s.b)
	if t.space = (spot{}); s.b == ' ' {
		t.space = s
	}
}

// begins starts a marker with this byte, if it can.
func (t *citedText) begins(s spot) bool {
	if !t.marker.begin(s) {
		return false
	}
	t.atHead = !t.blocks.indented
	t.start = t.runes - 1
	t.decide(t.blocks.text(s.b))
	if t.blocks.inFence() { // opened by ~~~ just before
		t.marker.reading = noMarker
	}
	return true
}

// takeMarker adds a byte to the marker. It returns false if the byte must be read as text, because
// the marker ended before it or was none.
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

// failMarker reads the bytes of a failed marker as text.
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

// endMarker decides about a complete marker by the byte after it, 0 at the end of the text.
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

// A mention is a marker and the statement it belongs to.
type mention struct {
	ids              []int
	start, end       int // in code points
	clause, sentence string
	before           string // the bytes before the marker
}

// mention returns the mention of the marker just read.
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

// accept counts a confirmed marker and annotates it. remove reports that unknown ids may still be
// removed from it.
func (t *citedText) accept(m *mention, remove bool) {
	c := t.checker
	var given, unknown []int
	for _, id := range m.ids {
		if c.options.PromptMarkers.quotes(id, m.before) {
			continue
		}
		if _, ok := c.source(id); ok {
			given = append(given, id)
		} else if _, own := c.options.PromptMarkers[id]; !own {
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
		again := c.once && slices.ContainsFunc(t.added, func(a annotation) bool { return a.id == id })
		if !c.options.CountOnly && !again && len(t.added) < maxAnnotations {
			t.added = append(t.added, annotation{m.start, m.end, id})
		}
	}
}

// remove removes ids from the marker just read, and the space before it if no id is left. It
// returns the new end of the marker, in code points.
func (t *citedText) remove(unknown []int) (end int) {
	k, gone := &t.marker, 0
	drop := func(s spot) {
		if s.b&0xc0 != 0x80 {
			gone++
		}
		t.removed = append(t.removed, s.at)
		t.checker.edits = append(t.checker.edits, edit{event: s.event, from: s.from, to: s.to})
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

// decide accepts held markers that turned out to be citations.
func (t *citedText) decide(held []*mention) {
	for _, m := range held {
		t.accept(m, false)
	}
}

// feed reads the content of an event. raw is the JSON string without quotes, and from its offset.
func (t *citedText) feed(raw []byte, event, from int) {
	t.decoder.read(raw, from, func(b byte, from, to int) { t.put(spot{b: b, event: event, from: from, to: to}) })
}

// A textDecoder decodes JSON strings. The halves of a surrogate pair may come in two of them.
type textDecoder struct {
	high rune // a high surrogate whose low one has not come yet
}

// read passes each byte of a string without quotes to put, with the range that it comes from. from
// is the string's offset.
func (d *textDecoder) read(raw []byte, from int, put func(b byte, from, to int)) {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			d.end(put)
			put(raw[i], from+i, from+i+1)
			i++
			continue
		}
		n, r := unescape(raw[i:])
		switch {
		case d.high != 0 && utf16.IsSurrogate(r) && utf16.DecodeRune(d.high, r) != utf8.RuneError:
			r, d.high = utf16.DecodeRune(d.high, r), 0
		case utf16.IsSurrogate(r) && r < 0xdc00:
			d.end(put)
			d.high = r
			i += n
			continue
		default:
			d.end(put)
		}
		for _, b := range utf8.AppendRune(nil, r) {
			put(b, from+i, from+i+n)
		}
		i += n
	}
}

// end passes on a lone surrogate as U+FFFD, as decoders do, without its range.
func (d *textDecoder) end(put func(b byte, from, to int)) {
	if d.high == 0 {
		return
	}
	d.high = 0
	for _, b := range []byte("\uFFFD") {
		put(b, 0, 0)
	}
}

// unescape decodes the escape at the start of raw and returns its length and character.
func unescape(raw []byte) (n int, r rune) {
	const names, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := bytes.IndexByte([]byte(names), raw[1]); i >= 0 {
		return 2, rune(values[i])
	}
	code, _ := strconv.ParseUint(string(raw[2:6]), 16, 16) // the JSON is valid
	return 6, rune(code)
}

// finish handles the end of the text.
func (t *citedText) finish() {
	t.decoder.end(func(b byte, from, to int) { t.put(spot{b: b, from: from, to: to}) })
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

// say appends a byte to said and tracks sentences.
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

// undecided returns the first event of which a part may still be removed; ok is false if there is
// none.
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

// keepMarker keeps the current marker, whatever its ids.
func (t *citedText) keepMarker() { t.fixed, t.space = t.marker.reading != noMarker, spot{} }
