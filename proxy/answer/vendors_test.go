package answer_test

import (
	"strings"
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// vendors are answers of real upstreams with their usage.
var vendors = map[string]struct {
	on     route.Kind
	answer string
	want   answer.Usage
}{
	"OpenAI": {
		route.Chat, `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195,` +
			`"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":6000,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":0}},"service_tier":"default"}`,
		answer.Usage{Input: 6185, CachedInput: 100, CacheWrite: 6000, Output: 10, Reasoning: 4},
	},
	"OpenAI, streamed": {
		route.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":10,\"total_tokens\":6195,\"prompt_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":6000}}}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 6185, CacheWrite: 6000, Output: 10},
	},
	"OpenAI, responses": {
		route.Responses, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":{\"input_tokens\":2600,\"input_tokens_details\":{\"cached_tokens\":2000,\"cache_write_tokens\":400},\"output_tokens\":87,\"output_tokens_details\":{\"reasoning_tokens\":64},\"total_tokens\":2687}},\"sequence_number\":9}\n\n",
		answer.Usage{Input: 2600, CachedInput: 2000, CacheWrite: 400, Output: 87, Reasoning: 64},
	},
	"DeepSeek": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195,"prompt_cache_hit_tokens":6000,"prompt_cache_miss_tokens":185}}`,
		answer.Usage{Input: 6185, CachedInput: 6000, Output: 10},
	},
	"DeepSeek, under both names": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195,"prompt_tokens_details":{"cached_tokens":6000},"completion_tokens_details":{"reasoning_tokens":2},"prompt_cache_hit_tokens":6000,"prompt_cache_miss_tokens":185}}`,
		answer.Usage{Input: 6185, CachedInput: 6000, Output: 10, Reasoning: 2},
	},
	"Kimi": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195,"cached_tokens":6000}}`,
		answer.Usage{Input: 6185, CachedInput: 6000, Output: 10},
	},
	"Kimi, streamed": {
		route.Chat, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n" +
			"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":10,\"total_tokens\":6195,\"cached_tokens\":6000}}],\"system_fingerprint\":\"fpv0_1\"}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 6185, CachedInput: 6000, Output: 10},
	},
	"Kimi, streamed to who asked": {
		route.Chat, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":9,\"total_tokens\":6194}}]}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":10,\"total_tokens\":6195,\"cached_tokens\":6000}}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 6185, CachedInput: 6000, Output: 10},
	},
	"LiteLLM": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":98805,"completion_tokens":5120,"total_tokens":103925,"prompt_tokens_details":{"text_tokens":null,"cached_tokens":66360,"cache_creation_tokens":32435,` +
			`"cache_creation_token_details":{"ephemeral_5m_input_tokens":30000,"ephemeral_1h_input_tokens":2435}},"cache_read_input_tokens":66360,"completion_tokens_details":{"reasoning_tokens":1710},"cache_creation_input_tokens":32435}}`,
		answer.Usage{Input: 98805, CachedInput: 66360, CacheWrite: 32435, CacheWrite1h: 2435, Output: 5120, Reasoning: 1710},
	},
	"LiteLLM, without details": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195,"cache_creation_input_tokens":6000,"cache_read_input_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}}`,
		answer.Usage{Input: 6185, CacheWrite: 6000, Output: 10},
	},
	"LiteLLM, an older one": { // its prompt excludes the cache
		route.Chat, `{"choices":[],"usage":{"completion_tokens":467,"prompt_tokens":31,"total_tokens":498,"prompt_tokens_details":{"cached_tokens":0},"cache_creation_input_tokens":1253,"cache_read_input_tokens":0}}`,
		answer.Usage{Input: 1284, CacheWrite: 1253, Output: 467},
	},
	"a gateway whose total has the cache": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":5000,"completion_tokens":10,"total_tokens":6010,"cache_read_input_tokens":1000}}`,
		answer.Usage{Input: 6000, CachedInput: 1000, Output: 10},
	},
	"OpenRouter": {
		route.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}],\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":10,\"total_tokens\":6195,\"cost\":0.0387,\"is_byok\":false,\"prompt_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":6000,\"audio_tokens\":0},\"cost_details\":{\"upstream_inference_cost\":null},\"completion_tokens_details\":{\"reasoning_tokens\":0}}}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 6185, CacheWrite: 6000, Output: 10},
	},
	"Qwen": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":6185,"completion_tokens":10,"total_tokens":6195,"prompt_tokens_details":{"cached_tokens":100,"cache_creation_input_tokens":6000,"cache_creation":{"ephemeral_5m_input_tokens":6000},"cache_type":"ephemeral"}}}`,
		answer.Usage{Input: 6185, CachedInput: 100, CacheWrite: 6000, Output: 10},
	},
	"xAI": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"text_tokens":32,"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}}`,
		answer.Usage{Input: 32, CachedInput: 6, Output: 103, Reasoning: 94},
	},
	"Google": {
		route.Chat, `{"choices":[],"usage":{"completion_tokens":35,"prompt_tokens":12,"total_tokens":1047}}`,
		answer.Usage{Input: 12, Output: 1035, Reasoning: 1000},
	},
	"Groq": {
		route.Chat, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"queue_time\":0.02,\"prompt_tokens\":1400,\"completion_tokens\":2,\"total_tokens\":1402,\"prompt_tokens_details\":{\"cached_tokens\":1280}}}}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 1400, CachedInput: 1280, Output: 2},
	},
	"vLLM": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":310,"total_tokens":311,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":304}}}`,
		answer.Usage{Input: 310, CachedInput: 304, Output: 1},
	},
	"Ollama": {
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":26,"completion_tokens":298,"total_tokens":324}}`,
		answer.Usage{Input: 26, Output: 298},
	},
	"OpenAI, responses whole": {
		route.Responses, `{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":2600,"input_tokens_details":{"cached_tokens":2000,"cache_write_tokens":400},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":2687},"service_tier":"default","metadata":{}}`,
		answer.Usage{Input: 2600, CachedInput: 2000, CacheWrite: 400, Output: 87, Reasoning: 64},
	},
	"Anthropic": {
		route.Messages, `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":50,"cache_creation_input_tokens":1500,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":500,"ephemeral_1h_input_tokens":1000},"output_tokens":10,"service_tier":"standard","inference_geo":"us"}}`,
		answer.Usage{Input: 5550, CachedInput: 4000, CacheWrite: 1500, CacheWrite1h: 1000, Output: 10},
	},
	"Anthropic, streamed": {
		route.Messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[],\"usage\":{\"input_tokens\":50,\"cache_creation_input_tokens\":1500,\"cache_read_input_tokens\":4000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":1500,\"ephemeral_1h_input_tokens\":0},\"output_tokens\":1}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":50,\"cache_creation_input_tokens\":1500,\"cache_read_input_tokens\":4000,\"output_tokens\":10}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		answer.Usage{Input: 5550, CachedInput: 4000, CacheWrite: 1500, Output: 10},
	},
	"Anthropic on Bedrock": { // without the parts by lifetime
		route.Messages, `{"id":"msg_bdrk_1","type":"message","content":[],"model":"claude-sonnet-4-5-20250929","stop_reason":"end_turn","usage":{"input_tokens":50,"cache_read_input_tokens":4000,"cache_creation_input_tokens":1500,"output_tokens":10}}`,
		answer.Usage{Input: 5550, CachedInput: 4000, CacheWrite: 1500, Output: 10},
	},
	"Anthropic on Vertex, streamed": { // message_delta has the output alone
		route.Messages, "event: vertex_event\ndata: {\"type\": \"ping\"}\n\nevent: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_vrtx_1\",\"usage\":{\"input_tokens\":50,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4000,\"output_tokens\":3}}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":10}}\n\n",
		answer.Usage{Input: 4050, CachedInput: 4000, Output: 10},
	},
	"DeepSeek, streamed": {
		route.Chat, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":10,\"total_tokens\":6195,\"prompt_tokens_details\":{\"cached_tokens\":6016},\"prompt_cache_hit_tokens\":6016,\"prompt_cache_miss_tokens\":169}}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 6185, CachedInput: 6016, Output: 10},
	},
	"Kimi, under both names": { // the whole prompt may be cached
		route.Chat, `{"choices":[],"usage":{"prompt_tokens":2989,"completion_tokens":10,"total_tokens":2999,"cached_tokens":2989,"prompt_tokens_details":{"cached_tokens":2989}}}`,
		answer.Usage{Input: 2989, CachedInput: 2989, Output: 10},
	},
	"OpenRouter, whole": {
		route.Chat, `{"id":"gen-1","provider":"Anthropic","choices":[],"usage":{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0},"cost":0.95,"is_byok":false,"cost_details":{"upstream_inference_cost":19},"prompt_tokens":194,"prompt_tokens_details":{"cached_tokens":90,"cache_write_tokens":100,"audio_tokens":0},"total_tokens":196}}`,
		answer.Usage{Input: 194, CachedInput: 90, CacheWrite: 100, Output: 2},
	},
	"Qwen, streamed": {
		route.Chat, "data: {\"choices\":[],\"object\":\"chat.completion.chunk\",\"usage\":{\"prompt_tokens\":6185,\"completion_tokens\":10,\"total_tokens\":6195,\"prompt_tokens_details\":{\"cached_tokens\":0,\"cache_creation_input_tokens\":6000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":6000},\"cache_type\":\"ephemeral\"}}}\n\ndata: [DONE]\n\n",
		answer.Usage{Input: 6185, CacheWrite: 6000, Output: 10},
	},
	"Google, cached": { // reasoning is in the total alone
		route.Chat, `{"choices":[],"model":"gemini-2.5-flash","object":"chat.completion","usage":{"completion_tokens":744,"prompt_tokens":1469,"total_tokens":2496,"prompt_tokens_details":{"cached_tokens":1024}}}`,
		answer.Usage{Input: 1469, CachedInput: 1024, Output: 1027, Reasoning: 283},
	},
	"Mistral": {
		route.Chat, `{"id":"c","object":"chat.completion","model":"mistral-large-latest","usage":{"prompt_tokens":1469,"total_tokens":1500,"completion_tokens":31,"prompt_audio_seconds":null,"prompt_tokens_details":{"cached_tokens":1408}},"choices":[]}`,
		answer.Usage{Input: 1469, CachedInput: 1408, Output: 31},
	},
	"xAI, responses": {
		route.Responses, `{"object":"response","output":[],"usage":{"input_tokens":125,"output_tokens":48,"total_tokens":173,"input_tokens_details":{"cached_tokens":98},"output_tokens_details":{"reasoning_tokens":0},"num_sources_used":0}}`,
		answer.Usage{Input: 125, CachedInput: 98, Output: 48},
	},
}

// Each vendor's usage is found, whole, split and compressed, including cached and cache-written
// tokens.
func TestUsageOfVendors(t *testing.T) {
	for name, c := range vendors {
		t.Run(name, func(t *testing.T) {
			c.want.Known = true
			stream := !strings.HasPrefix(c.answer, "{")
			check := func(coding, body string, seed uint64) {
				t.Helper()
				r := new(answer.UsageReader)
				r.Reset(c.on, stream, coding)
				for _, p := range piecesUsage(body, seed) {
					r.Write([]byte(p))
				}
				if got, found := r.Usage(); got != c.want || found != answer.UsageFound || r.Detail() != "" {
					t.Errorf("%s: got %+v, %s %s\nwant %+v", coding, got, found, r.Detail(), c.want)
				}
			}
			for _, seed := range []uint64{uint64(len(c.answer)), 1, 7} {
				check("", c.answer, seed)
			}
			for coding, pack := range packers {
				check(coding, string(pack(c.answer)), 3)
			}
		})
	}
}

// Impossible numbers are rejected, and of two different numbers the more expensive one counts.
func TestUsageOfCachesThatCannotBe(t *testing.T) {
	for object, want := range map[string]string{
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":5}}`:                                            "inconsistent",
		`{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":10}`:                                                                                            "inconsistent",
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":-1}`:                                                                                  "negative",
		`{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":"5"}`:                                                                                           "not-a-number",
		`{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":5,"cached_tokens":6}`:                                                                           "duplicate",
		`{"input_tokens":60000000,"output_tokens":1,"cache_read_input_tokens":60000000}`:                                                                          "too-large",
		`{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":null,"prompt_cache_hit_tokens":4}`:                                                              "9(4)+1(0)",
		`{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}`:                                                 "9(3)+1(0)",
		`{"prompt_tokens":9,"completion_tokens":1,"cache_creation_input_tokens":2,"prompt_tokens_details":{"cache_creation_tokens":6}}`:                           "9(0 w6)+1(0)",
		`{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"cache_creation_input_tokens":6,"cache_creation":{"ephemeral_5m_input_tokens":1}}`:            "9(0 w6 5)+1(0)",
		`{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":3}}`:              "9(0 w4 3)+1(0)",
		`{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"cache_creation_input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":3}}`:            "9(0 w3 3)+1(0)",
		`{"input_tokens":9,"output_tokens":1,"total_tokens":10,"cache_read_input_tokens":8}`:                                                                      "9(8)+1(0)",
		`{"input_tokens":9,"output_tokens":1,"total_tokens":30,"cache_read_input_tokens":8}`:                                                                      "17(8)+1(0)",
		`{"input_tokens":9,"output_tokens":1,"cache_read_input_tokens":8,"input_tokens_details":{"cached_tokens":8}}`:                                             "17(8)+1(0)",
		`{"prompt_tokens":9,"completion_tokens":1,"details":{"cached_tokens":5},"cache_creation_token_details":{"ephemeral_1h_input_tokens":5},"cached":{"a":1}}`: "9(0)+1(0)",
	} {
		if got := readUsage(route.Chat, false, "", `{"usage":`+object+`}`); got != want {
			t.Errorf("%s: got %s, want %s", object, got, want)
		}
	}
	for answer, want := range map[string]string{
		`{"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":1}},{"usage":{"prompt_tokens":9,"completion_tokens":2}},3]}`:                 "9(0)+2(0)",
		`{"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":1}}],"usage":{"prompt_tokens":8,"completion_tokens":1}}`:                     "8(0)+1(0)",
		`{"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":1}}],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":1}}}`:          "7(0)+1(0)",
		`{"choices":[{"message":{"usage":{"prompt_tokens":9,"completion_tokens":1}}}]}`:                                                           "absent",
		`{"output":[{"usage":{"prompt_tokens":9,"completion_tokens":1}}]}`:                                                                        "absent",
		`{"choices":{"usage":[{"prompt_tokens":9}]}}`:                                                                                             "absent",
		`{"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":1}}]`:                                                                        "absent",
		`{"x":{"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":1}}]}}`:                                                                 "absent",
		`{"x":"` + strings.Repeat("x", 8000) + `","y":[{"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":1}}]}],"choices":[{"n":"{"}]}`: "absent",
	} {
		if got := readUsage(route.Chat, false, "", answer); got != want {
			t.Errorf("%s: got %s, want %s", answer, got, want)
		}
	}
}

// Usage that cannot be true is ignored, and the numbers are named.
func TestUsageThatLiesIsNamed(t *testing.T) {
	f := func(on route.Kind, object, found, detail string) {
		t.Helper()
		for _, body := range []string{`{"usage":` + object + `}`, "data: {\"usage\":" + object + "}\n\ndata: [DONE]\n\n"} {
			r := new(answer.UsageReader)
			r.Reset(on, body[0] == 'd', "")
			r.Write([]byte(body))
			if u, got := r.Usage(); u != (answer.Usage{}) || string(got) != found || r.Detail() != detail {
				t.Errorf("%s: got %+v, %s, %q, want %s, %q", body, u, got, r.Detail(), found, detail)
			}
		}
	}
	f(route.Chat, `{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":10}}`, "inconsistent", "input 9, of it cached 10 and written 0")
	f(route.Responses, `{"input_tokens":9,"output_tokens":1,"input_tokens_details":{"cached_tokens":5,"cache_write_tokens":5}}`, "inconsistent", "input 9, of it cached 5 and written 5")
	f(route.Chat, `{"prompt_tokens":9,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":2}}`, "inconsistent", "output 1, of it reasoning 2")
	f(route.Chat, `{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":-7}`, "negative", `prompt_cache_hit_tokens "-7"`)
	f(route.Chat, `{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":5,"cached_tokens":6}`, "duplicate", `cached_tokens "6"`)
	f(route.Chat, `{"prompt_tokens":9,"completion_tokens":1,"cached_tokens":"\u001b[31m`+strings.Repeat("x", 99)+`"}`, "not-a-number", `cached_tokens "\"\\u001b[31mxxxxxxxxxxxxx"`)
	f(route.Messages, `{"input_tokens":60000000,"output_tokens":1,"cache_read_input_tokens":60000000}`, "too-large", "input 120000000")
}
