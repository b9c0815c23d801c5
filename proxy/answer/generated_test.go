package answer_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// letters counts each letter as a token, so that counts are easy to verify.
type letters struct{}

func (letters) Count(s string) (int, bool) { return len(s), true }

// generated returns the count for an answer that arrives in these pieces.
func generated(on route.Kind, stream bool, encoding string, limit int, pieces ...string) string {
	var p answer.UsagePool
	r := p.Get()
	r.Reset(on, stream, encoding)
	r.KeepText(limit)
	for _, piece := range pieces {
		r.Write([]byte(piece))
	}
	r.Usage()
	defer p.Put(r)
	c := r.Generated(letters{})
	switch {
	case !c.Known:
		return "unknown"
	case c.Exact:
		return fmt.Sprint(c.Output)
	}
	return fmt.Sprintf("about %d", c.Output)
}

var written = map[string]struct{ answer, want string }{
	"content of two choices": {`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"abc"}}]}

data: {"choices":[{"index":1,"delta":{"content":"de"}},{"index":0,"delta":{"content":"\u00e9"}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}

data: [DONE]

`, "7"},
	"reasoning, refusal": {`data: {"choices":[{"delta":{"reasoning_content":"abc","reasoning":"abc"}}]}

data: {"choices":[{"delta":{"reasoning":"de"}}]}

data: {"choices":[{"delta":{"content":null,"refusal":"fgh"}}]}

`, "8"},
	"tool calls": {`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"get","arguments":""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}},{"index":1,"function":{"name":"b","arguments":{"x":1}}}]}}]}

data: {"choices":[{"delta":{"function_call":{"name":"ab","arguments":"c"}}}]}

`, "19"},
	"a mark, several lines": {"\xef\xbb\xbfdata: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\ndata: {\"choices\":\ndata: [{\"delta\":{\"content\":\"d\"}}]}\n\n", "4"},
	"completions":           {"data: {\"choices\":[{\"text\":\"abc\",\"index\":0}]}\n\ndata: {\"choices\":[{\"text\":\"d\",\"index\":1}]}\n\n", "4"},
	"responses":             {"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"abc\"}\n\nevent: x\ndata: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":1,\"delta\":\"{}\"}\n\ndata: {\"type\":\"response.audio.delta\",\"delta\":\"AAAA\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text\":\"abc\"}]}]}}\n\n", "5"},
	"an error (U11)":        {"data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\ndata: {\"error\":{\"message\":\"overloaded\"}}\n\n", "2"},
	"odd events":            {": c\r\n\r\ndata: \r\n\r\ndata: 12\n\ndata: {\"choices\":{}}\n\ndata: {\"choices\":[{\"index\":\"x\",\"delta\":{\"content\":\"ab\"}}]}\r\n\r\n", "2"},
	"cut in an event (U5)":  {"data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a", "2"},
	"a whole chat":          {`{"choices":[{"message":{"role":"assistant","content":"abc","tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"g","arguments":"1"}}]}},{"message":{"content":[{"text":"a"}]}}]}`, "22"},
	"a whole response":      {`{"output":[{"summary":[{"text":"ab"}]},{"content":[{"type":"output_text","text":"abc"},{"refusal":"d"}]},{"name":"f","arguments":"{}"}]}`, "9"},
	"a whole completion":    {`{"choices":[{"text":"abc"},{"text":"d","index":1}]}`, "4"},
	"a chat that was cut":   {`{"choices":[{"message":{"content":"ab`, "about 10"},
	"nothing":               {"", "0"},
}

// The text of an answer is counted as a whole, however it is split.
func TestGenerated(t *testing.T) {
	for name, c := range written {
		stream := !strings.HasPrefix(c.answer, "{")
		if got := generated(route.Chat, stream, "", 1<<20, c.answer); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if got := generated(route.Chat, stream, "", 1<<20, strings.Split(c.answer, "")...); got != c.want {
			t.Errorf("%s, by letters: got %s, want %s", name, got, c.want)
		}
		if got := generated(route.Chat, stream, "gzip", 1<<20, string(packers["gzip"](c.answer))); got != c.want {
			t.Errorf("%s, compressed: got %s, want %s", name, got, c.want)
		}
	}
}

// Only a part of a long answer is kept; the rest is extrapolated.
func TestGeneratedBeyondTheLimit(t *testing.T) {
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"0123456789\"}}]}\n\n"
	stream := strings.Repeat(event, 1000)
	if got := generated(route.Chat, true, "", 100*len(event), stream); got != "about 10001" {
		t.Errorf("got %s", got)
	}
	if got := generated(route.Chat, true, "", 100*len(event)+40, stream[:500*len(event)], stream[500*len(event):]); got != "about 9930" {
		t.Errorf("got %s", got)
	}
	if got := generated(route.Chat, true, "", 100, strings.Repeat(": ping\n\n", 1000)); got != "about 1975" {
		t.Errorf("got %s", got)
	}
	if got := generated(route.Chat, true, "", 0, stream); got != "unknown" {
		t.Errorf("got %s", got)
	}
	if got := generated(route.Chat, true, "compress", 100, stream); got != "unknown" {
		t.Errorf("got %s", got)
	}
}
