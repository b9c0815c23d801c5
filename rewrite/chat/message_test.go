package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/chat"
)

// The fast path for common messages gives the same result as the general path, which is forced by
// a space. The errors for malformed messages are the same too, except for the offset.
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
		usual, err := chat.Completions.Parse([]byte(body))
		other, want := chat.Completions.Parse([]byte(spaced))
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

// told returns err's text without the offset.
func told(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), " at byte ")
	return text
}

// What a Parser read before does not affect the next result.
func TestParserAgain(t *testing.T) {
	t.Parallel()
	bodies := rapid.SampledFrom([]string{
		`{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"\u00e9"}]}],"sidenote":{},"n":2}`,
		`{"model":"n","messages":[{"role":"system","content":"é"},{"role":"user","content":"b"}],"tools":[{"a":1}],"response_format":{"type":"json_schema","json_schema":{}}}`,
		`{"messages":[{"role":"user","content":"a"}],"messages":1}`, `{"a":1`, `[]`, ``, `{"messages":[{"role":7}]}`, `{"messages":[{"role":"user","content":"\ud800"}],"max_tokens":7}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		var p chat.Parser
		for _, body := range rapid.SliceOfN(bodies, 1, 5).Draw(t, "bodies") {
			if rapid.Bool().Draw(t, "reset") {
				p.Reset()
			}
			got, err := p.Parse(chat.Completions, []byte(body))
			want, wantErr := chat.Completions.Parse([]byte(body))
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("%s: %v, want %v", body, err, wantErr)
			}
			if err == nil && got.Everything() != want.Everything() {
				t.Errorf("%s: got %s, want %s", body, got.Everything(), want.Everything())
			}
		}
	})
}
