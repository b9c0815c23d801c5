package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"sidenote/retrieval/knowledge/chunk"
)

// errFull means that there are more texts than one segment can number.
var errFull = errors.New("too much for one segment")

// A draft is the data from which a Writer makes the image of a segment. Documents are added in
// order of id, each before its texts.
type draft struct {
	rows       []int64
	firsts     []uint32
	labels     []string // ids and names, by document
	sections   distinct
	sectionOf  []uint32
	sets       distinct // attributes
	setOf      []uint32
	values     valuesDraft // of the sets
	attributes valuesTable // values in their final form
	counters   distinct
	tokens     [][]uint32 // by counter, by text; trailing ones may be missing
	texts      []string
	sketches   [][]byte // by text
	bytes      uint64   // length of the texts
}

// distinct numbers distinct strings in order of first use.
type distinct struct {
	list    []string
	numbers map[string]uint32
}

func (n *distinct) number(name string) uint32 {
	number, ok := n.numbers[name]
	if !ok {
		if n.numbers == nil {
			n.numbers = map[string]uint32{}
		}
		number = uint32(len(n.list))
		n.numbers[name] = number
		n.list = append(n.list, name)
	}
	return number
}

// document adds a document. attributes are encoded by chunk.EncodeAttributes; most documents of a
// base share theirs with others.
func (d *draft) document(row int64, id, name, attributes string) {
	d.rows = append(d.rows, row)
	d.setOf = append(d.setOf, d.sets.number(attributes))
	d.firsts = append(d.firsts, uint32(len(d.sectionOf)))
	d.labels = append(d.labels, id, name)
}

// text adds a text of the last document. It keeps sketch until the image is made.
func (d *draft) text(section, text string, counts []chunk.Count, sketch []byte) {
	for _, c := range counts {
		i := int(d.counters.number(c.Counter))
		if i == len(d.tokens) {
			d.tokens = append(d.tokens, nil)
		}
		d.tokens[i] = append(d.tokens[i], make([]uint32, len(d.texts)-len(d.tokens[i]))...)
		d.tokens[i] = append(d.tokens[i], uint32(c.Tokens))
	}
	d.sectionOf = append(d.sectionOf, d.sections.number(section))
	d.texts, d.sketches = append(d.texts, text), append(d.sketches, sketch)
	d.bytes += uint64(len(text))
}

// counts returns the sizes of the image.
func (d *draft) counts() (textCounts, error) {
	c := textCounts{
		documents: uint64(len(d.rows)), sections: uint64(len(d.sections.list)), sets: uint64(len(d.sets.list)),
		texts: uint64(len(d.texts)), bodies: d.bytes, counters: uint64(len(d.counters.list)),
		keys: uint64(len(d.attributes.keys)), values: uint64(len(d.attributes.values)), pairs: uint64(len(d.attributes.pairs)),
	}
	for _, list := range d.strings() {
		for _, s := range list {
			c.strings += uint64(len(s))
		}
	}
	if c.bodies > maxBodies || c.strings > math.MaxUint32 || c.counters > maxCounters {
		return c, fmt.Errorf("%d texts of %d bytes: %w", c.texts, c.bodies, errFull)
	}
	return c, nil
}

// strings returns all strings in the order of the image.
func (d *draft) strings() [6][]string {
	return [...][]string{d.labels, d.sections.list, d.sets.list, d.counters.list, d.attributes.keys, d.attributes.values}
}

// segment returns the image of a segment with the texts and the given postings.
func (d *draft) segment(postings []byte) ([]byte, error) {
	d.attributes = d.values.table()
	c, err := d.counts()
	if err != nil {
		return nil, err
	}
	image := make([]byte, fileHeader+c.bytes()+uint64(len(postings)))
	copy(image, fileMagic)
	binary.LittleEndian.PutUint32(image[8:], fileFormat)
	binary.LittleEndian.PutUint64(image[16:], c.bytes())
	binary.LittleEndian.PutUint64(image[24:], uint64(len(postings)))
	binary.LittleEndian.PutUint32(image[12:], headerChecksum(image))
	copy(image[fileHeader+c.bytes():], postings)
	d.write(image[fileHeader:fileHeader+c.bytes()], c)
	return image, nil
}

// write writes the texts into image.
func (d *draft) write(image []byte, c textCounts) {
	copy(image, textsMagic)
	for i, n := range []uint64{c.documents, c.sections, c.sets, c.texts, c.strings, c.bodies, c.counters, c.keys, c.values, c.pairs} {
		binary.LittleEndian.PutUint32(image[8+4*i:], uint32(n))
	}
	x := c.slice(image)
	for i, row := range d.rows {
		binary.LittleEndian.PutUint64(x.rows[8*i:], uint64(row))
		putNumber(x.firsts, i, int(d.firsts[i]))
		putNumber(x.setOf, i, int(d.setOf[i]))
	}
	putNumber(x.firsts, x.documents, x.count)
	at, i := 0, 0
	for _, list := range d.strings() {
		for _, s := range list {
			putNumber(x.offsets, i, at)
			at += copy(x.strings[at:], s)
			i++
		}
	}
	putNumber(x.offsets, i, at)
	at = 0
	for t, text := range d.texts {
		putNumber(x.sectionOf, t, int(d.sectionOf[t]))
		putNumber(x.starts, t, at)
		body := x.bodies[at : at+copy(x.bodies[at:], text)]
		copy(x.sketch(t), d.sketches[t])
		putNumber(x.sums, t, int(x.sum(t, body)))
		at += len(body)
	}
	putNumber(x.starts, x.count, at)
	for i, counts := range d.tokens {
		for t, n := range counts {
			putNumber(x.counts, i*x.count+t, int(n))
		}
	}
	a := &d.attributes
	for _, list := range []struct {
		image   []byte
		numbers []uint32
	}{{x.keyStarts, a.keyStarts}, {x.valueStarts, a.valueStarts}, {x.pairs, a.pairs}} {
		for i, n := range list.numbers {
			putNumber(list.image, i, int(n))
		}
	}
	binary.LittleEndian.PutUint32(image[tableSum:], crc32.Checksum(image[textsHeader:textsHeader+c.table()], crc32c()))
	binary.LittleEndian.PutUint32(image[headerSum:], crc32.Checksum(image[:headerSum], crc32c()))
}

func putNumber(list []byte, i, n int) { binary.LittleEndian.PutUint32(list[4*i:], uint32(n)) }
