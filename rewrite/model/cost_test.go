package model_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// wordsCost counts words separated by white space.
type wordsCost struct{}

func (wordsCost) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

var inWords = model.CostModel{Counter: wordsCost{}}

func encoding(t testing.TB, name string) model.CostModel {
	t.Helper()
	e, err := tokens.New().Encoding(name)
	if err != nil {
		t.Fatal(err)
	}
	return model.CostModel{Encoding: name, Counter: e}
}

func parsed(t testing.TB, body string) *chat.Request {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return req
}

func costOf(t testing.TB, m model.CostModel, body string) model.CostTokens {
	t.Helper()
	return new(model.CostCounter).Count(parsed(t, body), m, 0)
}

// The two requests of the OpenAI cookbook cost what OpenAI billed for them ("How to
// count tokens with tiktoken", sections 6 and 7).
func TestCostOfTheCookbook(t *testing.T) {
	const jargon = `{"model":"m","messages":[
		{"role":"system","content":"You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
		{"role":"system","name":"example_user","content":"New synergies will help drive top-line growth."},
		{"role":"system","name":"example_assistant","content":"Things working well together will increase revenue."},
		{"role":"system","name":"example_user","content":"Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
		{"role":"system","name":"example_assistant","content":"Let's talk later when we're less busy about how to do better."},
		{"role":"user","content":"This late pivot means we don't have time to boil the ocean for the client deliverable."}]}`
	const weather = `{"model":"m","messages":[
		{"role":"system","content":"You are a helpful assistant that can answer to questions about the weather."},
		{"role":"user","content":"What's the weather like in Pittsburgh today?"}],
		"tools":[{"type":"function","function":{"name":"get_current_weather","description":"Get the current weather in a given location",
			"parameters":{"type":"object","properties":{
				"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
				"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},
			"required":["location"]}}}]}`
	for _, c := range []struct {
		encoding, body string
		want           int
	}{
		{"cl100k_base", jargon, 129}, {"o200k_base", jargon, 124},
		{"cl100k_base", weather, 105}, {"o200k_base", weather, 101},
	} {
		got := costOf(t, encoding(t, c.encoding), c.body)
		if n := got.Messages + got.Tools; n != c.want || got.Exact != (got.Tools == 0) {
			t.Errorf("%s: %+v is %d, want %d", c.encoding, got, n, c.want)
		}
	}
}

// Counts in words: a message costs 4 and its texts, a name 1 more, the start of the
// answer 3.
func TestCostByComponent(t *testing.T) {
	const user, rest = `{"role":"user","content":"one two"}`, 3 + 4 + 2
	chat := func(messages string, more ...string) string {
		return `{"messages":[` + user + messages + `]` + strings.Join(more, "") + `}`
	}
	for _, c := range []struct {
		body string
		want model.CostTokens
	}{
		{chat(""), model.CostTokens{Messages: rest, Exact: true}},
		{chat(`,{"role":"user","name":"ann","content":"\u0061 \"b\"\nc"}`), model.CostTokens{Messages: rest + 4 + 3 + 1 + 1, Exact: true}},
		{chat(`,{"role":"user","content":[{"type":"text","text":"a b"},{"type":"text","text":" c"}]}`), model.CostTokens{Messages: rest + 4 + 3, Exact: true}},
		{chat(`,{"role":"assistant","content":null,"refusal":"no way"}`), model.CostTokens{Messages: rest + 4 + 2, Exact: true}},
		{chat(`,{"role":"assistant","unknown":"x y z","content":"a"}`), model.CostTokens{Messages: rest + 4 + 1, Exact: true}},
		{chat(`,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{ }"}}]},{"role":"tool","tool_call_id":"c1","content":"done"}`),
			model.CostTokens{Messages: rest + 4 + 4 + 1 + 2 + 4 + 1}},
		{chat(`,{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"f","input":"a b c"}}]}`), model.CostTokens{Messages: rest + 4 + 4 + 1 + 3}},
		{chat(`,{"role":"assistant","function_call":{"name":"f","arguments":"{ }"}}`), model.CostTokens{Messages: rest + 4 + 4 + 1 + 2}},
		{chat(`,{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}`), model.CostTokens{Messages: rest + 4, Images: tokens.ImageRule{}.Tokens(0, 0, "")}},
		{chat(`,{"role":"user","content":[{"type":"image_url","image_url":"https://x/y.png"}]}`), model.CostTokens{Messages: rest + 4, Images: tokens.ImageRule{}.Tokens(0, 0, "")}},
		{chat(`,{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("A", 2526) + `"}}]}`), model.CostTokens{Messages: rest + 4, Images: 64 + 9}},
		{chat(`,{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}`), model.CostTokens{Messages: rest + 4, Images: 2000}},
		// Text in members and parts that only some servers accept is counted.
		{chat(`,{"role":"user","content":[{"text":"a b c"},{"type":"input_text","text":"d e"}]}`), model.CostTokens{Messages: rest + 4 + 5}},
		{chat(`,{"role":"assistant","content":[{"type":"thinking","thinking":"a b c","signature":"x"},{"type":"output_text","text":"d"}]}`), model.CostTokens{Messages: rest + 4 + 4}},
		{chat(`,{"role":"user","content":[{"type":"document","text":"a b c","title":"` + strings.Repeat("A", 1600) + `"}]}`), model.CostTokens{Messages: rest + 4 + 3, Images: 2000 + 1602/16}},
		{chat(``, `,"response_format":{"type":"text"}`), model.CostTokens{Messages: rest, Exact: true}},
		{chat(``, `,"response_format":{"type":"json_object"}`), model.CostTokens{Messages: rest, Exact: true}},
		{chat(``, `,"response_format":{"type":"json_schema", "json_schema":{ "name":"x"}}`), model.CostTokens{Messages: rest, Format: 3}},
		{chat(``, `,"tools":[]`), model.CostTokens{Messages: rest}},
		{chat(``, `,"tools":[{"type":"function","function":{"name":"f"}}]`), model.CostTokens{Messages: rest, Tools: 10 + 1 + 12}},
		{chat(``, `,"functions":[{"name":"f","description":"does it."}]`), model.CostTokens{Messages: rest, Tools: 10 + 2 + 12}},
		{chat(``, `,"tools":[{"type":"web_search", "x":1}]`), model.CostTokens{Messages: rest, Tools: 2 + 12}},
		// An empty enum does not reduce the count.
		{chat(``, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[],"not":{"enum":null}}}}]`), model.CostTokens{Messages: rest, Tools: 10 + 1 + 12}},
		{chat(``, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":["a"]}}}]`), model.CostTokens{Messages: rest, Tools: 10 + 1 + 12 - 3 + (3 + 1)}},
		// Nested objects, each with a list of properties; a list of one of two types; and an
		// unknown keyword.
		{chat(``, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
			"a":{"type":"object","properties":{"b":{"type":"string","pattern":"x y"}}},
			"c":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}}}]`),
			model.CostTokens{Messages: rest, Tools: 10 + 1 + 12 + 3 + (3 + 1) + 3 + (3 + 1) + 2 + (3 + 1) + 2*(3+1)}},
	} {
		if got := costOf(t, inWords, c.body); got != c.want {
			t.Errorf("%s\ncosts %+v\nwant  %+v", c.body, got, c.want)
		}
	}
}

// A content of many small parts takes memory, and so time, proportional to its length.
func TestCostOfManyPartsIsLinear(t *testing.T) {
	var counter model.CostCounter
	m := encoding(t, "o200k_base")
	allocated := func(parts int) uint64 {
		const part = `{"type":"text","text":"a"}`
		body := `{"messages":[{"role":"user","content":[` + strings.Repeat(part+",", parts-1) + part + `]}]}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		counter.Count(parsed(t, body), m, 0)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated(1)
	if short, long := allocated(2_000), allocated(20_000); long > 20*short {
		t.Errorf("ten times the parts take %d bytes, not %d", long, short)
	}
}

// Only arrays in these members are tools: arrays elsewhere cost nothing, nor do other types in
// these members.
func TestTools(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"a","description":"one two three"}}`
	for members, want := range map[string]bool{
		`"tools":[` + tool + `]`: true, `"functions":[{"name":"a","description":"one two three"}]`: true,
		`"tools":` + tool: false, `"tools":"one two three"`: false, `"stop":["one two three"]`: false, `"metadata":[` + tool + `]`: false, `"tools":[]`: false,
	} {
		if got := costOf(t, inWords, `{`+members+`,"messages":[{"role":"user","content":"How long?"}]}`); (got.Tools > 0) != want {
			t.Errorf("%s: %+v", members, got)
		}
	}
}

// An earlier spoken answer is given by an id that does not reveal its length: it is counted as a
// reserve, and the count is not exact.
func TestAudioByID(t *testing.T) {
	const head, tail = `{"messages":[{"role":"user","content":"one two"},{"role":"assistant"`, `}]}`
	const rest = 3 + 4 + 2 + 4
	for _, c := range []struct {
		audio string
		want  model.CostTokens
	}{
		{`,"audio":{"id":"audio_abc"}`, model.CostTokens{Messages: rest, Images: 640}},
		{`,"content":"three","audio":{"id":"audio_abc"}`, model.CostTokens{Messages: rest + 1, Images: 640}},
		{`,"audio":{"id":"audio_abc","data":"AAAA","transcript":"a b"}`, model.CostTokens{Messages: rest + 2, Images: 640}},
		{`,"audio":{"id":"audio_abc","data":"` + strings.Repeat("A", 256_000-2) + `"}`, model.CostTokens{Messages: rest, Images: 64 + 1000}},
		{`,"content":"three","audio":null`, model.CostTokens{Messages: rest + 1, Exact: true}},
	} {
		if got := costOf(t, inWords, head+c.audio+tail); got != c.want {
			t.Errorf("%.80s costs %+v, want %+v", c.audio, got, c.want)
		}
	}
}

// Results for a message are computed once for equal bytes, also in other requests, unless caching
// is off.
func TestEqualMessagesAreReadOnce(t *testing.T) {
	counter, calls := &model.CostCounter{Cache: tokens.NewCache(10)}, map[string]int{}
	read := func(body string) {
		req := parsed(t, body)
		messages := counter.Of(req)
		for n := range req.Messages {
			raw := string(req.Messages[n].Of(req.Body))
			for _, what := range []uint64{1, 2} {
				if got := messages.Remember(n, what, func() int { calls[fmt.Sprint(what)+raw]++; return len(raw) }); got != len(raw) {
					t.Errorf("%d of %s is %d", what, raw, got)
				}
			}
		}
	}
	for range 3 {
		read(`{"messages":[{"role":"user","content":"Größe"},{"role":"user","content":"<b>"}]}`)
		read(`{"messages":[{"role":"user","content":"<b>"}, {"role":"user","content":"休"},{"role":"user","content":"Größe"}]}`)
	}
	if len(calls) != 6 {
		t.Errorf("%d results, want 6: %v", len(calls), calls)
	}
	if n := calls[`1{"role":"user","content":"休"}`]; n != 1 {
		t.Errorf("read %d times, want 1", n)
	}
}

// countingWords is words that counts the calls of Count.
type countingWords struct{ calls *int }

func (c countingWords) Count(text string) (int, bool) {
	*c.calls++
	return wordsCost{}.Count(text)
}

// C17: a count that stopped at a limit is cached for that limit only.
func TestC17StoppedCountIsRemembered(t *testing.T) {
	var counter model.CostCounter
	calls := 0
	m := model.CostModel{Counter: countingWords{&calls}}
	req := parsed(t, `{"messages":[{"role":"user","content":"`+strings.Repeat("word ", 200)+`"},{"role":"user","content":"b"}]}`)
	const whole = 3 + 4 + 200 + 4 + 1
	for _, c := range []struct {
		limit, calls int
		want         model.CostTokens
	}{
		{50, 1, model.CostTokens{Messages: 3 + 4 + 200, Stopped: true}},
		{50, 1, model.CostTokens{Messages: 3 + 4 + 200, Stopped: true}},
		{51, 2, model.CostTokens{Messages: 3 + 4 + 200, Stopped: true}},
		{0, 4, model.CostTokens{Messages: whole, Exact: true}},
		{0, 4, model.CostTokens{Messages: whole, Exact: true}},
		{300, 4, model.CostTokens{Messages: whole, Exact: true}},
	} {
		if got := counter.Count(req, m, c.limit); got != c.want || calls != c.calls {
			t.Errorf("limit %d: %+v after %d calls, want %+v after %d", c.limit, got, calls, c.want, c.calls)
		}
	}
}

// C12: invalid UTF-8 anywhere makes the count inexact, even if the messages were counted before.
func TestC12CountOfBadUTF8IsNotExact(t *testing.T) {
	var counter model.CostCounter
	for _, c := range []struct {
		head, members, tail string
		exact               bool
	}{
		{"", "", "", true},
		{`"user":"é",`, `,"x":"é"`, `,"metadata":{"a":"é"}`, true},
		{"\"user\":\"\xff\",", "", "", false},
		{"", ",\"x\":\"\xc3\"", "", false},
		{"", "", ",\"metadata\":{\"a\":\"\xe4\xbc\"}", false},
	} {
		body := `{` + c.head + `"messages":[{"role":"user","content":"Größe"},{"role":"user","content":"a"` + c.members + `}, {"role":"user","content":"b"}]` + c.tail + `}`
		for range 2 {
			if got := counter.Count(parsed(t, body), inWords, 0); got.Exact != c.exact || got.Messages != 3+3*5 {
				t.Errorf("%q costs %+v, want exact: %v", body, got, c.exact)
			}
		}
	}
}
