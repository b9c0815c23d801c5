package rewrite_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite"
)

// A message of the usual form is read as the same one is with a space in it, and
// where it is not sound the error is the same, but for the byte where it stands.
func TestUsualMessages(t *testing.T) {
	t.Parallel()
	messages := rapid.SampledFrom([]string{
		`{"role":"user","content":"a"}`, `{"role":"assistant","content":"b\n\"c\" é"}`, `{"role":"system","content":""}`, `{"role":"developer","content":"\u00e9\ud83d\ude00"}`,
		`{"role":"tool","content":"d"}`, `{"role":"user","content":"e","name":"n"}`, `{"role":"user","content":"e","role":"system"}`, `{"role":"assistant","content":null}`,
		`{"role":"user","content":[{"type":"text","text":"f"}]}`, `{"role":"user"}`, `{"role":"use","content":"g"}`, `{"role":"user","content":7}`, `{"role":"users","content":"g"}`,
		`{"role":"user","content":"\ud83d"}`, `{"role":"user","content":"\x"}`, "{\"role\":\"user\",\"content\":\"\x01\"}", "{\"role\":\"user\",\"content\":\"\xff\"}",
		`{"role":"user","content":"h"`, `{"role":"user","content":"`, `{"role":"user","content":"i"]`, `{"role":"user","content":`, `{"role":"user","con`, `7`, `{}`, ``,
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(messages, 1, 4).Draw(t, "messages")
		body := `{"messages":[` + strings.Join(list, ",") + `],"n":1}`
		spaced := strings.ReplaceAll(body, `{"role"`, `{ "role"`)
		usual, err := rewrite.Parse([]byte(body))
		other, want := rewrite.Parse([]byte(spaced))
		if told(err) != told(want) {
			t.Fatalf("%s: %v; with spaces %v", body, err, want)
		}
		if err != nil {
			return
		}
		lines := other.Outline()
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], `{ "role"`, `{"role"`)
		}
		if got := usual.Outline(); !slices.Equal(got, lines) {
			t.Errorf("%s: %q; with spaces %q", body, got, lines)
		}
	})
}

// told is err's text up to the byte that it names.
func told(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), " at byte ")
	return text
}
