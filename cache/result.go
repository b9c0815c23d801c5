package cache

import (
	"encoding/binary"
	"math"

	"sidenote/retrieval"
)

// maxBody is the largest body of a value; its length is written in 32 bits.
const maxBody = 1 << 30

// The least bytes that a list's element takes: a source has eleven lengths or numbers, a score
// and a relevance, a ref two lengths. They bound what a decoder allocates for the length that a
// list claims.
const (
	minSource   = 11 + 16
	minExcluded = minSource + 2
	minRef      = 2
)

// Encode returns the value that keeps r under k, in a binary form: lists with their
// length plus one (0 is nil), strings with their length, integers as varints, floats as
// their bits. Cache, Took, Partial and Provisional are not kept. It returns nil for a
// result that is too large to keep.
func Encode(k Key, r retrieval.Result) []byte {
	size := sizeOf(r)
	if size > maxBody {
		return nil
	}
	b, bodyAt := seal(k, size)
	b = appendCount(b, len(r.Sources), r.Sources == nil)
	for i := range r.Sources {
		b = appendSource(b, &r.Sources[i])
	}
	b = appendCount(b, len(r.Excluded), r.Excluded == nil)
	for i := range r.Excluded {
		b = appendSource(b, &r.Excluded[i].Source)
		b = appendString(b, string(r.Excluded[i].Reason))
		b = appendString(b, r.Excluded[i].Detail)
	}
	b = appendCount(b, len(r.Bases), r.Bases == nil)
	for _, ref := range r.Bases {
		b = appendString(b, ref.Knowledge)
		b = appendString(b, ref.Generation)
	}
	b = appendFloat(b, r.Floor)
	b = appendString(b, string(r.Reason))
	b = binary.AppendVarint(b, int64(r.Retrieved))
	b = binary.AppendVarint(b, int64(r.Unique))
	return finish(b, bodyAt)
}

// Decode returns the result that Encode wrote under k. Anything else (the value of
// another key, tenant or schema, a flipped bit, a byte too many) is a Mismatch. It
// allocates at most a small multiple of len(data) and keeps no reference to data.
func Decode(k Key, data []byte) (retrieval.Result, error) {
	body, err := Body(k, data)
	if err != nil {
		return retrieval.Result{}, err
	}
	d := decoder{rest: string(body)} // one copy, which all strings of the result share
	var r retrieval.Result
	if n, ok := d.count(minSource); ok {
		r.Sources = make([]retrieval.Source, n)
		for i := range r.Sources {
			d.source(&r.Sources[i])
		}
	}
	if n, ok := d.count(minExcluded); ok {
		r.Excluded = make([]retrieval.Excluded, n)
		for i := range r.Excluded {
			e := &r.Excluded[i]
			d.source(&e.Source)
			e.Reason, e.Detail = retrieval.ExcludeReason(d.string()), d.string()
		}
	}
	if n, ok := d.count(minRef); ok {
		r.Bases = make([]retrieval.Ref, n)
		for i := range r.Bases {
			r.Bases[i] = retrieval.Ref{Knowledge: d.string(), Generation: d.string()}
		}
	}
	r.Floor = d.float()
	r.Reason = retrieval.Reason(d.string())
	r.Retrieved, r.Unique = d.int(), d.int()
	if d.broken || d.rest != "" {
		return retrieval.Result{}, MismatchBody
	}
	return r, nil
}

// sizeOf estimates the encoded size of r.
func sizeOf(r retrieval.Result) int {
	const perSource, perRef, fixed = 48, 4, 64
	n := fixed
	for i := range r.Sources {
		n += perSource + stringsOf(&r.Sources[i])
	}
	for i := range r.Excluded {
		n += perSource + stringsOf(&r.Excluded[i].Source) + len(r.Excluded[i].Reason) + len(r.Excluded[i].Detail)
	}
	for _, ref := range r.Bases {
		n += perRef + len(ref.Knowledge) + len(ref.Generation)
	}
	return n
}

func stringsOf(s *retrieval.Source) int {
	return len(s.Type) + len(s.Knowledge) + len(s.Doc) + len(s.Name) + len(s.Section) +
		len(s.Text) + len(s.Before) + len(s.After) + len(s.Sketch)
}

func appendSource(b []byte, s *retrieval.Source) []byte {
	b = appendString(b, s.Type)
	b = appendString(b, s.Knowledge)
	b = appendString(b, s.Doc)
	b = binary.AppendVarint(b, int64(s.Chunk))
	b = appendString(b, s.Name)
	b = appendString(b, s.Section)
	b = appendString(b, s.Text)
	b = appendString(b, s.Before)
	b = appendString(b, s.After)
	b = appendString(b, s.Sketch)
	b = binary.AppendVarint(b, int64(s.Tokens))
	b = appendFloat(b, s.Score)
	return appendFloat(b, s.Relevance)
}

func appendCount(b []byte, n int, isNil bool) []byte {
	if isNil {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(n)+1)
}

func appendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// A decoder reads a body from the front. After the first malformed byte it is broken
// and returns zeros.
type decoder struct {
	rest   string
	broken bool
}

func (d *decoder) fail() {
	d.rest, d.broken = "", true
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

func (d *decoder) source(s *retrieval.Source) {
	s.Type, s.Knowledge, s.Doc = d.string(), d.string(), d.string()
	s.Chunk = d.int()
	s.Name, s.Section = d.string(), d.string()
	s.Text, s.Before, s.After = d.string(), d.string(), d.string()
	s.Sketch = d.string()
	s.Tokens = d.int()
	s.Score, s.Relevance = d.float(), d.float()
}
