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
		`{"system":"s","messages":[]}`:       chat.Messages,
		`{"system":"s"}`:                     chat.Completions,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`: chat.Messages,
		`{"tools":[{"name":"f","input_schema":{}}],"messages":[]}`:                            chat.Messages,
	} {
		if got := chat.APIOf([]byte(body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
