package index

import (
	"encoding/binary"
	"hash/crc32"
	"sort"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
)

// texts is the image of documents and their texts; image.go describes the layout. Numbers are read
// from the image in place.
type texts struct {
	documents, sections, sets, count, counters, keys, values int

	rows      []byte // by document
	firsts    []byte // by document: its first text; then count
	setOf     []byte // by document: its attributes
	offsets   []byte // of strings: id and name by document, sections, sets of attributes, names of counters, keys, values; then the end
	sectionOf []byte // by text
	starts    []byte // by text: offset in bodies; then the end
	sums      []byte // checksums, by text
	counts    []byte // by counter, by text: its tokens, 0 if unknown
	strings   []byte

	// See values.go.
	keyStarts   []byte // by attribute key: its first value; then values
	valueStarts []byte // by value: its first pair; then the end
	pairs       []byte // the sets that have the value

	sketches []byte // by text
	bodies   []byte
}

// number returns the i-th number of a list.
func number(list []byte, i int) int { return int(binary.LittleEndian.Uint32(list[4*i:])) }

func (x *texts) row(d int) int64   { return int64(binary.LittleEndian.Uint64(x.rows[8*d:])) }
func (x *texts) first(d int) int   { return number(x.firsts, d) }
func (x *texts) id(d int) []byte   { return x.string(2 * d) }
func (x *texts) name(d int) []byte { return x.string(2*d + 1) }

func (x *texts) section(t int) []byte { return x.string(2*x.documents + number(x.sectionOf, t)) }

// set returns a set of attributes as JSON.
func (x *texts) set(i int) []byte { return x.string(2*x.documents + x.sections + i) }

func (x *texts) counter(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + i)
}

// key returns an attribute key.
func (x *texts) key(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + x.counters + i)
}

// value returns an attribute value, see values.go.
func (x *texts) value(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + x.counters + x.keys + i)
}

// tokens returns the token count of a text by a counter, 0 if unknown.
func (x *texts) tokens(t int, by string) int {
	for i := range x.counters {
		if string(x.counter(i)) == by {
			return number(x.counts, i*x.count+t)
		}
	}
	return 0
}

// countsOf returns all token counts of a text.
func (x *texts) countsOf(t int) (counts []chunk.Count) {
	for i := range x.counters {
		if n := number(x.counts, i*x.count+t); n > 0 {
			counts = append(counts, chunk.Count{Counter: string(x.counter(i)), Tokens: n})
		}
	}
	return counts
}

func (x *texts) string(i int) []byte { return x.strings[number(x.offsets, i):number(x.offsets, i+1)] }

func (x *texts) body(t int) []byte { return x.bodies[number(x.starts, t):number(x.starts, t+1)] }

// sketch returns the term sketch of a text, see retrieval.Sketcher.
func (x *texts) sketch(t int) []byte { return sketchAt(x.sketches, t) }

func sketchAt(sketches []byte, t int) []byte {
	return sketches[t*retrieval.SketchBytes : (t+1)*retrieval.SketchBytes]
}

// sum returns the checksum of a text and its sketch.
func (x *texts) sum(t int, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(x.sketch(t), crc32c()), crc32c(), body)
}

// whole reports whether a text and its sketch are undamaged.
func (x *texts) whole(t int) bool { return x.sum(t, x.body(t)) == uint32(number(x.sums, t)) }

// document returns the document of a text. If all documents have one text, the numbers are equal.
func (x *texts) document(t int) int {
	if t < x.documents && x.first(t) == t && x.first(t+1) > t {
		return t
	}
	return sort.Search(x.documents, func(d int) bool { return x.first(d+1) > t })
}

// crc32c returns the polynomial that processors have an instruction for. The library makes the
// table only once.
func crc32c() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
