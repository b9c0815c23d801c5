package answer_test

import (
	"strings"
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

const (
	messageWhole = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","stop_sequence":null,` +
		`"usage":{"input_tokens":3,"cache_creation_input_tokens":5424,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":424,"ephemeral_1h_input_tokens":5000},"output_tokens":37,"service_tier":"priority","server_tool_use":null}}`
	messageStarts = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"claude-opus-4-8\",\"stop_reason\":null," +
		"\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":5424,\"cache_read_input_tokens\":100,\"cache_creation\":{\"ephemeral_5m_input_tokens\":424,\"ephemeral_1h_input_tokens\":5000},\"output_tokens\":1,\"service_tier\":\"priority\"}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n"
	messageDelta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n"
	messageEnds  = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":37}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// The messages route reports input without cached tokens, and in streams in two parts.
func TestUsageOfMessages(t *testing.T) {
	all := answer.Usage{Input: 5527, CachedInput: 100, CacheWrite: 5424, CacheWrite1h: 5000, Output: 37, Known: true}
	prompt := all
	prompt.Output, prompt.Known = 0, false
	thought := all
	thought.Reasoning = 20
	long := strings.Repeat(messageDelta, 1000)
	cumulative := strings.Replace(messageEnds, `{"output_tokens":37}`, `{"input_tokens":9,"cache_creation_input_tokens":5424,"cache_read_input_tokens":300,"output_tokens":37}`, 1)
	grown := all
	grown.Input, grown.CachedInput = 9+5424+300, 300
	for name, c := range map[string]struct {
		answer string
		want   answer.Usage
		found  answer.UsageFinding
		tier   string
	}{
		"whole":                   {messageWhole, all, answer.UsageFound, "priority"},
		"whole and long":          {strings.Replace(messageWhole, "Hi", strings.Repeat("Hi } { ", 2000), 1), all, answer.UsageFound, "priority"},
		"streamed":                {messageStarts + messageDelta + messageEnds, all, answer.UsageFound, "priority"},
		"streamed and long":       {messageStarts + long + messageEnds, all, answer.UsageFound, "priority"},
		"more at its end":         {messageStarts + long + cumulative, grown, answer.UsageFound, "priority"},
		"repeated at its end":     {messageStarts + long + strings.Replace(messageEnds, `{"output_tokens":37}`, `{"input_tokens":3,"cache_creation_input_tokens":5424,"cache_read_input_tokens":100,"output_tokens":37,"output_tokens_details":{"thinking_tokens":20},"server_tool_use":{"web_search_requests":1},"iterations":[{"type":"message","input_tokens":3,"output_tokens":37}]}`, 1), thought, answer.UsageFound, "priority"},
		"told in steps":           {messageStarts + messageDelta + strings.Replace(messageEnds, `37`, `20`, 1) + messageEnds, all, answer.UsageFound, "priority"},
		"cut":                     {messageStarts + messageDelta, prompt, answer.UsagePartial, "priority"},
		"long and cut":            {messageStarts + long, prompt, answer.UsagePartial, "priority"},
		"failed":                  {messageStarts + long + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", answer.Usage{}, answer.UsageUpstreamFailed, "priority"},
		"all of it at its end":    {strings.Replace(strings.Replace(messageStarts, `"input_tokens":3,"cache_creation_input_tokens":5424,"cache_read_input_tokens":100`, `"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0`, 1), `"cache_creation":{"ephemeral_5m_input_tokens":424,"ephemeral_1h_input_tokens":5000},`, "", 1) + long + cumulative, answer.Usage{Input: 9 + 5424 + 300, CachedInput: 300, CacheWrite: 5424, Output: 37, Known: true}, answer.UsageFound, "priority"},
		"nothing at its start":    {messageDelta + strings.Replace(cumulative, "event: content_block_stop", "event: x", 1), answer.Usage{Input: 9 + 5424 + 300, CachedInput: 300, CacheWrite: 5424, Output: 37, Known: true}, answer.UsageFound, ""},
		"a number that is no one": {strings.Replace(messageStarts, `"input_tokens":3`, `"input_tokens":"3"`, 1) + long + messageEnds, answer.Usage{}, answer.UsageNotNumber, "priority"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				r := new(answer.UsageReader)
				r.Reset(route.Messages, !strings.HasPrefix(c.answer, "{"), "")
				for _, p := range piecesUsage(c.answer, seed) {
					r.Write([]byte(p))
				}
				if got, found := r.Usage(); got != c.want || found != c.found {
					t.Errorf("got %+v, %s\nwant %+v, %s", got, found, c.want, c.found)
				}
				if named := r.ServedBy(); named.Tier != c.tier || (named.Model != "claude-opus-4-8") != (c.tier == "") {
					t.Errorf("named %+v", named)
				}
			}
		})
	}
}

// Texts, reasoning, and tool calls with their arguments are counted.
func TestGeneratedOfMessages(t *testing.T) {
	start := func(n, block string) string {
		return "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":" + n + ",\"content_block\":" + block + "}\n\n"
	}
	delta := func(n, of string) string {
		return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" + n + ",\"delta\":" + of + "}\n\n"
	}
	for ans, want := range map[string]int64{
		messageStarts + messageDelta + messageDelta: 10,
		messageStarts + start("1", `{"type":"tool_use","id":"t","name":"find","input":{}}`) + delta("1", `{"type":"input_json_delta","partial_json":"{\"a\":"}`) + delta("1", `{"type":"input_json_delta","partial_json":"1}"}`): 4 + 7,
		messageStarts + start("0", `{"type":"thinking","thinking":""}`) + delta("0", `{"type":"thinking_delta","thinking":"hm"}`) + delta("0", `{"type":"signature_delta","signature":"xxxxxxxx"}`):                              2,
		`{"content":[{"type":"thinking","thinking":"hm","signature":"xxxx"},{"type":"text","text":"four"},{"type":"tool_use","id":"t","name":"find","input":{"a":1}}]}`:                                                          2 + 4 + 4 + 7,
		`{"content":"text","choices":[{"message":{"content":"four"}}]}`: 4,
	} {
		r := new(answer.UsageReader)
		r.Reset(route.Messages, !strings.HasPrefix(ans, "{"), "")
		r.KeepText(1 << 20)
		r.Write([]byte(ans))
		if got := r.Generated(byBytes{}); got.Output != want || !got.Known {
			t.Errorf("%s\ncounted %+v, want %d", ans, got, want)
		}
	}
}

// byBytes counts each byte as a token.
type byBytes struct{}

func (byBytes) Count(text string) (n int, exact bool) { return len(text), true }
