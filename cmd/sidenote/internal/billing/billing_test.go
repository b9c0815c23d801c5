package billing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/cmd/sidenote/internal/billing"
)

// A clock is a time that tests move.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// A bench bills requests of one API under one rule.
type bench struct {
	*clock
	meter *billing.Meter
	api   billing.API
}

func newBench(rule billing.Rule, api billing.API) *bench {
	c := &clock{time.Unix(1_700_000_000, 0)}
	return &bench{c, billing.NewMeter(rule, c.now, nil), api}
}

func (b *bench) bill(t testing.TB, body string) billing.Usage {
	t.Helper()
	u, err := b.meter.Bill(b.api, []byte(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return u
}

// want fails unless a request reads and writes that many tokens.
func (b *bench) want(t testing.TB, body string, read, written int) {
	t.Helper()
	if u := b.bill(t, body); u.Read != read || u.Written != written {
		t.Errorf("%d read, %d written of %d; want %d and %d", u.Read, u.Written, u.Input, read, written)
	}
}

// words returns a text of n tokens.
func words(n int) string { return strings.Repeat(" word", n) }

// chatOf returns a request of chat completions whose messages have those contents, which are JSON,
// of system, user, assistant, user and so on.
func chatOf(options string, contents ...string) string {
	messages := make([]string, len(contents))
	for i, c := range contents {
		role := "system"
		if i > 0 {
			role = []string{"assistant", "user"}[i%2]
		}
		messages[i] = fmt.Sprintf(`{"role":%q,"content":%s}`, role, c)
	}
	return fmt.Sprintf(`{"model":"m"%s,"messages":[%s]}`, options, strings.Join(messages, ","))
}

func text(n int) string { return fmt.Sprintf("%q", words(n)) }

// part returns a content part with additional members.
func part(n int, more string) string {
	return fmt.Sprintf(`{"type":"text","text":%q%s}`, words(n), more)
}

const marked = `,"prompt_cache_breakpoint":{"mode":"explicit"}`

// An implicit breakpoint is written at the end of the newest message, and found again where the
// next request has that message.
func TestBreakpointsFollowAConversation(t *testing.T) {
	b := newBench(billing.Breakpoints, billing.Chat)
	// Each message costs 4 tokens besides its text.
	b.want(t, chatOf("", text(1000), text(16)), 0, 1024)
	b.want(t, chatOf("", text(1000), text(16), text(50), text(20)), 1024, 78)
	b.want(t, chatOf("", text(1000), "["+part(16, "")+","+part(9, "")+"]"), 1024, 9)
	b.want(t, chatOf("", text(1000), text(17)), 0, 1025)
	b.want(t, chatOf("", text(900), text(16)), 0, 0) // too short
}

// What follows an explicit mark may change; without an implicit breakpoint it is not written.
func TestBreakpointsThatAreMarked(t *testing.T) {
	system := "[" + part(1100, marked) + "]"
	b := newBench(billing.Breakpoints, billing.Chat)
	b.want(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, system, text(10)), 0, 1104)
	b.want(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, system, text(20)), 1104, 0)
	b.want(t, chatOf("", system, text(30)), 1104, 34)
	b.want(t, chatOf("", text(1100), text(40)), 1104, 44) // read though unmarked
	b.want(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, text(1200), text(40)), 0, 0)
	responses := newBench(billing.Breakpoints, billing.Responses)
	const input = `{"model":"m","input":[{"role":"developer","content":[%s]},{"role":"user","content":"%s"}]}`
	responses.want(t, fmt.Sprintf(input, strings.Replace(part(1100, marked), `"text"`, `"input_text"`, 1), "a"), 0, 1109)
	responses.want(t, fmt.Sprintf(input, strings.Replace(part(1100, marked), `"text"`, `"input_text"`, 1), "b"), 1104, 5)
}

// Only the latest three explicit marks are written beside the implicit one, and four without it.
func TestBreakpointsAreFourAtMost(t *testing.T) {
	five := "[" + strings.Join([]string{part(1100, marked), part(10, marked), part(20, marked), part(30, marked), part(40, marked)}, ",") + "]"
	first := "[" + part(1100, "") + "]"
	second := "[" + part(1100, "") + "," + part(10, "") + "]"
	b := newBench(billing.Breakpoints, billing.Chat)
	b.bill(t, chatOf("", five, text(1)))
	b.want(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, second), 0, 0)
	b.bill(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, five, text(1)))
	b.want(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, second), 1114, 0)
	b.want(t, chatOf(`,"prompt_cache_options":{"mode":"explicit"}`, first), 0, 0)
}

// Prefixes are read in steps of 128 tokens, wherever they end, and cost nothing to write.
func TestPrefixes(t *testing.T) {
	b := newBench(billing.Prefix, billing.Chat)
	b.want(t, chatOf("", text(1500), text(16)), 0, 0)
	b.want(t, chatOf("", text(1500), text(17)), 1408, 0)
	b.want(t, chatOf("", text(1400), text(17)), 1280, 0)
	b.want(t, chatOf("", text(1100), text(17)), 1024, 0)
	b.want(t, chatOf("", text(900), text(17)), 0, 0)
	b.want(t, strings.Replace(chatOf("", text(1500), text(16)), `"m"`, `"n"`, 1), 0, 0) // another model
	g := newBench(billing.Implicit, billing.Chat)
	g.want(t, chatOf("", text(2100), text(16)), 0, 0)
	g.want(t, chatOf("", text(2100), text(17)), 2104+4+15, 0)
	g.want(t, chatOf("", text(2000), text(17)), 0, 0)
}

const (
	fiveMinutes = `,"cache_control":{"type":"ephemeral"}`
	oneHour     = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
)

// messages returns a request of the Messages API.
func messages(options, system string, contents ...string) string {
	list := make([]string, len(contents))
	for i, c := range contents {
		list[i] = fmt.Sprintf(`{"role":%q,"content":%s}`, []string{"user", "assistant"}[i%2], c)
	}
	return fmt.Sprintf(`{"model":"m","max_tokens":9%s,"system":%s,"messages":[%s]}`, options, system, strings.Join(list, ","))
}

// Marks are written at 1.25 or twice the price and read by each later mark within 20 blocks.
func TestCacheControl(t *testing.T) {
	b := newBench(billing.CacheControl, billing.Messages)
	system := "[" + part(1100, oneHour) + "]"
	b.want(t, messages("", text(1100), text(10)), 0, 0)
	u := b.bill(t, messages("", system, "["+part(10, fiveMinutes)+"]"))
	if u.Written != 1118 || u.WrittenHour != 1104 || math.Abs(u.Cost-2*1104-1.25*14) > 1e-6 {
		t.Errorf("%+v", u)
	}
	b.want(t, messages("", system, "["+part(10, "")+","+part(20, "")+"]"), 1104, 0)
	b.want(t, messages(fiveMinutes, system, text(10), text(30), text(40)), 1118, 78)
	b.want(t, messages("", "["+part(1100, "")+"]", "["+part(10, fiveMinutes)+"]"), 1118, 0)
	blocks := func(n int) string {
		parts := []string{part(10, "")}
		for range n - 1 {
			parts = append(parts, part(1, ""))
		}
		return "[" + strings.Join(append(parts, part(1, fiveMinutes)), ",") + "]"
	}
	b.want(t, messages("", text(1100), blocks(19)), 1118, 19)
	b.Time = b.Add(6 * time.Minute)
	b.want(t, messages("", text(1100), blocks(18)), 1104, 32)
	b.want(t, messages("", text(1100), strings.Replace(blocks(22), " word", " other", 1)), 0, 1104+4+10+22)
}

// A tool that changes changes what follows it: the system message and the messages.
func TestCacheControlBeginsWithTheTools(t *testing.T) {
	b := newBench(billing.CacheControl, billing.Messages)
	body := func(tool, mark string) string {
		return messages(fmt.Sprintf(`,"tools":[{"name":%q,"description":%q%s}]`, tool, words(1200), mark), "["+part(1100, fiveMinutes)+"]", text(1))
	}
	first := b.bill(t, body("a", fiveMinutes))
	if u := b.bill(t, body("a", "")); u.Read != first.Written || u.Written != 0 {
		t.Errorf("%+v after %+v", u, first)
	}
	if u := b.bill(t, body("b", "")); u.Read != 0 || u.Written != first.Written {
		t.Errorf("%+v after %+v", u, first)
	}
}

// Requests with marks that Anthropic refuses are refused in its words.
func TestCacheControlIsRefused(t *testing.T) {
	b := newBench(billing.CacheControl, billing.Messages)
	f := func(body, want string) {
		t.Helper()
		_, err := b.meter.Bill(b.api, []byte(body))
		if refused := (*billing.RefusedError)(nil); !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	p := part(1, fiveMinutes)
	four := "[" + strings.Join([]string{p, p, p, p}, ",") + "]"
	f(messages("", "["+p+"]", four), "A maximum of 4 blocks with cache_control may be provided. Found 5.")
	f(messages(fiveMinutes, text(1), four, text(1), text(1)), "A maximum of 4 blocks with cache_control may be provided. Found 5.")
	b.bill(t, messages(fiveMinutes, text(1), four)) // the automatic mark is one of the four
	f(messages("", "["+p+"]", "["+part(1, oneHour)+"]"), "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'")
	f(messages("", text(1), "["+part(1, strings.Replace(oneHour, "1h", "2h", 1))+"]"), "messages.0.content.0.cache_control.ttl: Input should be")
	f(messages("", "["+part(0, fiveMinutes)+"]", text(1)), "system.0.text: cache_control cannot be set for empty text blocks")
	f(messages("", text(1), text(1), `[{"type":"thinking","thinking":"x","signature":"y"`+fiveMinutes+`}]`), "messages.1.content.0.thinking.cache_control: Extra inputs")
	if got := b.meter.Totals(); got.Refused != 6 || got.Requests != 1 {
		t.Errorf("totals %+v", got)
	}
}

// Entries are forgotten when they were not used for their lifetime.
func TestEntriesExpire(t *testing.T) {
	f := func(rule billing.Rule, api billing.API, body string, lifetime time.Duration) {
		t.Helper()
		b := newBench(rule, api)
		b.bill(t, body)
		for range 3 { // each use renews
			b.Time = b.Add(lifetime - time.Second)
			if b.bill(t, body).Read == 0 {
				t.Errorf("%s: forgotten within %v", rule, lifetime)
			}
		}
		b.Time = b.Add(lifetime)
		if u := b.bill(t, body); u.Read != 0 {
			t.Errorf("%s: %d tokens read after %v", rule, u.Read, lifetime)
		}
	}
	f(billing.Breakpoints, billing.Chat, chatOf("", text(3000), text(1)), 30*time.Minute)
	f(billing.Prefix, billing.Chat, chatOf("", text(3000), text(1)), 5*time.Minute)
	f(billing.Implicit, billing.Chat, chatOf("", text(3000), text(1)), 5*time.Minute)
	f(billing.CacheControl, billing.Messages, messages("", text(3000), "["+part(1, fiveMinutes)+"]"), 5*time.Minute)
	f(billing.CacheControl, billing.Messages, messages("", text(3000), "["+part(1, oneHour)+"]"), time.Hour)
}

// What is remembered is bounded; the requests of late are kept.
func TestMemoryIsBounded(t *testing.T) {
	b := newBench(billing.Prefix, billing.Chat)
	request := func(i int) string { return chatOf("", fmt.Sprintf("%q", fmt.Sprint(i)+words(1100)), text(1)) }
	for i := range 520 {
		b.bill(t, request(i))
	}
	if u := b.bill(t, request(519)); u.Read == 0 {
		t.Error("the latest is forgotten")
	}
	if u := b.bill(t, request(0)); u.Read != 0 {
		t.Error("the first of 520 is remembered")
	}
}

// apis lists the rules with the APIs of their upstreams.
var apis = map[billing.Rule][]billing.API{
	billing.Breakpoints:  {billing.Chat, billing.Responses},
	billing.Prefix:       {billing.Chat, billing.Responses, billing.Messages},
	billing.CacheControl: {billing.Messages, billing.Chat},
	billing.Implicit:     {billing.Chat},
}

// bodyGen draws requests of an API; first is the text of the first message.
func bodyGen(api billing.API, first string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		content := func() any {
			s := words(rapid.IntRange(0, 900).Draw(t, "words")) + rapid.SampledFrom([]string{"", "ü", "文字", " x"}).Draw(t, "end")
			kind := map[billing.API]string{billing.Responses: "input_text"}[api]
			if kind == "" {
				kind = "text"
			}
			if rapid.Bool().Draw(t, "string") {
				return s
			}
			parts := []any{map[string]any{"type": kind, "text": "x" + s}, map[string]any{"type": "image", "source": "y"}}
			if rapid.Bool().Draw(t, "mark") {
				parts[1].(map[string]any)["prompt_cache_breakpoint"] = map[string]any{"mode": "explicit"}
				parts[0].(map[string]any)["cache_control"] = map[string]any{"type": "ephemeral"}
			}
			return parts
		}
		list := []any{map[string]any{"role": "system", "content": first}}
		for i := range rapid.IntRange(1, 4).Draw(t, "messages") {
			list = append(list, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": content()})
		}
		body := map[string]any{"model": "m", "max_tokens": 1}
		switch api {
		case billing.Messages:
			body["system"], body["messages"] = first, list[1:]
		case billing.Responses:
			body["input"] = list
		default:
			body["messages"] = list
		}
		if rapid.Bool().Draw(t, "explicit") {
			body["prompt_cache_options"] = map[string]any{"mode": "explicit"}
		}
		if rapid.Bool().Draw(t, "automatic") {
			body["cache_control"] = map[string]any{"type": "ephemeral"}
		}
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	})
}

// Under every rule: read, written and plain tokens are the input; a request that is sent again
// reads what the first wrote, and writes nothing; with another first byte it reads nothing.
func TestBillsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom(billing.Rules()).Draw(t, "rule")
		api := rapid.SampledFrom(apis[rule]).Draw(t, "api")
		system := words(rapid.SampledFrom([]int{0, 100, 1100, 3000}).Draw(t, "system"))
		b := newBench(rule, api)
		bill := func(body string) billing.Usage {
			u, err := b.meter.Bill(api, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if u.Read < 0 || u.Written < 0 || u.Plain < 0 || u.Read+u.Written+u.Plain != u.Input || u.WrittenHour > u.Written {
				t.Fatalf("%+v", u)
			}
			return u
		}
		body := bodyGen(api, "@"+system).Draw(t, "body")
		first, again := bill(body), bill(body)
		if first.Read != 0 || again.Input != first.Input || again.Written != 0 || first.Written > 0 && again.Read != first.Written {
			t.Fatalf("first %+v, again %+v", first, again)
		}
		if again.Cost > first.Cost+1e-6 {
			t.Fatalf("first %+v, again %+v", first, again)
		}
		if free := rule == billing.Prefix || rule == billing.Implicit; free && first.Input >= 2048 && again.Read < first.Input-127 {
			t.Fatalf("first %+v, again %+v", first, again)
		}
		if other := bill(strings.Replace(body, `"@`, `"#`, 1)); other.Read != 0 {
			t.Fatalf("%+v with another first byte", other)
		}
		if other := bill(strings.Replace(body, `"model":"m"`, `"model":"o"`, 1)); other.Read != 0 {
			t.Fatalf("%+v with another model", other)
		}
	})
}

// Any bytes are billed or refused without a panic.
func FuzzBill(f *testing.F) {
	f.Add(`{"model":"m","tools":[1,{"cache_control":3}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{}],"cache_control":{}}]},{}]}`)
	f.Add(`{"input":"x","instructions":"y","cache_control":{"ttl":"1h"},"system":null,"messages":[{"content":{"a":1}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for rule, forms := range apis {
			m := billing.NewMeter(rule, time.Now, nil)
			for _, api := range forms {
				if u, err := m.Bill(api, []byte(body)); err == nil && u.Read+u.Written+u.Plain != u.Input {
					t.Errorf("%+v", u)
				}
			}
		}
	})
}
