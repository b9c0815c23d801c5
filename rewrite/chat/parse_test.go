package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

const asking = `"messages":[{"role":"user","content":"How long?"}]`

// The body's own members are read, whatever else the body contains.
func TestMembers(t *testing.T) {
	for _, c := range []struct {
		members, model string
		stream         bool
	}{
		{`"model":"gpt-4o"`, "gpt-4o", false},
		{`"model":"gpt\u002d4o","stream":true`, "gpt-4o", true},
		{`"model":"","stream":false,"store":true`, "", false},
		{`"model":null,"stream":null,"response_format":null,"sidenote":null,"tools":null`, "", false},
		{`"model":"é","metadata":{"model":"b","stream":true}`, "é", false},
		// Keys at one level are independent of those at another.
		{`"role":1,"content":2,"type":{"type":1},"text":4,"key":[{"key":1},{"key":2}],"response_format":{"type":"text","key":{"type":1}}`, "", false},
		{`"response_format":{"type":"text","x":1},"x":2,"type":3`, "", false},
		{`"max_tokens":"x","n":[],"functions":{},"stop":["a"]`, "", false},
	} {
		for _, body := range []string{`{` + c.members + `,` + asking + `}`, `{` + asking + `,` + c.members + `}`} {
			req, err := chat.Completions.Parse([]byte(body))
			if err != nil {
				t.Errorf("%s: %v", body, err)
				continue
			}
			if req.Model != c.model || req.Stream != c.stream {
				t.Errorf("%s: model %q, stream %v", body, req.Model, req.Stream)
			}
		}
	}
}

// A body that ends too early, at any byte, is not JSON and has no Request.
func TestBodyThatEndsEarly(t *testing.T) {
	const body = `{"model":"m\u0065\ud83d\ude00","stream":true,"n":1.5e+1,"response_format":{"type":"json_schema","json_schema":{"a":[1,{}]}},"tools":[{"type":"x"}],
"messages":[{"role":"system","content":"Be brief."},{"role":"us\u0065r","content":[{"type":"text","text":"é\n"},{"type":"image_url"}],"name":null}],"sidenote":{"query":"a"},"sidenote\u0000":false}`
	for end := range len(body) {
		req, err := chat.Completions.Parse([]byte(body)[:end])
		var bad *chat.Error
		if req != nil || !errors.As(err, &bad) || bad.Reason != chat.NotJSON {
			t.Errorf("%s: %v, %v", body[:end], req, err)
		}
	}
	if _, err := chat.Completions.Parse([]byte(body)); err != nil {
		t.Error(err)
	}
	for _, more := range []string{`{}`, `[]`, `7`, `"a"`, `null`, body} {
		for _, behind := range []string{"x", " 1", "}", ",", "\x00"} {
			var bad *chat.Error
			if _, err := chat.Completions.Parse([]byte(more + behind)); !errors.As(err, &bad) || bad.Reason != chat.NotJSON || !strings.HasSuffix(bad.Message, "where the end of the body is expected") {
				t.Errorf("%s%s: %v", more, behind, err)
			}
		}
	}
}

// The field name is case-sensitive.
func TestFieldOfAnotherCase(t *testing.T) {
	for _, field := range []string{`"Sidenote":{"mode":"off"}`, `"SIDENOTE":7`, `"\u017fidenote":{"mode":"off"}`} {
		req, err := chat.Completions.Parse([]byte(`{` + field + `,` + asking + `}`))
		var bad *chat.Error
		if !errors.As(err, &bad) || bad.Reason != chat.Ambiguous || req == nil {
			t.Fatalf("%s: %v, %v", field, req, err)
		}
		if req.Field != (chat.Field{}) {
			t.Errorf("%s: %+v", field, req.Field)
		}
	}
}

// The error names the first member of a wrong type.
func TestMembersOfTheWrongType(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"messages":{}}`, "messages: an object, not an array"},
		{`{"messages":null,"model":7}`, "messages: null, not an array"},
		{`{"model":7,"messages":null}`, "model: a number"},
		{`{"model":["a"],` + asking + `}`, "model: an array"},
		{`{"stream":"true",` + asking + `}`, "stream: a string"},
		{`{"response_format":"text",` + asking + `}`, "response_format: a string"},
		{`{"model":"a"}`, "messages: missing"},
		{`{"messages":[],"stream":7}`, "stream: a number"},
		{`{"messages":[[]]}`, "messages[0]: an array, not an object"},
		{`{"messages":[{"role":"user"},{"role":"user","content":[{"type":"text","text":"a"},7]}]}`, "messages[1].content[1]: a number, not an object"},
		{`{"messages":[{"role":"user"},{"role":"user","content":[{"type":"text","text":7}]}]}`, "messages[1].content[0].text: a number, not a string"},
	} {
		_, err := chat.Completions.Parse([]byte(c.body))
		var bad *chat.Error
		if !errors.As(err, &bad) || bad.Reason != chat.NotChat || bad.Message != c.want || !strings.HasPrefix(c.want, bad.Param+":") {
			t.Errorf("%s: %+v, want %s", c.body, bad, c.want)
		}
	}
}

// ambiguity returns what is ambiguous in a body, including its last user message and its first
// system message.
func ambiguity(body string) (bad *chat.Error) {
	req, err := chat.Completions.Parse([]byte(body))
	if errors.As(err, &bad) {
		return bad
	}
	if _, last := req.Question(); req.Ambiguity(last, nil) != nil {
		return req.Ambiguity(last, nil)
	}
	return req.OperatorAmbiguity(false, nil)
}

// The error describes the first ambiguity.
func TestAmbiguityIsTold(t *testing.T) {
	const user = `{"role":"user","content":"How long?"}`
	for _, c := range []struct{ body, want string }{
		{`{"x":1,"x":2,"y":1,"y":2,` + asking + `}`, `x: key "x" is repeated in one object`},
		{`{"":1,"x":1,"":2,` + asking + `}`, `: key "" is repeated in one object`},
		{`{"Model":1,"Stream":1,` + asking + `}`, `Model: "Model" differs from "model" in case alone`},
		{`{"\ud800":1,"Model":1,` + asking + `}`, "\ufffd: key \"\ufffd\" is not Unicode"},
		{`{"model":"\ud800","Stream":1,` + asking + `}`, "model: model \"\ufffd\" is not Unicode"},
		{`{"Stream":1,"model":"\ud800",` + asking + `}`, `Stream: "Stream" differs from "stream" in case alone`},
		{`{"mo\u212a":1,"tool\u017f":1,` + asking + `}`, "tool\u017f: \"tool\u017f\" differs from \"tools\" in case alone"},
		{`{` + asking + `,"response_format":{"Type":1}}`, `response_format.Type: "Type" differs from "type" in case alone`},
		{`{"messages":[` + user + `,{"role":"user","role":"user"}]}`, `messages[1].role: messages[1].role is repeated`},
		{`{"messages":[` + user + `,{"role":"user","Role":"user"}]}`, `messages[1].role: messages[1].role differs from role only in case`},
		{`{"messages":[` + user + `,{"role":"\ud800"}]}`, `messages[1].role: messages[1].role is not Unicode`},
		{`{"messages":[{"role":"system","content":"a","content":"b"},` + user + `]}`, `messages[0].content: key "content" is repeated in one object`},
		{"{\"messages\":[{\"role\":\"system\",\"content\":\"\xff\"}," + user + `]}`, `messages[0].content: text is not valid UTF-8`},
		{`{"messages":[{"role":"system","content":"\ud800"},` + user + `]}`, `messages[0].content: escaped lone surrogate at byte 41`},
	} {
		bad := ambiguity(c.body)
		if bad == nil || bad.Reason != chat.Ambiguous || bad.Param+": "+bad.Message != c.want {
			t.Errorf("%s: %+v, want %s", c.body, bad, c.want)
		}
	}
}

// A duplicate key is found in an object of any size, whether the first or the last, and keys of
// one object do not count in the next.
func TestKeysOfLargeObjects(t *testing.T) {
	object := func(n int, again string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return b.String() + again
	}
	message := func(more string) string { return `{"role":"user",` + more + `"content":"How long?"}` }
	for n := range 60 {
		clear := `{` + object(n, "") + `"a":{` + object(n, `"z":{}`) + `},"messages":[` + message(object(n, "")) + `,` + message(object(n, "")) + `]}`
		if bad := ambiguity(clear); bad != nil {
			t.Errorf("%d keys: %+v", n, bad)
		}
		for _, again := range []int{0, n / 2, n - 1} {
			if n == 0 {
				continue
			}
			key := fmt.Sprint("k", again)
			twice := object(n, `"`+key+`":1,`)
			for body, param := range map[string]string{
				`{` + twice + asking + `}`: key,
				`{` + object(n, "") + `"messages":[` + message(object(n, "")) + `],"` + key + `":1}`: key,
				`{"messages":[` + message(twice) + `]}`:                                              "messages[0]." + key,
				`{"messages":[` + message(twice+`"z":1,`) + `]}`:                                     "messages[0]." + key,
			} {
				if bad := ambiguity(body); bad == nil || bad.Param != param || bad.Message != fmt.Sprintf("key %q is repeated in one object", key) {
					t.Errorf("%d keys, %s twice: %+v", n, key, bad)
				}
			}
		}
	}
}

// A Parser retains nothing of a body for the next one, not even its model.
func TestParserReadsEachBodyAnew(t *testing.T) {
	var p chat.Parser
	for _, c := range []struct{ body, model string }{
		{`{"model":"a\\u0062",` + asking + `}`, `a\u0062`},
		{`{"model":"a\u0062",` + asking + `}`, "ab"},
		{`{"model":"ab",` + asking + `}`, "ab"},
		{`{"model":"ac",` + asking + `}`, "ac"},
		{`{"x":1,"x":2,"messages":7}`, ""},
		{`{"messages":[{"role":"user","content":"\ud800"}],"tools":[{}]}`, ""},
		{`{"model":"ac",` + asking, "-"},
		{`{` + asking + `}`, ""},
	} {
		got, err := p.Parse(chat.Completions, []byte(c.body))
		want, wantErr := chat.Completions.Parse([]byte(c.body))
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", c.body, err, wantErr)
		}
		if got != nil && err == nil && (got.Model != c.model || got.Everything() != want.Everything()) {
			t.Errorf("%s: model %q, %s, want %s", c.body, got.Model, got.Everything(), want.Everything())
		}
	}
}

// An answer is text unless its format says otherwise; only a schema is counted.
func TestResponseFormat(t *testing.T) {
	for _, c := range []struct {
		format string
		isText bool
		schema bool
	}{
		{``, true, false}, {`"response_format":null,`, true, false},
		{`"response_format":{"type":"text"},`, true, false},
		{`"response_format":{"type":"te\u0078t","x":"text"},`, true, false},
		{`"response_format":{"x":"json_object","type":"text","y":"json_object"},`, true, false},
		{`"response_format":{"x":"text"},`, true, false},
		{`"response_format":{"type":"json_object"},`, false, false},
		{`"response_format":{"type":7},`, false, false},
		{`"response_format":{"type":["text"],"x":"text"},`, false, false},
		{`"response_format":{"json_schema":{"name":"a b c"},"type":"json_schema"},`, false, true},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"a b c"}},`, false, true},
	} {
		req, err := chat.Completions.Parse([]byte(`{` + c.format + asking + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if schema := req.Format != (chat.Span{}); req.TextFormat != c.isText || schema != c.schema {
			t.Errorf("%s: text %v, schema %v", c.format, req.TextFormat, schema)
		}
	}
}

// Each escape is decoded like in the standard library, or refused; a lone surrogate is ambiguous.
func TestEscapes(t *testing.T) {
	f := func(text string, clear bool) {
		t.Helper()
		body := `{"model":"` + text + `",` + asking + `}`
		var want struct{ Model string }
		wantErr := json.Unmarshal([]byte(body), &want)
		req, err := chat.Completions.Parse([]byte(body))
		var bad *chat.Error
		switch errors.As(err, &bad); {
		case wantErr != nil && (bad == nil || bad.Reason != chat.NotJSON):
			t.Errorf("%q: %v, want %v", text, err, wantErr)
		case wantErr == nil && (err == nil) != clear:
			t.Errorf("%q: %v", text, err)
		case wantErr == nil && req.Model != want.Model:
			t.Errorf("%q: model %q, want %q", text, req.Model, want.Model)
		}
	}
	for b := range rune(128) {
		f(`\`+string(b)+`0041`, true)
		for i := range 4 {
			f(`\u`+"0141"[:i]+string(b)+"0141"[i+1:], true)
		}
	}
	ends := []string{"d7ff", "d800", "DBFF", "dc00", "DFFF", "e000"}
	half := func(s string) (high, low bool) { return s == "d800" || s == "DBFF", s == "dc00" || s == "DFFF" }
	for _, a := range ends {
		high, low := half(a)
		f(`\u`+a, !high && !low)
		for _, b := range ends {
			nextHigh, nextLow := half(b)
			f(`\u`+a+`\u`+b, high && nextLow || !high && !low && !nextHigh && !nextLow)
		}
		f(`\u`+a+`\n`, !high && !low)
	}
}
