package toolcallstest_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/toolcalls/toolcallstest"
)

const (
	user = `{"role":"user","content":"?"}`
	a    = `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`
	b    = `{"id":"b","type":"custom","custom":{"name":"g","input":"x"}}`
)

func calls(list ...string) string {
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(list, ",") + `]}`
}

func answer(id string) string {
	return `{"role":"tool","content":"1","tool_call_id":"` + id + `"}`
}

func TestCheck(t *testing.T) {
	for want, list := range map[string][][]string{
		"": {
			{user},
			{user, calls(a), answer("a"), user},
			{user, calls(a, b), answer("b"), answer("a"), calls(a), answer("a")},
		},
		"too short":             {{}, {user, calls()}},
		"must be followed":      {{user, calls(a)}, {user, calls(a), user, answer("a")}, {user, calls(a, b), answer("b"), user}},
		"must be a response":    {{user, answer("a")}, {user, calls(a), answer("a"), answer("a")}, {user, calls(a), answer("b")}},
		"stands twice":          {{user, calls(a, a), answer("a")}},
		"id is missing":         {{user, calls(strings.Replace(a, `"a"`, `""`, 1))}},
		"no call":               {{calls(`{"id":"a","type":"function"}`)}, {calls(strings.Replace(a, `,"arguments":"{}"`, "", 1))}, {calls(strings.Replace(b, "custom", "function", 1))}},
		"tool_call_id is":       {{user, calls(a), `{"role":"tool","content":"1"}`}},
		"content is":            {{user, calls(a), `{"role":"tool","tool_call_id":"a"}`}},
		"tool_calls of the":     {{`{"role":"user","tool_calls":[` + a + `]}`, answer("a")}},
		"request: json: cannot": {{`1`}},
	} {
		for _, messages := range list {
			err := toolcallstest.Check([]byte(`{"messages":[` + strings.Join(messages, ",") + `]}`))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", messages, err, want)
			}
		}
	}
}
