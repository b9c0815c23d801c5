package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// optionsOf reads the options of a request whose body field is field.
func optionsOf(t *testing.T, field string) (rewrite.Options, error) {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}],"sidenote":` + field + `,"n":1}`))
	if err != nil {
		t.Fatalf("%.80s: %v", field, err)
	}
	return rewrite.ReadOptions(req)
}

// times repeats a list's element n times; %d in it is the index.
func times(n int, element string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.ReplaceAll(element, "%d", fmt.Sprint(i))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Options that are accepted, up to their limits.
func TestOptionsThatAreTaken(t *testing.T) {
	number := func(n int) *int { return &n }
	mode := rewrite.Shadow
	component := func(c rewrite.Component) rewrite.Options {
		c.Name, c.Text = "a", "b"
		return rewrite.Options{Components: []rewrite.Component{c}}
	}
	many := rewrite.Options{}
	for i := range 16 {
		many.Components = append(many.Components, rewrite.Component{Name: fmt.Sprint("c", i), Text: "x", Priority: rewrite.PriorityMedium, Truncatable: true})
	}
	bases := []string{}
	for i := range 64 {
		bases = append(bases, fmt.Sprint("b", i))
	}
	long := strings.Repeat("q", 8192)
	for field, want := range map[string]rewrite.Options{
		`{}`: {}, `null`: {},
		`{"mode":"shadow"}`:                        {Mode: &mode},
		`{"query":" How long?\n"}`:                 {Query: "How long?"},
		`{"query":" ` + long + ` "}`:               {Query: long},
		`{"knowledge":"a"}`:                        {Knowledge: []string{"a"}},
		`{"knowledge":["a","b"]}`:                  {Knowledge: []string{"a", "b"}},
		`{"knowledge":[]}`:                         {Knowledge: []string{}}, // none at all
		`{"knowledge":` + times(64, `"b%d"`) + `}`: {Knowledge: bases},
		`{"context_tokens":0}`:                     {ContextTokens: number(0)},
		`{"context_tokens":1073741824}`:            {ContextTokens: number(1 << 30)},
		`{"components":[]}`:                        {},
		`{"components":` + times(16, `{"name":"c%d","text":"x"}`) + `}`:  many,
		`{"components":[{"text":"b","name":"a"}]}`:                       component(rewrite.Component{Priority: 70, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","truncatable":true}]}`:    component(rewrite.Component{Priority: 70, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","truncatable":false}]}`:   component(rewrite.Component{Priority: 70}),
		`{"components":[{"name":"a","text":"b","priority":"critical"}]}`: component(rewrite.Component{Priority: 100, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","priority":"high"}]}`:     component(rewrite.Component{Priority: 90, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","priority":"medium"}]}`:   component(rewrite.Component{Priority: 70, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","priority":"low"}]}`:      component(rewrite.Component{Priority: 50, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","priority":"optional"}]}`: component(rewrite.Component{Priority: 30, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","priority":100}]}`:        component(rewrite.Component{Priority: 100, Truncatable: true}),
		`{"components":[{"name":"a","text":"b","priority":0}]}`:          component(rewrite.Component{Truncatable: true}),
	} {
		got, err := optionsOf(t, field)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(got, "Named")); err != nil || diff != "" {
			t.Errorf("%.80s: %v\n%s", field, err, diff)
		}
	}
}

// Options that are refused, and the error: the first mistake, with its field and value.
func TestOptionsThatAreRefused(t *testing.T) {
	const component, names = "sidenote.components[0]", "1 to 64 of a-z, 0-9, '_' and '-', not \"sources\""
	for _, c := range []struct{ field, want string }{
		{`7`, `sidenote: a number, not an object`},
		{`{"mode":5}`, `sidenote.mode: a number, not a string`},
		{`{"a":1,"mode":5}`, `sidenote.a: unknown option; use mode, knowledge, context_tokens, query, filters, components, chunks or context`},
		{`{"chunks":{"a":[1]},"mode":5}`, `sidenote.chunks: an object, not an array`},
		{`{"mode":"off","mode":"off"}`, `sidenote.mode: key "mode" is repeated in one object`},
		{`{"query":null}`, `sidenote.query: null, not a string`},
		{`{"query":"` + strings.Repeat("q", 8193) + `"}`, `sidenote.query: 8193 bytes; at most 8192`},
		{`{"query":"` + "\xff" + `"}`, `sidenote: not valid UTF-8`},
		{`{"query":"\ud800"}`, `sidenote: escaped lone surrogate at byte 73`},
		{`{"context_tokens":1.5}`, `sidenote.context_tokens: 1.5 is not a whole number from 0 to 1073741824`},
		{`{"context_tokens":null}`, `sidenote.context_tokens: null is not a whole number from 0 to 1073741824`},
		{`{"context_tokens":"5"}`, `sidenote.context_tokens: "5" is not a whole number from 0 to 1073741824`},
		{`{"context_tokens":-1}`, `sidenote.context_tokens: -1 is not a whole number from 0 to 1073741824`},
		{`{"context_tokens":1073741825}`, `sidenote.context_tokens: 1073741825 is not a whole number from 0 to 1073741824`},
		{`{"knowledge":{"a":1},"x":1}`, `sidenote.knowledge: an object, not a string or an array of strings`},
		{`{"knowledge":null}`, `sidenote.knowledge: null, not a string or an array of strings`},
		{`{"knowledge":[1,true]}`, `sidenote.knowledge[0]: a number, not a string`},
		{`{"knowledge":["a",["b"]]}`, `sidenote.knowledge[1]: an array, not a string`},
		{`{"knowledge":` + times(65, `"b"`) + `}`, `sidenote.knowledge: 65 bases; at most 64`},
		{`{"components":{"name":"a"}}`, `sidenote.components: an object, not an array`},
		{`{"components":[["a"]],"x":1}`, component + `: an array, not an object`},
		{`{"components":` + times(17, `{"name":"c%d","text":"x"}`) + `}`, `sidenote.components: more than 16 components`},
		{`{"components":` + times(18, `{"name":"c%d","text":"x"}`) + `}`, `sidenote.components: more than 16 components`},
		{`{"components":[{"name":"a","text":"x"},{"name":"b","text":"x"},{"name":"a","text":"y"}]}`, `sidenote.components[2].name: "a" is repeated`},
		{`{"components":[{"name":"a","text":"x","name":"b"}]}`, component + `.name: key "name" is repeated in one object`},
		{`{"components":[{"name":"a","text":"x","x":{"y":1}}]}`, component + `.x: unknown field; use name, text, priority or truncatable`},
		{`{"components":[{"text":"x"}]}`, component + `.name: "" is not a name: ` + names},
		{`{"components":[{"name":"A","text":""}]}`, component + `.name: "A" is not a name: ` + names},
		{`{"components":[{"name":"sources","text":"x"}]}`, component + `.name: "sources" is not a name: ` + names},
		{`{"components":[{"name":"a"}]}`, component + `.text: empty`},
		{`{"components":[{"name":"a","text":" \n\u200b"}]}`, component + `.text: empty`},
		{`{"components":[{"name":"a","text":"x` + "\xff" + `"}]}`, `sidenote: not valid UTF-8`},
		{`{"components":[{"name":"a","text":"x","truncatable":1}]}`, component + `.truncatable: 1 is not true or false`},
		{`{"components":[{"name":"a","text":"x","truncatable":"true"}]}`, component + `.truncatable: "true" is not true or false`},
		{`{"components":[{"name":"a","text":"x","priority":"urgent"}]}`, component + `.priority: "urgent" is not a priority; use critical, high, medium, low, optional or 0 to 100`},
		{`{"components":[{"name":"a","text":"x","priority":101}]}`, component + `.priority: 101 is not a whole number from 0 to 100`},
		{`{"components":[{"name":"a","text":"x","priority":-1}]}`, component + `.priority: -1 is not a whole number from 0 to 100`},
		{`{"filters":"a"}`, `sidenote.filters: a string, not an object; several filters are joined by {"type": "and", "filters": […]}`},
		{`{"filters":{"type":"eq","value":1}}`, `sidenote.filters.key: is missing`},
		{`{},"sidenote":{}`, `sidenote: is repeated`},
	} {
		req, _ := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}],"sidenote":` + c.field + `,"n":1}`))
		if _, err := rewrite.ReadOptions(req); err == nil || err.Error() != c.want {
			t.Errorf("%.80s: %v, want %s", c.field, err, c.want)
		}
	}
}

// Names consist of 1 to 64 characters out of 38.
func TestNames(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	for b := range 256 {
		for _, name := range []string{string([]byte{byte(b)}), "a" + string([]byte{byte(b)}), string([]byte{byte(b)}) + "z"} {
			if got, want := rewrite.ValidName(name), strings.IndexByte(letters, byte(b)) >= 0; got != want {
				t.Errorf("%q is a name: %v", name, got)
			}
		}
	}
	for n, want := range map[int]bool{0: false, 1: true, 64: true, 65: false} {
		if got := rewrite.ValidName(strings.Repeat("a", n)); got != want {
			t.Errorf("%d letters are a name: %v", n, got)
		}
	}
}

// Components and chunks that do not say whether they may be cut may be. (The configuration is
// tested for the same.)
func TestTruncatableDefault(t *testing.T) {
	for extra, want := range map[string]bool{"": true, `,"truncatable":true`: true, `,"truncatable":false`: false} {
		body := `{"messages":[{"role":"user","content":"x"}],"sidenote":{"components":[{"name":"a","text":"x"` + extra + `}],"chunks":[{"id":"a","type":"custom","content":"x"` + extra + `}]}}`
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Components[0].Truncatable; got != want {
			t.Errorf("component%s: truncatable %t", extra, got)
		}
		if got := !o.Chunks[0].NoTruncate; got != want {
			t.Errorf("chunk%s: truncatable %t", extra, got)
		}
	}
}
