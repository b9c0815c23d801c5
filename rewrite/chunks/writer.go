package chunks

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// between separates two elements of a message, and the system prompt from the first element.
const between = "\n\n"

// cutMarker is appended to the text of a chunk that was cut.
const cutMarker = " [… cut to fit]"

// defaultMinTruncated is the default of Builder.MinTruncated.
const defaultMinTruncated = 100

// A writer renders chunks as elements and counts their tokens.
type writer struct {
	counter    tokens.Counter
	exact      bool // all counts so far were exact
	renderers  []Renderer
	vocabulary tags.Vocabulary
	salt       uint64          // hash of the vocabulary, part of the keys of counts
	tags       map[string]*tag // the tags that may be written, by name
	counts     *tokens.Cache   // may be nil
	least      int             // minimum tokens of a text that was cut

	text   []byte      // insides of elements, one after another
	shown  []Attribute // attributes of the last element
	closed int         // tokens of '>'; 0 if not counted yet
}

// A tag is a tag name with the token counts of the text around its elements; 0 if not counted
// yet.
type tag struct {
	open, close string // "<thinking", "\n</thinking"
	opens       int    // tokens of open
	joins       int    // tokens of '>', a blank line and open
	follows     int    // tokens that open adds as the first element of a lane
}

// A block is a rendered chunk. Its inside is the text between the name in the opening tag and the
// final '>' of the closing tag: ` id="1">…</thinking`.
type block struct {
	tag        *tag
	role       Role
	start, end int // of the inside, in writer.text
	head       int // offset of the body within the inside
	tokens     int // of the inside
	out        ExcludeReason
	detail     string
}

// size returns the length of the element in bytes.
func (b *block) size() int { return len(b.tag.open) + b.end - b.start + len(">") }

// seed is shared so that equal vocabularies have equal cache keys.
var seed = maphash.MakeSeed()

// texts pools the buffers of writers.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// newWriter returns a writer for one Build. It must be released.
func (b *Builder) newWriter() (*writer, error) {
	for _, name := range b.Tags {
		if err := CheckTag(name); err != nil {
			return nil, err
		}
	}
	names := slices.Concat(Tags(), b.Tags, b.Protected)
	w := &writer{
		counter: b.Counter, exact: true, renderers: b.Renderers, counts: b.Counts, least: b.MinTruncated,
		vocabulary: tags.NewVocabulary(names...), tags: make(map[string]*tag, len(names)),
		salt: maphash.String(seed, strings.Join(names, " ")), text: (*texts.Get().(*[]byte))[:0],
	}
	if w.counter == nil {
		w.counter, w.exact = quarters{}, false
	}
	if w.least == 0 {
		w.least = defaultMinTruncated
	}
	for _, name := range names[:len(names)-len(b.Protected)] {
		w.tags[name] = &tag{open: "<" + name, close: "\n</" + name}
	}
	return w, nil
}

// quarters is a Counter that estimates four characters per token.
type quarters struct{}

// Count returns the estimate, which is never exact.
func (quarters) Count(text string) (n int, exact bool) {
	return (utf8.RuneCountInString(text) + 3) / 4, false
}

// maxPooled is the largest buffer kept in the pool, in bytes.
const maxPooled = 8 << 20

// release returns the buffer to the pool.
func (w *writer) release() {
	if text := w.text; cap(text) <= maxPooled {
		texts.Put(&text)
	}
	w.text = nil
}

func (w *writer) count(text string) int {
	n, exact := w.counter.Count(text)
	w.exact = w.exact && exact
	return n
}

func (w *writer) opens(t *tag) int {
	if t.opens == 0 {
		t.opens = w.count(t.open)
	}
	return t.opens
}

func (w *writer) joins(t *tag) int {
	if t.joins == 0 {
		t.joins = w.count(">" + between + t.open)
	}
	return t.joins
}

func (w *writer) closes() int {
	if w.closed == 0 {
		w.closed = w.count(">")
	}
	return w.closed
}

// follows returns the tokens that the opening tag, after a blank line if there is a prompt, adds
// at the beginning of a lane.
func (w *writer) follows(l *lane, t *tag) int {
	switch {
	case t.follows > 0:
	case l.prompt != "":
		t.follows = w.delta(l.before+l.prompt, between+t.open)
	default:
		t.follows = w.delta(l.before, t.open)
	}
	return t.follows
}

func (w *writer) delta(old, added string) int {
	n, exact := tokens.Delta(w.counter, old, added)
	w.exact = w.exact && exact
	return n
}

// grow reserves memory for the chunks of a list.
func (w *writer) grow(list []Chunk) {
	const around = 128 // bytes of tags and attributes
	size := 0
	for i := range list {
		size += len(list[i].Content.text) + around
	}
	w.text = slices.Grow(w.text, size)
}

// render renders chunk i and counts it.
func (w *writer) render(c *Chunk, i int, b *block) error {
	e, role := w.element(c)
	b.role, b.tag = role, w.tags[e.Tag]
	switch {
	case b.tag == nil:
		return wrong(field(i, "type"), "its renderer writes the tag %.80q, which the Builder's Tags do not have", e.Tag)
	case !b.role.known():
		return wrong(field(i, "type"), "its renderer gives it the role %.40q; use system, user or assistant", b.role)
	}
	b.start = len(w.text)
	for _, a := range e.Attributes {
		if !legalName(a.Name) {
			return wrong(field(i, "type"), "its renderer writes the attribute %.80q, which is not a legal name", a.Name)
		}
		w.text = w.vocabulary.AppendAttr(w.text, a.Name, a.Value)
	}
	w.text = append(w.text, ">\n"...)
	b.head = len(w.text) - b.start
	w.inside(b, e.Body)
	return nil
}

// element returns the element of a chunk. It is valid until the next call.
func (w *writer) element(c *Chunk) (Element, Role) {
	for _, r := range w.renderers {
		if r.CanRender(c) {
			return r.Render(c), r.Role(c)
		}
	}
	r := rowOf(c)
	e := r.render(c, w.shown[:0])
	w.shown = e.Attributes
	return e, r.role
}

// inside writes the body and the end of a block, and counts its inside. A block found in counts
// needs neither neutralising nor counting.
func (w *writer) inside(b *block, body Content) {
	w.finish(b, body.text)
	var key tokens.Key
	if w.counts != nil {
		key = w.counts.Key(w.text[b.start:b.end]).Of(w.salt + uint64(body.form))
		if n, _, ok := w.counts.Get(key); ok {
			b.tokens = n
			return
		}
	}
	safe := body.neutralise(w.vocabulary)
	if safe != body.text {
		w.finish(b, safe)
		b.tokens = w.count(string(w.text[b.start:b.end]))
		return
	}
	n, exact := w.counter.Count(string(w.text[b.start:b.end]))
	b.tokens, w.exact = n, w.exact && exact
	if w.counts != nil && exact {
		w.counts.Put(key, n, true)
	}
}

// finish rewrites the inside of the last block from the body on. An empty body does not take a
// line of its own.
func (w *writer) finish(b *block, body string) {
	w.text = append(w.text[:b.start+b.head], body...)
	end := b.tag.close
	if body == "" {
		end = strings.TrimPrefix(end, "\n")
	}
	w.text = append(w.text, end...)
	b.end = len(w.text)
}

// append appends the whole element to dst.
func (w *writer) append(dst []byte, b *block) []byte {
	dst = append(dst, b.tag.open...)
	dst = append(dst, w.text[b.start:b.end]...)
	return append(dst, '>')
}

// shorten cuts a block so that its inside has at most room tokens, and appends cutMarker. It
// returns false and leaves the block unchanged if less than the minimum would be left.
func (w *writer) shorten(b *block, room int) bool {
	head, whole := string(w.text[b.start:b.start+b.head]), strings.TrimSuffix(string(w.text[b.start+b.head:b.end]), b.tag.close)
	cost := func(body string) int { return w.count(head + body + b.tag.close) }
	for limit := room - cost(cutMarker); limit >= w.least; {
		body := strings.TrimRight(tokens.Cut(w.counter, whole, limit), " \t\n")
		if body == "" {
			return false
		}
		// A cut can turn code into a tag, such as i<thinking.length without its end.
		body, _ = w.vocabulary.Neutralise(body+cutMarker, false)
		n := cost(body)
		if n > room {
			limit -= n - room
			continue
		}
		b.start, b.tokens = len(w.text), n
		w.text = append(w.text, head...)
		w.finish(b, body)
		return true
	}
	return false
}

// ownString returns text as a string without copying. text must not be modified afterwards.
func ownString(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // the only reference
}
