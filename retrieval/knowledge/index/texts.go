package index

import (
	"encoding/binary"
	"hash/crc32"
	"sort"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
)

// texts is the image of documents and their texts; image.go has its layout.
// The numbers stay where they lie.
type texts struct {
	documents, sections, sets, count, counters, keys, values int

	rows      []byte // by document
	firsts    []byte // by document: its first text; one more is count
	setOf     []byte // by document: its attributes
	offsets   []byte // of strings: id and name by document, sections, sets of attributes, names of counters, keys, values; one more is the end
	sectionOf []byte // by text
	starts    []byte // by text, in bodies; one more is the end
	sums      []byte // by text
	counts    []byte // by counter, by text: its tokens, 0 where unknown
	strings   []byte

	// See values.go.
	keyStarts   []byte // by key of an attribute: its first value; one more is values
	valueStarts []byte // by value: its first pair; one more is the end
	pairs       []byte // the sets that have a value

	sketches []byte // by text
	bodies   []byte
}

// number returns the i-th of a list of numbers.
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

// key returns a key of attributes.
func (x *texts) key(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + x.counters + i)
}

// value returns a value of an attribute, see values.go.
func (x *texts) value(i int) []byte {
	return x.string(2*x.documents + x.sections + x.sets + x.counters + x.keys + i)
}

// tokens returns what a counter counted of a text, 0 if it did not.
func (x *texts) tokens(t int, by string) int {
	for i := range x.counters {
		if string(x.counter(i)) == by {
			return number(x.counts, i*x.count+t)
		}
	}
	return 0
}

// countsOf returns all that was counted of a text.
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

// sketch returns that of the terms of a text, see retrieval.Sketcher.
func (x *texts) sketch(t int) []byte { return sketchAt(x.sketches, t) }

func sketchAt(sketches []byte, t int) []byte {
	return sketches[t*retrieval.SketchBytes : (t+1)*retrieval.SketchBytes]
}

// sum returns the checksum of a text and its sketch.
func (x *texts) sum(t int, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(x.sketch(t), crc32c()), crc32c(), body)
}

// whole tells whether a text and its sketch are as they were written.
func (x *texts) whole(t int) bool { return x.sum(t, x.body(t)) == uint32(number(x.sums, t)) }

// document returns the document of a text. Where each document is one text they have the same number.
func (x *texts) document(t int) int {
	if t < x.documents && x.first(t) == t && x.first(t+1) > t {
		return t
	}
	return sort.Search(x.documents, func(d int) bool { return x.first(d+1) > t })
}

// crc32c is the polynomial that processors have an instruction for. The table is
// made once by the library.
func crc32c() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
