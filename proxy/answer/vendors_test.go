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
}

// Each vendor's usage is found, whole and split, including cached and cache-written tokens.
func TestUsageOfVendors(t *testing.T) {
	for name, c := range vendors {
		t.Run(name, func(t *testing.T) {
			c.want.Known = true
			stream := !strings.HasPrefix(c.answer, "{")
			for size := range 3 {
				r := new(answer.UsageReader)
				r.Reset(c.on, stream, "")
				for _, p := range piecesUsage(c.answer, []uint64{uint64(len(c.answer)), 1, 7}[size]) {
					r.Write([]byte(p))
				}
				if got, found := r.Usage(); got != c.want || found != answer.UsageFound {
					t.Errorf("got %+v, %s\nwant %+v", got, found, c.want)
				}
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
