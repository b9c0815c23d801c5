package document

import (
	"encoding/binary"
	"math/bits"
)

// A Sum is a number mod 2²⁵⁶, least significant byte first. Those of a base's
// documents add up to the base's own, in any order.
type Sum [32]byte

// Add returns s + o.
func (s Sum) Add(o Sum) (out Sum) {
	var carry uint64
	for i := 0; i < len(s); i += 8 {
		var v uint64
		v, carry = bits.Add64(binary.LittleEndian.Uint64(s[i:]), binary.LittleEndian.Uint64(o[i:]), carry)
		binary.LittleEndian.PutUint64(out[i:], v)
	}
	return out
}

// Sub returns s − o.
func (s Sum) Sub(o Sum) (out Sum) {
	var borrow uint64
	for i := 0; i < len(s); i += 8 {
		var v uint64
		v, borrow = bits.Sub64(binary.LittleEndian.Uint64(s[i:]), binary.LittleEndian.Uint64(o[i:]), borrow)
		binary.LittleEndian.PutUint64(out[i:], v)
	}
	return out
}
