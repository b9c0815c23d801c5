package answer_test

import (
	"testing"

	"sidenote/proxy/answer"
)

// Errors of servers name the edit that they refuse, each in its own words and shape.
func TestReadNamesEdits(t *testing.T) {
	const none = answer.RefusedEdits(0)
	for name, c := range map[string]struct {
		status int
		body   string
		want   answer.RefusedEdits
		theirs bool
	}{
		"tools while reasoning": {400, `{"error":{"message":"Function tools with reasoning_effort are not supported for m in this route. Set reasoning_effort to 'none'.","param":"reasoning_effort"}}`, answer.EditTools, false},
		"Ollama":                {400, `{"error":{"message":"gemma9:1b does not support tools","type":"api_error","param":null}}`, answer.EditTools, false},
		"vLLM":                  {400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}`, answer.EditTools, false},
		"OpenRouter":            {404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`, answer.EditTools, false},
		"FastAPI":               {422, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, answer.EditIncludeUsage, false},
		"usage":                 {400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`, answer.EditIncludeUsage, false},
		"limit":                 {400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`, answer.EditMaxTokens, false},
		"two":                   {400, `{"detail":"unknown fields: stream_options, max_tokens"}`, answer.EditIncludeUsage | answer.EditMaxTokens, false},
		"system":                {400, `{"error":{"message":"System role not supported"}}`, answer.EditSystemMessage, false},
		"developer":             {400, `[{"error":{"message":"Developer instruction is not enabled for models/m","status":"INVALID_ARGUMENT"}}]`, answer.EditSystemMessage, false},
		"alternate":             {400, `{"message":"Conversation roles must alternate user/assistant/user"}`, answer.EditSystemMessage, false},
		"a role":                {422, `{"detail":[{"loc":["body","messages",0,"role"],"msg":"Input should be 'user'"}]}`, answer.EditSystemMessage, false},
		"a message":             {400, `{"error":{"message":"string too long","param":"messages.[0].content"}}`, answer.EditSources, false},
		"no JSON":               {400, `this model has no tool calling`, answer.EditTools, false},
		"unnamed":               {400, `{"error":{"message":"Bad request"}}`, none, false},
		"empty":                 {400, ``, none, false},
		"theirs":                {400, `{"error":{"message":"must be at most 2","param":"temperature"}}`, none, true},
		"theirs, in words":      {400, `{"error":{"message":"invalid temperature: only 1 is allowed"}}`, none, true},
		"no such model":         {404, `{"error":{"message":"The model 'm' does not exist"}}`, none, true},
	} {
		e := answer.ReadRefusedEdits(c.status, []byte(c.body))
		if e.Named != c.want || e.Theirs != c.theirs {
			t.Errorf("%s: %q, theirs %t, want %q, %t", name, e.Named, e.Theirs, c.want, c.theirs)
		}
	}
}

// An error may tell how long an answer may be.
func TestLongest(t *testing.T) {
	for body, want := range map[string]int{
		`{"message":"max_tokens is too large: 8000. This model supports at most 4096 completion tokens, whereas you provided 8000."}`:                                  4096,
		`{"message":"max_tokens: 8000 > 7,000, which is the maximum allowed number of output tokens"}`:                                                                 7000,
		`{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 6000]"}`:                                                                           6000,
		`{"message":"'max_tokens' is too large: 8000. This model's maximum context length is 8192 tokens and your request has 904 input tokens (8000 > 8192 - 904)."}`: 8192 - 904 - 16,
		`{"message":"This model's maximum context length is 4096 tokens. However, you requested 8904 tokens (904 in the messages, 8000 in the completion)."}`:          4096 - 904 - 16,
		`{"message":"max_tokens must be between 1 and 2048"}`:                                                                                                          2048,
		`{"message":"Error code: 400 - max_tokens must be less than or equal to 512 (request 77)"}`:                                                                    512,
		`{"message":"max_tokens is refused"}`:                                 0,
		`{"message":"Error code: 400 - max_tokens is refused, request 1234"}`: 0,
	} {
		e := answer.ReadRefusedEdits(400, []byte(body))
		if got := e.Longest(8000); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}
