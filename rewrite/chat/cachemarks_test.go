package chat_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

// Marks are left out of what is compared, wherever they are, as applications move them.
func TestMovedMarksLeaveAPromptAlike(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"text","text":"a"}`:                                                      `{"type":"text","text":"a"}`,
		`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`:                 `{"type":"text","text":"a"}`,
		`{"type":"text", "cache_control": {"type":"ephemeral", "ttl":"1h"} , "text":"a"}`: `{"type":"text","text":"a"}`,
		`{"cache_control":{"type":"ephemeral"},"type":"text","text":"a"}`:                 `{"type":"text","text":"a"}`,
		`{"prompt_cache_breakpoint":{"mode":"explicit"},"type":"input_text","text":"a"}`:  `{"type":"input_text","text":"a"}`,
		`{"cache_control":{"type":"ephemeral"}}`:                                          `{}`,
		`[{"text":"a","cache_control":{"a":1}},{"text":"b","cache_control":{"a":1}}]`:     `[{"text":"a"},{"text":"b"}]`,
		`[{"cache_control":{"a":1},"prompt_cache_breakpoint":{"a":1}}]`:                   `[{}]`,
		`{"text":"a","cache_control":null}`:                                               `{"text":"a","cache_control":null}`,
		`{"text":"a","cache_control"`:                                                     `{"text":"a","cache_control"`,
	} {
		if got := strings.ReplaceAll(string(chat.WithoutCacheMarks([]byte(in))), " ", ""); got != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
