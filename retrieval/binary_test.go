package retrieval

import (
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// BinaryReader reads what was written, and malformed or truncated input breaks it.
func TestReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, n, f, g := rapid.String().Draw(t, "text"), rapid.Int().Draw(t, "n"), rapid.Float64().Draw(t, "f"), rapid.Float32().Draw(t, "g")
		b := appendFloat32(AppendFloat(binary.AppendVarint(AppendString([]byte{7}, text), int64(n)), f), g)
		r := BinaryReader{Rest: string(b)}
		if r.Byte() != 7 || r.String() != text || r.Int() != n || math.Float64bits(r.Float()) != math.Float64bits(f) || math.Float32bits(r.Float32()) != math.Float32bits(g) || r.Rest != "" || r.Broken {
			t.Fatalf("%+v", r)
		}
		cut := BinaryReader{Rest: string(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])}
		if cut.Byte(); cut.String() != "" && cut.Broken {
			t.Fatal("reads a part of a string")
		}
		if cut.Int(); cut.Float() != 0 && cut.Broken {
			t.Fatal("reads a part of a number")
		}
		if cut.Float32(); !cut.Broken || cut.Rest != "" {
			t.Fatalf("%+v", cut)
		}
	})
	for _, long := range []string{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if r := (BinaryReader{Rest: long}); r.Uvarint() != 0 || !r.Broken {
			t.Errorf("%q is a number", long)
		}
	}
	for list, ok := range map[string]bool{"\x00": false, "\x01": true, "\x03ab": true, "\x04ab": false} {
		r := BinaryReader{Rest: list}
		if n, got := r.Count(1); got != ok || ok && n != int(list[0])-1 {
			t.Errorf("%q: %d, %t", list, n, got)
		}
	}
}
