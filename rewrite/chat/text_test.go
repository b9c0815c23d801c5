package chat_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/chat"
)

// Unquote decodes like encoding/json, whatever escapes are at whatever position in a word.
func TestUnquoteIsThatOfEncodingJSON(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{
		"a", "b", " ", "word", "eight by", `\n`, `\t`, `\r`, `\b`, `\f`, `\/`, `\\`, `\"`, "é", "休", "🙂", `\u0041`, `\u00e9`, `\u4F11`,
		`\ud83d\ude42`, `\ud83d`, `\ude42`, `\ud83d\n`, `\ud83dx`, `\u0000`,
	})
	rapid.Check(t, func(t *rapid.T) {
		raw := `"`
		for _, p := range rapid.SliceOfN(part, 0, 60).Draw(t, "parts") {
			raw += p
		}
		raw += `"`
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if got := chat.Unquote([]byte(raw)); got != want {
			t.Fatalf("%s is %q, want %q", raw, got, want)
		}
	})
}
