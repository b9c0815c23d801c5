package answer_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// readUsage returns what a UsageReader finds in an answer that arrives in these pieces.
func readUsage(on route.Kind, stream bool, encoding string, pieces ...string) string {
	r := new(answer.UsageReader)
	r.Reset(route.Responses, true, "")
	r.Write([]byte(`data: {"usage":{"prompt_tokens":77,"completion_tokens":7}} of the answer before`))
	r.Reset(on, stream, encoding)
	for _, p := range pieces {
		r.Write([]byte(p))
	}
	return show(r.Usage())
}

// show formats the numbers and the finding. "19(7)+10(3)" is 19 input tokens, 7 of them cached, and
// 10 output tokens, 3 of them reasoning. "19(7 w5 2)" has 5 written to the cache, 2 of them for an
// hour.
func show(u answer.Usage, f answer.UsageFinding) string {
	if u.Known != (f == answer.UsageFound) {
		return fmt.Sprintf("%+v, but %s", u, f)
	}
	if f == answer.UsageFound {
		written := ""
		if u.CacheWrite > 0 {
			written = fmt.Sprintf(" w%d", u.CacheWrite)
		}
		if u.CacheWrite1h > 0 {
			written += fmt.Sprintf(" %d", u.CacheWrite1h)
		}
		return fmt.Sprintf("%d(%d%s)+%d(%d)", u.Input, u.CachedInput, written, u.Output, u.Reasoning)
	}
	if f == answer.UsagePartial {
		u.Input, f = 0, answer.UsageFinding(fmt.Sprintf("partial %d", u.Input))
	}
	if u != (answer.Usage{}) {
		return fmt.Sprintf("%+v and %s", u, f)
	}
	return string(f)
}

// A goldenAnswer is an answer of a real server with its usage.
type goldenAnswer struct {
	on     route.Kind
	answer string
	want   string
}

func (g goldenAnswer) stream() bool {
	return strings.HasPrefix(g.answer, "data:") || strings.HasPrefix(g.answer, "event:") || strings.HasPrefix(g.answer, ":")
}

const (
	openAIChat = `{
  "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
  "object": "chat.completion",
  "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello!", "refusal": null}, "logprobs": null, "finish_reason": "stop"}],
  "usage": {
    "prompt_tokens": 19,
    "completion_tokens": 10,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 7, "audio_tokens": 0, "prompt_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0}
  },
  "service_tier": "default"
}`
	openAIStream = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}

data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":null}

data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

`
	responsesTail = `"tools":[],"truncation":"disabled","usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":4},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":123},"user":null,"metadata":{}}`
)

var golden = map[string]goldenAnswer{
	"OpenAI":                   {route.Chat, openAIChat, "19(7)+10(3)"},
	"OpenAI, streamed":         {route.Chat, openAIStream, "8(0)+1(0)"},
	"OpenAI, streamed, CRLF":   {route.Chat, strings.ReplaceAll(openAIStream, "\n", "\r\n"), "8(0)+1(0)"},
	"OpenAI, streamed without": {route.Chat, "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n", "absent"},
	"no DONE (U6)":             {route.Chat, strings.TrimSuffix(openAIStream, "data: [DONE]\n\n"), "8(0)+1(0)"},
	"a mark":                   {route.Chat, "\xef\xbb\xbf" + openAIStream, "8(0)+1(0)"},
	"only an event, marked":    {route.Chat, "\xef\xbb\xbfdata: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":1}}\n\n", "8(0)+1(0)"},
	"several lines":            {route.Chat, strings.ReplaceAll(openAIStream, `"usage":{`, "\ndata: \"usage\":{\r\ndata: "), "8(0)+1(0)"},
	"several lines, no gap":    {route.Chat, "data: {\"choices\":[]}\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":1}}\ndata: [DONE]\n", "8(0)+1(0)"},
	"failed, on several lines": {route.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\ndata: \"error\":{}\ndata: }\n\n", "failed"},
	"no last line end":         {route.Chat, strings.TrimSuffix(openAIStream, "\n\ndata: [DONE]\n\n"), "8(0)+1(0)"},
	"comments":                 {route.Chat, ": PROCESSING\n\n" + openAIStream + ": bye {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}\n\n", "8(0)+1(0)"},
	"vLLM, continuous": {route.Chat, `data: {"choices":[{"delta":{"role":"assistant"}}],"usage":{"prompt_tokens":31,"total_tokens":31,"completion_tokens":0}}

data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":31,"total_tokens":32,"completion_tokens":1}}

data: {"choices":[],"usage":{"prompt_tokens":32,"total_tokens":33,"completion_tokens":1}}

data: [DONE]
`, "32(0)+1(0)"},
	"llama.cpp": {route.Chat, `{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"Hi"}}],"created":1,"model":"m","object":"chat.completion",` +
		`"usage":{"completion_tokens":9,"prompt_tokens":12,"total_tokens":21},"id":"chatcmpl-1","timings":{"prompt_n":12,"prompt_ms":20.5}}`, "12(0)+9(0)"},
	"Groq": {route.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"x_groq\":{\"id\":\"req_1\"}}\n\n" +
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"req_1\",\"usage\":{\"queue_time\":0.02,\"prompt_tokens\":14,\"prompt_time\":1e-3,\"completion_tokens\":2}}}\n\n", "14(0)+2(0)"},
	"xAI, whose output is without reasoning":        {route.Chat, `{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}}`, "32(6)+103(94)"},
	"Google, whose total alone has the reasoning":   {route.Chat, `{"usage":{"completion_tokens":35,"prompt_tokens":12,"total_tokens":1047}}`, "12(0)+1035(1000)"},
	"Google, cached, whose total has the reasoning": {route.Chat, `{"usage":{"completion_tokens":35,"prompt_tokens":12,"total_tokens":1047,"prompt_tokens_details":{"cached_tokens":10}}}`, "12(10)+1035(1000)"},
	"a total with the cached tokens twice":          {route.Chat, `{"usage":{"completion_tokens":35,"prompt_tokens":12,"total_tokens":57,"prompt_tokens_details":{"cached_tokens":10}}}`, "12(10)+35(0)"},
	"Responses":                                     {route.Responses, `{"id":"resp_1","object":"response","output":[{"type":"message"}],` + responsesTail, "36(4)+87(64)"},
	"Responses, streamed":                           {route.Responses, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\"," + responsesTail + "}\n\n", "36(4)+87(64)"},
	"Responses with metadata":                       {route.Responses, `{"output":[],` + strings.Replace(responsesTail, `"metadata":{`, `"metadata":{"k":"`+strings.Repeat(`\"usage\":{} `, 800)+`"`, 1), "36(4)+87(64)"},
	"embeddings":                                    {route.Embeddings, `{"object":"list","data":[{"embedding":[0.1,-0.2]}],"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}`, "8(0)+0(0)"},
	"embeddings, the total alone":                   {route.Embeddings, `{"data":[],"usage":{"total_tokens":9}}`, "9(0)+0(0)"},
	"a chat, the total alone":                       {route.Chat, `{"usage":{"total_tokens":9}}`, "absent"},
	"the input alone":                               {route.Chat, `{"usage":{"prompt_tokens":9}}`, "partial 9"},
	"before a long text":                            {route.Chat, `{"id":"x","usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[{"message":{"content":"` + strings.Repeat("a } { text ", 3000) + `"}}]}`, "3(0)+2(0)"},
	"before the choices":                            {route.Chat, `{"usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[{"message":{"content":"a } { text"}}]}`, "3(0)+2(0)"},
	"after a long text":                             {route.Chat, `{"choices":[{"message":{"content":"` + strings.Repeat("a } { text ", 3000) + `"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "3(0)+2(0)"},
	"in the text":                                   {route.Chat, `{"choices":[{"message":{"content":"set \"usage\": {\"prompt_tokens\": 99} there"}}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`, "4(0)+2(0)"},
	"in a tool call":                                {route.Chat, `{"usage":{"prompt_tokens":5,"completion_tokens":1},"choices":[{"message":{"tool_calls":[{"function":{"arguments":"{\"usage\":{\"prompt_tokens\":99}}"}}]}}]}`, "5(0)+1(0)"},
	"in a tool call's object":                       {route.Chat, `{"usage":{"prompt_tokens":5,"completion_tokens":1},"choices":[{"message":{"tool_calls":[{"function":{"arguments":{"usage":{"prompt_tokens":1,"completion_tokens":0}}}}]}}]}`, "5(0)+1(0)"},
	"only in a tool call's object":                  {route.Chat, `{"choices":[{"message":{"tool_calls":[{"function":{"arguments":{"usage":{"prompt_tokens":1,"completion_tokens":0}}}}]}}]}`, "absent"},
	"a text that ends so":                           {route.Chat, `{"usage":{"prompt_tokens":6,"completion_tokens":1},"content":"\"usage","x":1}`, "6(0)+1(0)"},
	"a key that ends so":                            {route.Chat, `{"usage":{"prompt_tokens":6,"completion_tokens":1},"a\"usage":{"prompt_tokens":99}}`, "6(0)+1(0)"},
	"as a value":                                    {route.Chat, `{"usage":{"prompt_tokens":7,"completion_tokens":1},"object":"usage","list":["usage","usage"]}`, "7(0)+1(0)"},
	"braces in its strings":                         {route.Chat, `{"usage":{"note":"}}\"}{","tier":"\\","prompt_tokens":8,"completion_tokens":1}}`, "8(0)+1(0)"},
	"spaced out":                                    {route.Chat, "{\"usage\" \t:\r\n {\n\"prompt_tokens\"\n:\t9 , \"completion_tokens\" : 1 } \n}\n", "9(0)+1(0)"},
	"null after it":                                 {route.Chat, "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: {\"usage\":null}\n\n", "3(0)+1(0)"},
	"the same under both names":                     {route.Chat, `{"usage":{"prompt_tokens":3,"input_tokens":3,"completion_tokens":1,"output_tokens":1}}`, "3(0)+1(0)"},
	"another under the other name":                  {route.Chat, `{"usage":{"prompt_tokens":3,"input_tokens":4,"completion_tokens":1}}`, "duplicate"},
	"doubled":                                       {route.Chat, `{"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens":11}}`, "duplicate"},
	"escaped":                                       {route.Chat, `{"usage":{"prompt\u005ftokens":10,"completion_tokens":1}}`, "absent"},
	"another letter case":                           {route.Chat, `{"usage":{"Prompt_Tokens":1}}`, "absent"},
	"a list":                                        {route.Chat, `{"usage":[{"prompt_tokens":1}]}`, "absent"},
	"a number":                                      {route.Chat, `{"usage":12}`, "absent"},
	"cut":                                           {route.Chat, `{"usage":{"prompt_tokens":12`, "absent"},
	"cut behind it":                                 {route.Chat, `{"x":[{"usage":{"prompt_tokens":12,"completion_tokens":1}`, "absent"},
	"cut after one":                                 {route.Chat, "data: {\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":1}}\n\ndata: {\"usage\":{\"prompt_tok", "12(0)+1(0)"},
	"not JSON":                                      {route.Chat, `{"usage":{prompt_tokens:12}}`, "absent"},
	"too long":                                      {route.Chat, `{"usage":{"prompt_tokens":1,"completion_tokens":1,"x":"` + strings.Repeat("x", 9000) + `"}}`, "absent"},
	"more cached than there is":                     {route.Chat, `{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":6}}}`, "inconsistent"},
	"more reasoning than output":                    {route.Chat, `{"usage":{"prompt_tokens":5,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":6}}}`, "inconsistent"},
	"details that are null":                         {route.Chat, `{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}}`, "5(0)+1(0)"},
	"nothing":                                       {route.Chat, "", "absent"},
	"error in a stream (U11)":                       {route.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\ndata: [DONE]\n\n", "failed"},
	"error in an event (U11)":                       {route.Responses, "event: error\ndata: {\"type\":\"error\",\"code\":\"x\"}\n\n", "failed"},
	"error with its name (U11)":                     {route.Responses, "event: error\ndata: {\"type\":\"error\",\"error\":{\"code\":\"x\"}}\n\n", "failed"},
	"failed, Responses (U11)":                       {route.Responses, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"x\"},\"usage\":null}}\n\n", "failed"},
	"an error that is none":                         {route.Chat, "data: {\"error\":null,\"choices\":[{\"delta\":{\"content\":\"an \\\"error\\\"\"}}]}\n\ndata: [DONE]\n\n", "absent"},
	"error after usage":                             {route.Chat, "data: {\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":1}}\n\ndata: {\"error\":{\"message\":\"late\"}}\n\n", "12(0)+1(0)"},
	"a line of a megabyte (U10)":                    {route.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 1<<20) + "\"}}]}\n\n" + openAIStream, "8(0)+1(0)"},
	"a last line of a megabyte, U10":                {route.Chat, "data: {\"x\":\"" + strings.Repeat("x", 1<<20) + "\",\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n", "2(0)+1(0)"},
}

func TestGolden(t *testing.T) {
	for name, c := range golden {
		if got := readUsage(c.on, c.stream(), "", c.answer); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// The finding is the same wherever an answer is split in two, and byte by byte. (U9)
func TestSplits(t *testing.T) {
	for name, c := range golden {
		step := 1
		if len(c.answer) > 4096 {
			step = len(c.answer) / 16
		}
		for i := 0; i <= len(c.answer); i += step {
			if got := readUsage(c.on, c.stream(), "identity", c.answer[:i], c.answer[i:]); got != c.want {
				t.Errorf("%s, cut at %d: got %s, want %s", name, i, got, c.want)
			}
		}
		if len(c.answer) > 64<<10 {
			continue
		}
		if got := readUsage(c.on, c.stream(), "Identity", strings.Split(c.answer, "")...); got != c.want {
			t.Errorf("%s, by letters: got %s, want %s", name, got, c.want)
		}
	}
}

// Only valid counts are accepted, whatever a server reports. (U14)
func TestLies(t *testing.T) {
	for value, want := range map[string]string{
		"0": "0", "1": "1", " 12 ": "12", "100000000": "100000000",
		"100000001": "too-large", "1000000000000000000": "too-large", "9223372036854775808": "too-large",
		"18446744073709551617": "too-large", strings.Repeat("9", 1500): "too-large",
		"-1": "negative", "-0": "negative", "-1.5": "negative", "-1e400": "negative", "-" + strings.Repeat("9", 1500): "negative",
		"1.5": "not-a-number", "12.0": "not-a-number", "1e2": "not-a-number", "1E18": "not-a-number", "1e400": "not-a-number",
		`"12"`: "not-a-number", "true": "not-a-number", "false": "not-a-number", "{}": "not-a-number", "[12]": "not-a-number",
		"NaN": "not-a-number", "0x10": "not-a-number", "+1": "not-a-number",
		"null": "null", "012": "absent", "": "absent", `"`: "absent", "[": "absent",
	} {
		for pattern, good := range map[string]string{
			`{"usage":{"prompt_tokens":%s,"completion_tokens":5}}`:                                                         "%s(0)+5(0)",
			`{"usage":{"prompt_tokens":5,"completion_tokens":%s}}`:                                                         "5(0)+%s(0)",
			`{"usage":{"prompt_tokens":100000000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":%s}}}`:     "100000000(%s)+5(0)",
			`{"usage":{"completion_tokens_details":{"reasoning_tokens":%s},"prompt_tokens":5,"output_tokens":100000000}}`:  "5(0)+100000000(%s)",
			`{"usage":{"input_tokens":5,"output_tokens":3,"output_tokens_details":{"x":[1],"y":%s}}}`:                      "",
			`{"usage":{"prompt_tokens":5,"completion_tokens":3,"audio_tokens":%s,"reasoning_tokens":%[1]s,"z":[{"a":1}]}}`: "",
		} {
			expected := want
			switch {
			case good == "" && want == "absent" && value == "012" || good == "" && want != "absent":
				expected = "5(0)+3(0)"
			case want == "null" && strings.HasPrefix(good, "%s"):
				expected = "absent"
			case want == "null" && strings.HasSuffix(good, "+%s(0)"):
				expected = "partial 5"
			case want == "null":
				expected = fmt.Sprintf(good, "0")
			case !strings.Contains(want, "-") && want != "absent" && want != "negative":
				expected = fmt.Sprintf(good, want)
			}
			if got := readUsage(route.Chat, false, "", fmt.Sprintf(pattern, value)); got != expected {
				t.Errorf("%.40s in %s: got %s, want %s", value, pattern, got, expected)
			}
		}
	}
}

// Long answers take no more memory than short ones.
func TestMemory(t *testing.T) {
	event := []byte(`data: {"choices":[{"delta":{"content":"word"}}],"usage":{"prompt_tokens":31,"completion_tokens":1,"total_tokens":32}}` + "\n\n")
	r := new(answer.UsageReader)
	r.Reset(route.Chat, true, "")
	for range 100 {
		r.Write(event)
	}
	var got string
	if n := testing.AllocsPerRun(1000, func() { r.Write(event); r.Write(event[:20]); r.Write(event[20:]); _, _ = r.Usage() }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	if got = show(r.Usage()); got != "31(0)+1(0)" {
		t.Errorf("got %s", got)
	}
}

// piecesUsage splits s at random.
func piecesUsage(s string, seed uint64) (out []string) {
	random := rand.New(rand.NewPCG(seed, 1))
	for s != "" {
		n := min(1+random.IntN(1+random.IntN(24)), len(s))
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}
