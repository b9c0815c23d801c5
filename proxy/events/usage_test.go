package events_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sidenote/proxy/events"
)

// read returns what a Reader finds in an answer that comes in these pieces. The answer is
// read as a stream and as a single event; what differs is found as "A or B".
func read(encoding string, pieces ...string) string {
	stream, single := readAs(true, encoding, pieces...), readAs(false, encoding, pieces...)
	if stream != single {
		return stream + " or " + single
	}
	return single
}

func readAs(stream bool, encoding string, pieces ...string) string {
	r := new(events.Reader)
	r.Reset(true, "")
	r.Write([]byte(`{"usage":{"prompt_tokens":77}} of the answer before`))
	r.Reset(stream, encoding)
	for _, p := range pieces {
		r.Write([]byte(p))
	}
	return show(r.PromptTokens())
}

func show(n int, f events.Finding) string {
	if f == events.Found {
		return fmt.Sprint(n)
	}
	if n != 0 {
		return fmt.Sprintf("%d and %s", n, f)
	}
	return string(f)
}

// golden holds answers as servers send them, with the counts in them.
var golden = map[string]struct{ answer, want string }{
	"OpenAI": {`{
  "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
  "object": "chat.completion",
  "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello!", "refusal": null}, "logprobs": null, "finish_reason": "stop"}],
  "usage": {
    "prompt_tokens": 19,
    "completion_tokens": 10,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 7, "prompt_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 0}
  },
  "service_tier": "default"
}`, "19"},
	"OpenAI, streamed": {`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":null}

data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

`, "8"},
	"OpenAI, streamed without": {"data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n", "absent"},
	"vLLM, continuous": {`data: {"choices":[{"delta":{"role":"assistant"}}],"usage":{"prompt_tokens":31,"total_tokens":31,"completion_tokens":0}}

data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":31,"total_tokens":32,"completion_tokens":1}}

data: {"choices":[],"usage":{"prompt_tokens":32,"total_tokens":33,"completion_tokens":1}}

data: [DONE]
`, "32"},
	"Groq": {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"x_groq\":{\"id\":\"req_1\"}}\n\n" +
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"req_1\",\"usage\":{\"queue_time\":0.02,\"prompt_tokens\":14,\"prompt_time\":1e-3}}}\n\n", "14"},
	"before the choices":     {`{"usage":{"prompt_tokens":3},"choices":[{"message":{"content":"a } { text"}}]}`, "3"},
	"null after it":          {`{"usage":{"prompt_tokens":3}}` + "\n" + `{"usage":null}`, "3"},
	"in the text":            {`{"choices":[{"message":{"content":"set \"usage\": {\"prompt_tokens\": 99} there"}}],"usage":{"prompt_tokens":4}}`, "4"},
	"in a tool call":         {`{"usage":{"prompt_tokens":5},"choices":[{"message":{"tool_calls":[{"function":{"arguments":"{\"usage\":{\"prompt_tokens\":99}}"}}]}}]}`, "5"},
	"a text that ends so":    {`{"usage":{"prompt_tokens":6},"content":"\"usage","x":1}`, "6"},
	"a key that ends so":     {`{"usage":{"prompt_tokens":6},"a\"usage":{"prompt_tokens":99}}`, "6"},
	"as a value":             {`{"usage":{"prompt_tokens":7},"object":"usage","list":["usage","usage"]}`, "7"},
	"braces in its strings":  {`{"usage":{"note":"}}\"}{","tier":"\\","prompt_tokens":8}}`, "8"},
	"spaced out":             {"{\"usage\" \t:\r\n {\n\"prompt_tokens\"\n:\t9 }}", "9"},
	"escaped":                {`{"usage":{"prompt\u005ftokens":10}}`, "10"},
	"doubled":                {`{"usage":{"prompt_tokens":1,"prompt_tokens":11}}`, "11"},
	"another letter case":    {`{"usage":{"Prompt_Tokens":1}}`, "absent"},
	"of other names":         {`{"usage":{"input_tokens":12,"output_tokens":1,"details":{"prompt_tokens":1}}}`, "absent"},
	"a list":                 {`{"usage":[{"prompt_tokens":1}]}`, "absent"},
	"a number":               {`{"usage":12}`, "absent"},
	"cut":                    {`{"usage":{"prompt_tokens":12`, "absent"},
	"cut after one":          {"data: {\"usage\":{\"prompt_tokens\":12}}\n\ndata: {\"usage\":{\"prompt_tok", "12"},
	"not JSON":               {`{"usage":{prompt_tokens:12}}`, "absent"},
	"too long":               {`{"usage":{"prompt_tokens":1,"x":"` + strings.Repeat("x", 9000) + `"}}`, "absent"},
	"too long, then another": {`{"usage":{"prompt_tokens":1,"x":"` + strings.Repeat("x", 9000) + `"}} {"usage":{"prompt_tokens":13}}`, "13"},
	"nothing":                {"", "absent"},
}

func TestGolden(t *testing.T) {
	for name, c := range golden {
		if got := read("", c.answer); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// The result is the same wherever an answer is cut in two, and if it comes byte by byte.
func TestSplits(t *testing.T) {
	for name, c := range golden {
		step := 1
		if testing.Short() {
			step = 7
		}
		for i := 0; i <= len(c.answer); i += step {
			if got := read("identity", c.answer[:i], c.answer[i:]); got != c.want {
				t.Errorf("%s, cut at %d: got %s, want %s", name, i, got, c.want)
			}
		}
		if got := read("Identity", strings.Split(c.answer, "")...); got != c.want {
			t.Errorf("%s, by letters: got %s, want %s", name, got, c.want)
		}
	}
}

// Whatever value a server sends, only a valid count is taken for one.
func TestValues(t *testing.T) {
	for value, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "0e999999999": "0", "1": "1", "12.0": "12", "1.2e1": "12", "1.2E+1": "12", "1200e-2": "12",
		"100000000": "100000000", "1e8": "100000000", "0.1e9": "100000000",
		"100000001": "too-large", "1e9": "too-large", "1e18": "too-large", "1e400": "too-large", "1e999999999": "too-large",
		"1e99999999999999999999": "too-large", "9223372036854775808": "too-large", strings.Repeat("9", 5000): "too-large",
		"-1": "negative", "-1.5": "negative", "-1e400": "negative", "-" + strings.Repeat("9", 5000): "negative",
		"1.5": "not-a-number", "1e-1": "not-a-number", "1e-400": "not-a-number", "1e-99999999999999999999": "not-a-number",
		`"12"`: "not-a-number", "true": "not-a-number", "false": "not-a-number", "{}": "not-a-number", "[12]": "not-a-number",
		"null": "absent", "": "absent", "+1": "absent", "012": "absent", "NaN": "absent", "0x10": "absent",
	} {
		if got := read("", `{"usage":{"prompt_tokens":`+value+`,"total_tokens":1}}`); got != want {
			t.Errorf("%.40s: got %s, want %s", value, got, want)
		}
	}
}

// Further events of a long answer take no memory.
func TestMemory(t *testing.T) {
	event := []byte(`data: {"choices":[{"delta":{"content":"word"}}],"usage":{"prompt_tokens":31,"total_tokens":32}}` + "\n\n")
	r := new(events.Reader)
	r.Reset(true, "")
	r.Write(event[:20])
	r.Write(event[20:])
	if n := testing.AllocsPerRun(1000, func() { r.Write(event); r.Write(event[:20]); r.Write(event[20:]) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	if got := show(r.PromptTokens()); got != "31" {
		t.Errorf("got %s", got)
	}
}

func BenchmarkReader(b *testing.B) {
	event := `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
	last := `data: {"id":"c","choices":[],"usage":{"prompt_tokens":1019,"completion_tokens":20,"total_tokens":1039,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}}}` + "\n\ndata: [DONE]\n\n"
	var stream []string
	for range 20 {
		stream = append(stream, event)
	}
	text := strings.Repeat(`Some words, then \"quoted\" ones.\n`, 600)
	for name, pieces := range map[string][]string{
		"21 events": append(stream, last),
		"20 KB":     {`{"choices":[{"message":{"content":"` + text + `"}}],"usage":{"prompt_tokens":1019,"completion_tokens":20,"total_tokens":1039}}`},
	} {
		b.Run(name, func(b *testing.B) {
			var raw [][]byte
			size := 0
			for _, p := range pieces {
				raw = append(raw, []byte(p))
				size += len(p)
			}
			r := new(events.Reader)
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(len(pieces) > 1, "")
				for _, p := range raw {
					r.Write(p)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size)*1024, "ns/KB")
		})
	}
}

// pieces cuts s into pieces at random.
func pieces(s string, seed uint64) (out []string) {
	random := rand.New(rand.NewPCG(seed, 1))
	for s != "" {
		n := min(1+random.IntN(1+random.IntN(24)), len(s))
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}
