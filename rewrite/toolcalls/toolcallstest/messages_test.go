package toolcallstest_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/toolcalls/toolcallstest"
)

func TestCheckMessages(t *testing.T) {
	const (
		think = `{"type":"thinking","thinking":"hm","signature":"s"}`
		text  = `{"type":"text","text":"x"}`
		mark  = `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
		useA  = `{"type":"tool_use","id":"a","name":"f","input":{}}`
		useB  = `{"type":"tool_use","id":"b","name":"g","input":{"q":1}}`
		gotA  = `{"type":"tool_result","tool_use_id":"a","content":"1"}`
		gotB  = `{"type":"tool_result","tool_use_id":"b","content":[` + text + `]}`
		ask   = `{"role":"user","content":"?"}`
	)
	says := func(role string, blocks ...string) string {
		return `{"role":"` + role + `","content":[` + strings.Join(blocks, ",") + `]}`
	}
	for want, list := range map[string][][]string{
		"": {
			{ask},
			{ask, says("assistant", think, text, useA), says("user", gotA), says("assistant", useB), says("user", gotB, text)},
			{ask, says("assistant", useA, useB), says("user", gotB, gotA), says("system", text), ask},
			{says("user", mark, mark, mark, mark), `{"role":"assistant","content":""}`},
		},
		"first message":         {{}, {says("assistant", text)}},
		"the role":              {{ask, `{"role":"tool","content":"x"}`}},
		"immediately after":     {{ask, says("assistant", useA)}, {ask, says("assistant", useA), ask}, {ask, says("assistant", useA, useB), says("user", gotA)}},
		"unexpected":            {{says("user", gotA)}, {ask, says("assistant", useA), says("user", gotA), says("user", gotA)}},
		"come first":            {{ask, says("assistant", useA), says("user", text, gotA)}},
		"must be unique":        {{ask, says("assistant", useA), says("user", gotA), says("assistant", useA), says("user", gotA)}},
		"found 5":               {{says("user", mark, mark, mark, mark, mark)}},
		"cannot be set":         {{ask, says("assistant", strings.Replace(think, "}", `,"cache_control":{}}`, 1), text)}},
		"final block":           {{ask, says("assistant", text, think)}},
		"thinking of":           {{says("user", think, text)}},
		"must be non-empty":     {{says("user", strings.Replace(text, `"x"`, `" "`, 1))}},
		"must have non-empty":   {{ask, `{"role":"assistant","content":[]}`, ask}},
		"without id":            {{ask, says("assistant", strings.Replace(useA, `"a"`, `""`, 1)), ask}},
		"valid dictionary":      {{ask, says("assistant", strings.Replace(useA, `{}`, `"{}"`, 1)), ask}},
		"in a result":           {{ask, says("assistant", useB), says("user", strings.Replace(gotB, text, useA, 1))}},
		"neither":               {{`{"role":"user","content":7}`}},
		"type: Field required":  {{says("user", `{"text":"x"}`)}},
		"request: json: cannot": {{`1`}},
	} {
		for _, messages := range list {
			err := toolcallstest.CheckMessages([]byte(`{"max_tokens":1,"tools":[{"name":"f"},{"type":"web_search","name":"web_search"}],"messages":[` + strings.Join(messages, ",") + `]}`))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", messages, err, want)
			}
		}
	}
	thinking := `{"max_tokens":1,"thinking":{"type":"enabled"},"tools":[{"name":"f"}],"messages":[` + strings.Join([]string{ask, says("assistant", think, useA), says("user", gotA), says("assistant", useB), says("user", gotB)}, ",") + `]}`
	if err := toolcallstest.CheckMessages([]byte(thinking)); err != nil {
		t.Error(err)
	}
	for want, body := range map[string]string{
		"max_tokens":                 `{"messages":[` + ask + `]}`,
		"unique":                     `{"max_tokens":1,"tools":[{"name":"f"},{"name":"f"}],"messages":[` + ask + `]}`,
		"must define":                `{"max_tokens":1,"messages":[` + strings.Join([]string{ask, says("assistant", useA), says("user", gotA)}, ",") + `]}`,
		"system: a blo":              `{"max_tokens":1,"system":[` + useA + `],"messages":[` + ask + `]}`,
		"system: conten":             `{"max_tokens":1,"system":[{"type":"text","text":""}],"messages":[` + ask + `]}`,
		"must start with a thinking": `{"max_tokens":1,"thinking":{"type":"enabled"},"tools":[{"name":"f"}],"messages":[` + strings.Join([]string{ask, says("assistant", text, think, useA), says("user", gotA)}, ",") + `]}`,
		"found 6":                    `{"max_tokens":1,"cache_control":{"type":"ephemeral"},"system":[` + mark + `],"tools":[{"name":"f","cache_control":{}}],"messages":[` + says("user", mark, mark, mark) + `]}`,
	} {
		if err := toolcallstest.CheckMessages([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
