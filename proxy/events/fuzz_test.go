package events_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// It makes no difference where pieces end, and if a JSON object holds one usage, the
// Reader finds what encoding/json finds.
func FuzzReader(f *testing.F) {
	for _, c := range golden {
		f.Add(c.answer, uint64(len(c.answer)))
	}
	for _, seed := range []string{
		`"usage"usage":{"prompt_tokens":1}`, `"usage""usage":{"prompt_tokens":1}`, `\"usage"usage":{"prompt_tokens":1}`,
		`{"usage":{"usage":{"prompt_tokens":2},"prompt_tokens":1}}`, `{"usage":{"prompt_tokens":-1e-3}}`, `{"usage":{"prompt_tokens":1E2}}`,
	} {
		f.Add(seed, uint64(1))
	}
	f.Fuzz(func(t *testing.T, answer string, seed uint64) {
		whole := read("", answer)
		if got := read("", pieces(answer, seed)...); got != whole {
			t.Fatalf("in pieces %s, whole %s", got, whole)
		}
		if want, ok := reference(answer); ok && readAs(false, "", answer) != want {
			t.Fatalf("found %s, encoding/json %s", whole, want)
		}
	})
}

// reference reads the top-level usage of a JSON object. ok is false if text is none, has
// another usage, or one that is too long.
func reference(answer string) (want string, ok bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal([]byte(answer), &top) != nil || top["usage"] == nil ||
		strings.Count(answer, `usage`) != 1 || strings.Count(answer, `"usage"`) != 1 || len(top["usage"]) > 8<<10 {
		return "", false
	}
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(top["usage"])))
	decoder.UseNumber()
	if decoder.Decode(&object) != nil {
		return "absent", true
	}
	switch v := object["prompt_tokens"].(type) {
	case nil:
		return "absent", true
	case json.Number:
		return judge(v)
	}
	return "not-a-number", true
}

func judge(number json.Number) (want string, ok bool) {
	if i := strings.IndexAny(string(number), "eE"); i >= 0 && len(number)-i > 4 {
		return "", false // big.Rat would take too much memory
	}
	r, ok := new(big.Rat).SetString(string(number))
	switch {
	case !ok:
		return "", false
	case r.Sign() < 0:
		return "negative", true
	case !r.IsInt():
		return "not-a-number", true
	case r.Cmp(big.NewRat(100_000_000, 1)) > 0:
		return "too-large", true
	}
	return fmt.Sprint(r.Num()), true
}
