package chat_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

// Models returns the models that any server would read in a body.
func TestModels(t *testing.T) {
	for body, want := range map[string][]string{
		`{"model":"gpt-5"}`: {"gpt-5"},
		` { "input" : ["model",{"model":"x"}], "model"	: "gpt\u002d5" } `: {"gpt-5"},
		`{"model":null,"stream":true}`:                                    nil,
		`{}`:                                                              nil,
		`{"model":"a","models":["b","c"],"fallbacks":["d"]}`: {"a", "b", "c", "d"},
		`{"mod\u0065l":"a"}`: {"a"},
		`{"model":""}`:       {""},
		`{"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `,"model":"a"}`: {"a"},
		`{"models":null,"fallbacks":[]}`:   nil,
		"{\"x\":\"\xff\",\"model\":\"a\"}": {"a"},
	} {
		got, err := chat.Models([]byte(body))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%.60s: %q, %v; want %q", body, got, err, want)
		}
	}
}

// C11, T19: a body that two servers could read differently is refused.
func TestModelsRefuses(t *testing.T) {
	for body, want := range map[string]chat.Reason{
		``:                               chat.NotJSON,
		`gpt-5`:                          chat.NotJSON,
		`[{"model":"a"}]`:                chat.NotJSON,
		`{"model":"a"} {"model":"b"}`:    chat.NotJSON,
		"\ufeff" + `{"model":"a"}`:       chat.NotJSON,
		"{\x00\"\x00m\x00":               chat.NotJSON,
		`{"model":"a",}`:                 chat.NotJSON,
		`{"model":'a'}`:                  chat.NotJSON,
		`{"model":NaN}`:                  chat.NotJSON,
		`{"model":"a"/**/}`:              chat.NotJSON,
		`{"model":"a","model":"a"}`:      chat.Ambiguous,
		`{"model":"a","mod\u0065l":"b"}`: chat.Ambiguous,
		`{"model":"a","MODEL":"b"}`:      chat.Ambiguous,
		`{"Model":"a"}`:                  chat.Ambiguous,
		`{"model":"a","modelſ":["b"]}`:   chat.Ambiguous,
		`{"model":"a\ud800"}`:            chat.Ambiguous,
		"{\"model\":\"a\xff\"}":          chat.Ambiguous,
		"{\"mod\xffel\":\"a\"}":          chat.Ambiguous,
		`{"model":5}`:                    chat.Ambiguous,
		`{"model":["a"]}`:                chat.Ambiguous,
		`{"model":{"name":"a"}}`:         chat.Ambiguous,
		`{"model":"a","models":"b"}`:     chat.Ambiguous,
		`{"fallbacks":[{"model":"b"}]}`:  chat.Ambiguous,
		`{"models":["a\udc00"]}`:         chat.Ambiguous,
	} {
		names, err := chat.Models([]byte(body))
		if e := (*chat.Error)(nil); !errors.As(err, &e) || e.Reason != want || e.Message == "" || names != nil {
			t.Errorf("%q: %q, %v; want %s", body, names, err, want)
		}
	}
}

// Request.Models returns the same as Models for its body, whether or not it reads that again.
func TestModelsOfARequest(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hello"}]`
	for members, want := range map[string][]string{
		`"model":"a"`:                            {"a"},
		`"model":"a","model2":"b","fallback":[]`: {"a"},
		`"model":""`:                             {""},
		`"model":null`:                           nil,
		`"x":1`:                                  nil,
		`"model":"a","models":["b","c"]`:         {"a", "b", "c"},
		`"fallbacks":["d"],"model":"a"`:          {"d", "a"},
		`"model":"a","f\u0061llbacks":["d"]`:     {"a", "d"},
		`"models":["b"]`:                         {"b"},
	} {
		for _, body := range []string{`{` + members + `,` + messages + `}`, `{` + messages + `,` + members + `}`} {
			req, err := chat.Completions.Parse([]byte(body))
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if got, err := req.Models(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v; want %q", body, got, err, want)
			}
			if read, err := chat.Models([]byte(body)); err != nil || !slices.Equal(read, want) {
				t.Errorf("%s: read again %q, %v; want %q", body, read, err, want)
			}
		}
	}
	for _, members := range []string{`"model":"a","models":"b"`, `"model":"a","Models":["b"]`, `"model":"a","modelſ":["b"]`, `"model":"a","FALLBACKS":null`, `"model":"a","f\u0041llbacks":null`} {
		req, err := chat.Completions.Parse([]byte(`{` + members + `,` + messages + `}`))
		if err != nil {
			t.Fatalf("%s: %v", members, err)
		}
		if names, err := req.Models(); err == nil || names != nil {
			t.Errorf("%s: %q, %v; want an error", members, names, err)
		}
	}
	for _, members := range []string{`"model":"a","model":"b"`, `"model":"a","Model":"b"`, `"MODEL":"b","model":"a"`, `"model":"a","mod\u0065l":"b"`, `"model":["a"]`, `"model":"a\ud800"`} {
		body := []byte(`{` + members + `,` + messages + `}`)
		_, parseErr := chat.Completions.Parse(body)
		if _, err := chat.Models(body); parseErr == nil || err == nil {
			t.Errorf("%s: parsed with %v, models read with %v; want both to refuse", members, parseErr, err)
		}
	}
}
