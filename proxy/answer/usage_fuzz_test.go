package answer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"sidenote/proxy/route"
)

// The result does not depend on how the input is split, numbers stay within bounds, and if a JSON
// object has a single usage, the reader finds what encoding/json finds. (U9, U14)
func FuzzReader(f *testing.F) {
	for _, c := range golden {
		if len(c.answer) < 64<<10 {
			f.Add(c.answer, uint64(len(c.answer)), c.stream())
		}
	}
	for _, seed := range []string{
		`"usage"usage":{"prompt_tokens":1}`, `"usage""usage":{"prompt_tokens":1}`, `\"usage"usage":{"prompt_tokens":1}`,
		`{"usage":{"usage":{"prompt_tokens":2},"prompt_tokens":1,"completion_tokens":1}}`, `{"usage":{"prompt_tokens":-1e-3}}`, `{"usage":{"prompt_tokens":1E2}}`,
	} {
		f.Add(seed, uint64(1), false)
	}
	f.Fuzz(func(t *testing.T, answer string, seed uint64, stream bool) {
		whole := readUsage(route.Chat, stream, "", answer)
		if got := readUsage(route.Chat, stream, "", piecesUsage(answer, seed)...); got != whole {
			t.Fatalf("in pieces %s, whole %s", got, whole)
		}
		if strings.Contains(whole, "but") || strings.Contains(whole, "and ") {
			t.Fatal(whole)
		}
		var in, from, out, of int64
		if n, _ := fmt.Sscanf(whole, "%d(%d)+%d(%d)", &in, &from, &out, &of); n == 4 &&
			(from < 0 || from > in || of < 0 || of > out || in > 1e8 || out > 2e8) {
			t.Fatal(whole)
		}
		if want, ok := reference(answer); ok && !stream && whole != want {
			t.Fatalf("found %s, encoding/json %s", whole, want)
		}
	})
}

// reference returns input and output of the top-level usage of a JSON object. ok is false if text
// is not one, or a UsageReader may read it differently.
func reference(answer string) (want string, ok bool) {
	var top map[string]json.RawMessage
	if !strings.HasPrefix(answer, "{") || len(answer) > 3<<10 || json.Unmarshal([]byte(answer), &top) != nil ||
		strings.Count(answer, `usage`) != 1 || strings.Count(answer, `"usage"`) != 1 ||
		strings.Count(answer, `_tokens`) > 2 || strings.Contains(answer, `\`) {
		return "", false
	}
	var object map[string]json.RawMessage
	if top["usage"] == nil || json.Unmarshal(top["usage"], &object) != nil || object["prompt_tokens"] == nil || object["completion_tokens"] == nil {
		return "", false
	}
	in, inOK := countOf(object["prompt_tokens"])
	out, outOK := countOf(object["completion_tokens"])
	if !inOK || !outOK {
		return "", false // covered by TestLies
	}
	return fmt.Sprintf("%d(0)+%d(0)", in, out), true
}

func countOf(value json.RawMessage) (n int64, ok bool) {
	var f float64
	if strings.ContainsAny(string(value), ".eE-") || string(value) == "null" || json.Unmarshal(value, &f) != nil {
		return 0, false
	}
	return int64(math.Round(f)), f <= 1e8
}
