package chunk_test

import (
	"crypto/sha256"
	"math"
	"testing"

	"sidenote/retrieval/knowledge/chunk"
)

// Equal attributes have the same text, whatever their Go types.
func TestAttributesText(t *testing.T) {
	f := func(want string, attributes map[string]any) {
		t.Helper()
		got, err := chunk.EncodeAttributes(attributes)
		if got != want || err != nil {
			t.Errorf("%v: %s, %v; want %s", attributes, got, err, want)
		}
		again, err := chunk.DecodeAttributes(got)
		if text, _ := chunk.EncodeAttributes(again); text != want || err != nil {
			t.Errorf("%v: decoded and encoded again %s, %v; want %s", attributes, text, err, want)
		}
	}
	f(`{}`, nil)
	f(`{"a":0,"b":0}`, map[string]any{"b": math.Copysign(0, -1), "a": 0})
	f(`{"a":7,"b":7,"c":7,"d":true}`, map[string]any{"a": int64(7), "b": uint64(7), "c": 7.0, "d": true})
	f(`{"a":["y","x"],"b":[],"c":[]}`, map[string]any{"a": []any{"y", "x"}, "b": []any{}, "c": []string(nil)})
}

func TestSum(t *testing.T) {
	one, max := chunk.Sum{1}, chunk.Sum{}
	for i := range max {
		max[i] = 0xff
	}
	if got := max.Add(one); got != (chunk.Sum{}) {
		t.Errorf("2²⁵⁶ is %x", got)
	}
	if got := (chunk.Sum{}).Sub(one); got != max {
		t.Errorf("0 − 1 is %x", got)
	}
	a, b := chunk.Sum(sha256.Sum256([]byte("a"))), chunk.Sum(sha256.Sum256([]byte("b")))
	if a.Add(b).Sub(a) != b || a.Add(b) != b.Add(a) {
		t.Error("a sum does not come apart again")
	}
}
