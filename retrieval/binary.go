package retrieval

import (
	"encoding/binary"
	"math"
)

// AppendString appends the length of a string and the string.
func AppendString[S ~string | ~[]byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendFloat appends a number in 8 bytes.
func AppendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// appendFloat32 appends a number in 4 bytes.
func appendFloat32(b []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

// A BinaryReader decodes values from the front of Rest. After malformed input it is Broken and
// returns zero values. The strings that it returns share the memory of Rest.
type BinaryReader struct {
	Rest   string // not yet decoded
	Broken bool
}

// Fail makes the BinaryReader broken.
func (r *BinaryReader) Fail() { r.Rest, r.Broken = "", true }

// Byte reads a byte.
func (r *BinaryReader) Byte() byte {
	if r.Rest == "" {
		r.Fail()
		return 0
	}
	b := r.Rest[0]
	r.Rest = r.Rest[1:]
	return b
}

// Uvarint reads what binary.AppendUvarint wrote.
func (r *BinaryReader) Uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.Rest) && i < binary.MaxVarintLen64; i++ {
		c := r.Rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break // beyond 64 bits
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.Rest = r.Rest[i+1:]
			return v
		}
	}
	r.Fail()
	return 0
}

// Int reads what binary.AppendVarint wrote.
func (r *BinaryReader) Int() int {
	u := r.Uvarint()
	return int(int64(u>>1) ^ -int64(u&1)) //nolint:gosec // zigzag
}

// String reads what AppendString wrote.
func (r *BinaryReader) String() string {
	n := r.Uvarint()
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return ""
	}
	s := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return s
}

// Float reads what AppendFloat wrote.
func (r *BinaryReader) Float() float64 {
	const size = 8
	if len(r.Rest) < size {
		r.Fail()
		return 0
	}
	bits := binary.LittleEndian.Uint64([]byte(r.Rest[:size]))
	r.Rest = r.Rest[size:]
	return math.Float64frombits(bits)
}

// Float32 reads what AppendFloat32 wrote.
func (r *BinaryReader) Float32() float32 {
	const size = 4
	if len(r.Rest) < size {
		r.Fail()
		return 0
	}
	bits := binary.LittleEndian.Uint32([]byte(r.Rest[:size]))
	r.Rest = r.Rest[size:]
	return math.Float32frombits(bits)
}

// Count reads the length, plus one, of a list whose elements take at least size bytes; ok is false
// for 0, a nil list.
func (r *BinaryReader) Count(size int) (n int, ok bool) {
	u := r.Uvarint()
	if u == 0 {
		return 0, false
	}
	if u-1 > uint64(len(r.Rest)/size) {
		r.Fail()
		return 0, false
	}
	return int(u - 1), true
}
