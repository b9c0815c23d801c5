package chat_test

import (
	"testing"

	"sidenote/rewrite/chat"
)

func TestAPIOf(t *testing.T) {
	for body, want := range map[string]chat.API{
		`{"messages":[]}`:                    chat.Completions,
		`{"model":"m","input":"x"}`:          chat.Responses,
		`{"input":[],"messages":[]}`:         chat.Completions,
		`{}`:                                 chat.Completions,
		`[]`:                                 chat.Completions,
		`{"input":"x"`:                       chat.Responses,
		`{"x":{"input":1},"instructions":1}`: chat.Completions,
	} {
		if got := chat.APIOf([]byte(body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
