package answer_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sidenote/proxy/answer"
)

// hide returns a stream that arrives in these pieces as passed on by a UsageHider, and the number
// of writes.
func hide(t *testing.T, pieces ...string) (passed string, writes int) {
	t.Helper()
	var out bytes.Buffer
	h := answer.NewUsageHider(counting{&out, &writes})
	for _, p := range pieces {
		if n, err := h.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), writes
}

type counting struct {
	to *bytes.Buffer
	n  *int
}

func (c counting) Write(p []byte) (int, error) {
	if len(p) == 0 {
		panic("nothing is written") // as a chunk it would end an answer
	}
	*c.n++
	return c.to.Write(p)
}

// hiding holds streams of servers that were asked for usage. The text between « and » is there only
// because of that.
var hiding = map[string]string{
	"OpenAI": `data: {"id":"chatcmpl-C","object":"chat.completion.chunk","created":1759,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_5","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]«,"usage":null»,"obfuscation":"Xq"}

data: {"id":"chatcmpl-C","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"\"usage\":null"},"logprobs":null,"finish_reason":null}]«,"usage":null»,"obfuscation":"a"}

data: {"id":"chatcmpl-C","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]«,"usage":null»}

«data: {"id":"chatcmpl-C","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"obfuscation":""}

»data: [DONE]

`,
	"Azure": `data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]«,"usage":null»}

data: {"choices":[{"content_filter_results":{},"delta":{"content":"Hi"},"finish_reason":null,"index":0,"logprobs":null}],"created":1,"id":"chatcmpl-A","model":"gpt-4o","object":"chat.completion.chunk","system_fingerprint":"fp"«,"usage":null»}

«data: {"choices":[],"created":1,"id":"chatcmpl-A","model":"gpt-4o","object":"chat.completion.chunk","system_fingerprint":"fp","usage":{"completion_tokens":4,"prompt_tokens":10,"total_tokens":14}}

»data: [DONE]

`,
	"vLLM": `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}

«data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2}}

»data: [DONE]

`,
	"llama.cpp": "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"created\":1,\"id\":\"chatcmpl-l\",\"model\":\"m\",\"system_fingerprint\":\"b1\",\"object\":\"chat.completion.chunk\"}\n\n" +
		"data: {\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"delta\":{}}],\"created\":1,\"id\":\"chatcmpl-l\",\"model\":\"m\",\"system_fingerprint\":\"b1\",\"object\":\"chat.completion.chunk\"}\n\n" +
		"«data: {\"choices\":[],\"created\":1,\"id\":\"chatcmpl-l\",\"model\":\"m\",\"system_fingerprint\":\"b1\",\"object\":\"chat.completion.chunk\",\"usage\":{\"completion_tokens\":9,\"prompt_tokens\":12,\"total_tokens\":21},\"timings\":{\"prompt_n\":12}}\n\n»data: [DONE]\n\n",
	"LiteLLM": `data: {"id":"chatcmpl-x","created":1,"model":"claude","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi","role":"assistant"}}]}

data: {"id":"chatcmpl-x","created":1,"model":"claude","object":"chat.completion.chunk","choices":[{"finish_reason":"stop","index":0,"delta":{}}]}

«data: {"id":"chatcmpl-x","created":1,"model":"claude","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":null,"role":null}}],"usage":{"completion_tokens":20,"prompt_tokens":12,"total_tokens":32}}

»data: [DONE]

`,
	"completions": `data: {"id":"cmpl-1","object":"text_completion","choices":[{"text":"Hi","index":0,"logprobs":null,"finish_reason":null}]«,"usage":null»}

«data: {"id":"cmpl-1","object":"text_completion","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}

»data: [DONE]

`,
	"a usage with the last text, as Mistral's, is told unasked": `data: {"id":"m","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}

data: [DONE]

`,
	"spaces, CRLF, comments, other fields": ": ping\r\n\r\nid: 1\r\nevent: chunk\r\ndata: { \"choices\" : [ {\"delta\": {\"content\":\"a\"}} ]« , \"usage\" : null» , \"x\":1.0 }\r\n\r\n" +
		"«id: 2\r\ndata: {\"choices\": [ ], \"usage\": {\"prompt_tokens\": 1}}\r\n\r\n»data: [DONE]\r\n\r\n",
	"as the first member":    "data: {«\"usage\":null, »\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
	"as the only member":     "data: {«\"usage\":null»}\n\n",
	"in another object":      "data: {\"x\":{\"usage\":null},\"choices\":[{\"delta\":{\"usage\":null}}]}\n\n",
	"in two lines":           "data: {«\"usage\":null,\ndata: »\"choices\":[]}\n\n",
	"behind another line":    "data: {\"choices\":[]«\r\ndata: ,\"usage\":null»}\r\n\r\n",
	"behind a mark":          "\ufeffdata: {\"choices\":[]«,\"usage\":null»}\n\n",
	"not JSON":               "data: {\"usage\":null,\"choices\":[}\n\ndata: {\"usage\":null\n\ndata: {\"choices\":[],\"usage\":null} x\n\n",
	"an error":               "data: {\"error\":{\"message\":\"no\"}}\n\n",
	"without its empty line": "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]«,\"usage\":null»}",
	"cut":                    "data: {\"choices\":[],\"usage\":{\"prompt_tok",
	"nothing":                "",
}

// A client that did not ask for usage gets the stream as if nobody had, however it is split. (U9)
func TestHider(t *testing.T) {
	for name, marked := range hiding {
		stream := strings.NewReplacer("«", "", "»", "").Replace(marked)
		want := marked
		for from := strings.Index(want, "«"); from >= 0; from = strings.Index(want, "«") {
			want = want[:from] + want[strings.Index(want, "»")+len("»"):]
		}
		got, writes := hide(t, stream)
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if writes > 2 {
			t.Errorf("%s: %d writes for one piece and the end", name, writes)
		}
		for i := range stream {
			if got, _ := hide(t, stream[:i], stream[i:]); got != want {
				t.Errorf("%s, cut at %d: got\n%s", name, i, got)
			}
		}
		if got, _ := hide(t, strings.Split(stream, "")...); got != want {
			t.Errorf("%s, by letters: got\n%s", name, got)
		}
	}
}

// For any input and split, an event that was JSON stays JSON, and other bytes pass.
func FuzzHider(f *testing.F) {
	for _, marked := range hiding {
		f.Add(strings.NewReplacer("«", "", "»", "").Replace(marked), uint64(len(marked)))
	}
	f.Fuzz(func(t *testing.T, stream string, seed uint64) {
		whole, _ := hide(t, stream)
		if got, _ := hide(t, piecesUsage(stream, seed)...); got != whole {
			t.Fatalf("%q: in pieces %q, whole %q", stream, got, whole)
		}
		if !strings.Contains(stream, `"usage"`) && whole != stream {
			t.Fatalf("%q becomes %q", stream, whole)
		}
		data, ok := strings.CutPrefix(stream, "data: ")
		if !ok || strings.Contains(data, "\n") || !json.Valid([]byte(data)) || whole == "" {
			return
		}
		if left, ok := strings.CutPrefix(whole, "data: "); !ok || !json.Valid([]byte(left)) {
			t.Fatalf("%q becomes %q", stream, whole)
		}
	})
}
