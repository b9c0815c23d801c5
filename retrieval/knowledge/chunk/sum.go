package chunk

import (
	"encoding/binary"
	"math/bits"
)

// A Sum is a number mod 2²⁵⁶, least significant byte first. The sum of a base is that of its
// documents' sums, in any order.
type Sum [32]byte

// Add returns s + o.
func (s Sum) Add(o Sum) Sum { return s.byWords(o, bits.Add64) }

// Sub returns s − o.
func (s Sum) Sub(o Sum) Sum { return s.byWords(o, bits.Sub64) }

// byWords applies a 64-bit operation to all words of s and o.
func (s Sum) byWords(o Sum, operation func(x, y, carry uint64) (word, carryOut uint64)) (out Sum) {
	var word, carry uint64
	for i := 0; i < len(s); i += 8 {
		word, carry = operation(binary.LittleEndian.Uint64(s[i:]), binary.LittleEndian.Uint64(o[i:]), carry)
		binary.LittleEndian.PutUint64(out[i:], word)
	}
	return out
}
