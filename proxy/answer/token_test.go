package answer_test

import (
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// The first token is the first output, not the events that announce it.
func TestHasToken(t *testing.T) {
	for text, want := range map[string]bool{
		`data: {"choices":[{"delta":{"role":"assistant","content":"","refusal":null}}]}`:                     false,
		`data: {"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[]}}]}`:                  false,
		`data: {"choices":[],"usage":{"completion_tokens_details":{"reasoning_tokens":3}}}`:                  false,
		`data: {"choices":[{"delta":{"content":"Hi"}}]}`:                                                     true,
		`data: {"choices": [{"delta": {"role": "assistant", "content": ""}}, {"delta": {"content": "Hi"}}]}`: true,
		`data: {"choices":[{"delta":{"content":"","reasoning_content":"Let"}}]}`:                             true,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`:                                         true,
		`data: {"choices":[{"delta":{"refusal":"No"}}]}`:                                                     true,
		`data: {"choices":[{"delta":{"content":`:                                                             false,
		`: comment`:                                                                                          false,
		``:                                                                                                   false,
	} {
		if got := answer.HasToken(route.Chat, []byte(text)); got != want {
			t.Errorf("chat %s: %v", text, got)
		}
	}
	f := func(on route.Kind, text string, want bool) {
		t.Helper()
		if got := answer.HasToken(on, []byte(text)); got != want {
			t.Errorf("%s %s: %v", on, text, got)
		}
	}
	f(route.Completions, `data: {"choices":[{"text":"","index":0}]}`, false)
	f(route.Completions, `data: {"choices":[{"text":"a","index":0}]}`, true)
	f(route.Responses, "event: response.created\ndata: {\"type\":\"response.created\"}", false)
	f(route.Responses, "data: {\"type\":\"response.output_item.added\"}", false)
	f(route.Responses, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"}", true)
	f(route.Messages, "event: message_start\ndata: {\"type\":\"message_start\"}", false)
	f(route.Messages, "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}", false)
	f(route.Messages, "data: {\"type\":\"content_block_delta\"}", true)
}
