package cache

import (
	"encoding/binary"
	"math"
	"slices"

	"sidenote/retrieval"
)

// maxBody is the largest body of a value; its length is written in 32 bits.
const maxBody = 1 << 30

// The least bytes that a list's element takes: a source has flags, three strings, its chunk, its
// score and its place, a ref two lengths. They bound what a decoder allocates for the length that
// a list claims.
const (
	minSource   = 8
	minExcluded = minSource + 1
	minRef      = 2
)

// Encode returns the value that keeps r under k, in a binary form: lists with their
// length plus one (0 is nil), strings with their length, integers as varints, scores and
// relevances as few bytes as keep all their bits. Of a source whose text its engine keeps there
// is what the text is found by again, in about 20 bytes: base, document, chunk and place. Strings
// that come again are a number the second time, see column.
//
// Cache, CacheKey, Lookups, Took, Partial, Provisional, Degraded,
// Planned, Reranked, Graded and Texts are not kept. It returns nil for a result that is
// too large to keep.
func Encode(k Key, r retrieval.Result) []byte {
	size := sizeOf(r)
	if size > maxBody {
		return nil
	}
	var e encoder
	var bodyAt int
	e.b, bodyAt = seal(make([]byte, 0, sealed+len(k.Tenant)+size), k)
	e.floor = r.Floor
	e.float(r.Floor)
	e.count(len(r.Sources), r.Sources == nil)
	for i := range r.Sources {
		e.source(&r.Sources[i])
	}
	e.count(len(r.Excluded), r.Excluded == nil)
	for i := range r.Excluded {
		e.fallen(&r.Excluded[i])
	}
	e.count(len(r.Bases), r.Bases == nil)
	for _, ref := range r.Bases {
		e.b = appendString(e.b, ref.Knowledge)
		e.b = appendString(e.b, ref.Generation)
	}
	e.b = appendString(e.b, string(r.Reason))
	e.b = binary.AppendVarint(e.b, int64(r.Retrieved))
	e.b = binary.AppendVarint(e.b, int64(r.Unique))
	b := finish(e.b, bodyAt)
	if cap(b)-len(b) > len(b)/16 { // what is kept for long should not take more than it holds
		b = slices.Clone(b)
	}
	return b
}

// Decode returns the result that Encode wrote under k; the texts of sources that an engine
// keeps are still to be read. Anything else (the value of another key, tenant or schema, a
// flipped bit, a byte too many) is a Mismatch. It allocates at most a small multiple of
// len(data) and keeps no reference to data.
func Decode(k Key, data []byte) (retrieval.Result, error) {
	body, err := Body(k, data)
	if err != nil {
		return retrieval.Result{}, err
	}
	d := decoder{rest: string(body)} // one copy, which all strings of the result share
	var r retrieval.Result
	r.Floor = d.float()
	d.floor = r.Floor
	if n, ok := d.count(minSource); ok {
		r.Sources = make([]retrieval.Source, n)
		for i := range r.Sources {
			d.source(&r.Sources[i])
		}
	}
	if n, ok := d.count(minExcluded); ok {
		r.Excluded = make([]retrieval.Excluded, n)
		for i := range r.Excluded {
			d.fallen(&r.Excluded[i])
		}
	}
	if n, ok := d.count(minRef); ok {
		r.Bases = make([]retrieval.Ref, n)
		for i := range r.Bases {
			r.Bases[i] = retrieval.Ref{Knowledge: d.string(), Generation: d.string()}
		}
	}
	r.Reason = retrieval.Reason(d.string())
	r.Retrieved, r.Unique = d.int(), d.int()
	if d.broken || d.rest != "" {
		return retrieval.Result{}, MismatchBody
	}
	return r, nil
}

// sizeOf estimates the encoded size of r.
func sizeOf(r retrieval.Result) int {
	const perSource, perRef, fixed = 16, 4, 128
	n := fixed
	for i := range r.Sources {
		n += perSource + stringsOf(&r.Sources[i])
	}
	for i := range r.Excluded {
		n += perSource + len(r.Excluded[i].Doc)/4
	}
	for _, ref := range r.Bases {
		n += perRef + len(ref.Knowledge) + len(ref.Generation)
	}
	return n
}

func stringsOf(s *retrieval.Source) int {
	if s.At.Kept {
		return len(s.Doc) / 4
	}
	return len(s.Doc) + len(s.Name) + len(s.Section) + len(s.Text) + len(s.Before) + len(s.After) + len(s.Sketch)
}

// A decoder reads a body from the front. After the first malformed byte it is broken
// and returns zeros.
type decoder struct {
	rest   string
	broken bool
	columns
}

func (d *decoder) fail() {
	d.rest, d.broken = "", true
}

func (d *decoder) byte() byte {
	if d.rest == "" {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		c := d.rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break // beyond 64 bits
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.rest = d.rest[i+1:]
			return v
		}
	}
	d.fail()
	return 0
}

// int undoes the zigzag of binary.AppendVarint.
func (d *decoder) int() int {
	u := d.uvarint()
	return int(int64(u>>1) ^ -int64(u&1))
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) float() float64 {
	if len(d.rest) < 8 {
		d.fail()
		return 0
	}
	bits := binary.LittleEndian.Uint64([]byte(d.rest[:8]))
	d.rest = d.rest[8:]
	return math.Float64frombits(bits)
}

func (d *decoder) float32() float32 {
	if len(d.rest) < 4 {
		d.fail()
		return 0
	}
	bits := binary.LittleEndian.Uint32([]byte(d.rest[:4]))
	d.rest = d.rest[4:]
	return math.Float32frombits(bits)
}

// count reads the length of a list whose elements take at least size bytes; ok is false
// for a nil list.
func (d *decoder) count(size int) (n int, ok bool) {
	u := d.uvarint()
	if u == 0 {
		return 0, false
	}
	if u-1 > uint64(len(d.rest)/size) {
		d.fail()
		return 0, false
	}
	return int(u - 1), true
}
