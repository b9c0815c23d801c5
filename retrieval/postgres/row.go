package postgres

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A row is a row of a result in binary form. Its methods return the value of the next column and
// keep the first error: what a server sends is not trusted.
type row struct {
	values [][]byte
	next   int
	err    error
}

// bytes returns the raw value of the next column, which is valid until the next row; nil for NULL.
func (r *row) bytes() []byte {
	if r.next >= len(r.values) {
		r.fail("there are %d columns, not %d", len(r.values), r.next+1)
		return nil
	}
	r.next++
	return r.values[r.next-1]
}

func (r *row) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// text returns a text; "" for NULL.
func (r *row) text() string { return string(r.bytes()) }

// blob returns a copy of a bytea; nil for NULL.
func (r *row) blob() []byte {
	b := r.bytes()
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// integer returns a smallint, integer or bigint; 0 for NULL.
func (r *row) integer() int64 {
	switch b := r.bytes(); len(b) {
	case 0:
		return 0
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))) //nolint:gosec // two's complement
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // two's complement
	case 8:
		return int64(binary.BigEndian.Uint64(b)) //nolint:gosec // two's complement
	default:
		r.fail("column %d: an integer of %d bytes", r.next, len(b))
		return 0
	}
}

// again returns the integer that was read last.
func (r *row) again() int64 {
	r.next--
	return r.integer()
}

// count returns an integer that cannot be negative.
func (r *row) count() int {
	n := r.integer()
	if n < 0 || n > math.MaxInt32<<16 {
		r.fail("column %d: count %d", r.next, n)
		return 0
	}
	return int(n)
}

// boolean returns a boolean; false for NULL.
func (r *row) boolean() bool {
	b := r.bytes()
	if len(b) > 1 {
		r.fail("column %d: a boolean of %d bytes", r.next, len(b))
		return false
	}
	return len(b) == 1 && b[0] != 0
}

// float returns a double precision; 0 for NULL.
func (r *row) float() float64 {
	b := r.bytes()
	if len(b) != 0 && len(b) != 8 {
		r.fail("column %d: a number of %d bytes", r.next, len(b))
	}
	if len(b) != 8 {
		return 0
	}
	f := math.Float64frombits(binary.BigEndian.Uint64(b))
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// arrayHead is the size of the head of a one-dimensional array: the number of dimensions, a flag,
// the type of the elements, their number, and the index of the first.
const arrayHead = 20

// elements calls each with the elements of an array of one dimension without NULLs.
func (r *row) elements(each func(i, n int, b []byte)) {
	b := r.bytes()
	if len(b) < arrayHead {
		return // NULL, or empty
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	if binary.BigEndian.Uint32(b) != 1 || n < 0 || n > len(b)/4 {
		r.fail("column %d: an array of %d elements in %d bytes", r.next, n, len(b))
		return
	}
	b = b[arrayHead:]
	for i := range n {
		if len(b) < 4 {
			r.fail("column %d: the array is cut off", r.next)
			return
		}
		size := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint64(size) > uint64(len(b)) {
			r.fail("column %d: element %d of %d bytes", r.next, i, size)
			return
		}
		each(i, n, b[:size])
		b = b[size:]
	}
}

// floats returns a real[]; nil for NULL.
func (r *row) floats() (list []float32) {
	r.elements(func(i, n int, b []byte) {
		if list == nil {
			list = make([]float32, n)
		}
		if len(b) != 4 {
			r.fail("column %d: element %d has %d bytes", r.next, i, len(b))
			return
		}
		list[i] = math.Float32frombits(binary.BigEndian.Uint32(b))
	})
	return list
}

// integers returns a bigint[]; nil for NULL.
func (r *row) integers() (list []int64) {
	r.elements(func(i, n int, b []byte) {
		if list == nil {
			list = make([]int64, n)
		}
		if len(b) != 8 {
			r.fail("column %d: element %d has %d bytes", r.next, i, len(b))
			return
		}
		list[i] = int64(binary.BigEndian.Uint64(b)) //nolint:gosec // two's complement
	})
	return list
}

// sortedValues returns the values of a map in the order of its keys.
func sortedValues(m map[string]string) []string {
	var values []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}
