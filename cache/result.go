package cache

import (
	"encoding/binary"

	"sidenote/retrieval"
)

// maxBody limits the body of a value, whose length is stored in 32 bits.
const maxBody = 1 << 30

// The minimum sizes of list elements: a source has flags, three strings, its chunk, its score and
// its place, a ref two lengths. They limit what a decoder allocates for the claimed length of a
// list.
const (
	minSource = 8
	minRef    = 2
)

// Encode returns the value that stores r under k, in a binary format: lists with their length plus
// one (0 is nil), strings with their length, integers as varints, scores and relevances in as few
// bytes as keep all their bits. For a source whose text its engine keeps, it stores only the
// reference to the text, in about 20 bytes: base, document, chunk and place. Repeated strings
// become numbers, see columnWriter.
//
// Cache, CacheKey, Lookups, Took, Partial, Provisional, Degraded, Planned, Reranked, Graded and
// Texts are not stored. It returns nil if the result is too large.
func Encode(k Key, r retrieval.Result) []byte {
	list := r.Excluded.Packed(r.Floor)
	size := sizeOf(r) + len(list)
	if size > maxBody {
		return nil
	}
	var room [2 << 10]byte // enough for most values
	b := room[:0]
	if size += sealed + len(k.Tenant); size > len(room) {
		b = make([]byte, 0, size)
	}
	b, bodyAt := seal(b, k)
	e := encoder{floor: r.Floor}
	b = retrieval.AppendFloat(b, r.Floor)
	b = appendCount(b, len(r.Sources), r.Sources == nil)
	for i := range r.Sources {
		b = e.source(b, &r.Sources[i])
	}
	b = retrieval.AppendString(b, list)
	b = appendCount(b, len(r.Bases), r.Bases == nil)
	for _, ref := range r.Bases {
		b = retrieval.AppendString(b, ref.Knowledge)
		b = retrieval.AppendString(b, ref.Generation)
	}
	b = retrieval.AppendString(b, string(r.Reason))
	b = binary.AppendVarint(b, int64(r.Retrieved))
	b = binary.AppendVarint(b, int64(r.Unique))
	exact := make([]byte, 0, len(b)+sumSize) // a long-lived value should not waste capacity
	return finish(append(exact, b...), bodyAt)
}

// Decode returns the result that Encode stored under k. Texts that an engine keeps are still to be
// read. Anything else (the value of another key, tenant or schema, a flipped bit, a byte too many)
// is a Mismatch. It allocates at most a small multiple of len(data) and keeps no reference to
// data.
func Decode(k Key, data []byte) (retrieval.Result, error) {
	body, err := Body(k, data)
	if err != nil {
		return retrieval.Result{}, err
	}
	d := decoder{BinaryReader: retrieval.BinaryReader{Rest: string(body)}} // one copy, which all strings of the result share
	var r retrieval.Result
	r.Floor = d.Float()
	d.floor = r.Floor
	if n, ok := d.Count(minSource); ok {
		r.Sources = make([]retrieval.Source, n)
		for i := range r.Sources {
			d.source(&r.Sources[i])
		}
	}
	list, whole := retrieval.ReadExcludedList(d.String(), r.Floor)
	if r.Excluded = list; !whole {
		d.Fail()
	}
	if n, ok := d.Count(minRef); ok {
		r.Bases = make([]retrieval.Ref, n)
		for i := range r.Bases {
			r.Bases[i] = retrieval.Ref{Knowledge: d.String(), Generation: d.String()}
		}
	}
	r.Reason = retrieval.Reason(d.String())
	r.Retrieved, r.Unique = d.Int(), d.Int()
	if d.Broken || d.Rest != "" {
		return retrieval.Result{}, MismatchBody
	}
	return r, nil
}

// sizeOf estimates the encoded size of r without the excluded candidates.
func sizeOf(r retrieval.Result) int {
	const perSource, perRef, fixed = 16, 4, 128
	n := fixed
	for i := range r.Sources {
		n += perSource + stringsOf(&r.Sources[i])
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

// A decoder reads a body.
type decoder struct {
	retrieval.BinaryReader
	floor float64
	names columnReader // bases and types
	docs  columnReader
}
