package chat_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

// Upstreams cache tools, then the system message, then the others, whatever their order in the body.
func TestPromptBefore(t *testing.T) {
	f := func(api chat.API, body string, want ...string) {
		t.Helper()
		at := strings.Index(body, "@")
		body = strings.Replace(body, "@", "", 1)
		req, err := api.Parse([]byte(body))
		if req == nil {
			t.Fatalf("%s: %v", body, err)
		}
		whole := 0
		for _, s := range append(append([]chat.Span{}, req.Tools...), req.Messages...) {
			whole += s.End - s.Start
		}
		before, all := req.PromptBefore(at)
		if n := len(strings.Join(want, "")); before != n || all != whole {
			t.Errorf("%s: got %d of %d, want %d of %d", body, before, all, n, whole)
		}
	}
	const tools, system, user = `[{"type":"function"}]`, `{"role":"system","content":"Be brief."}`, `{"role":"user","content":"Hi"}`
	f(chat.Completions, `{"messages":[{"role":"system","content":"Be brief.@"},`+user+`],"tools":`+tools+`}`, tools, `{"role":"system","content":"Be brief.`)
	f(chat.Completions, `{"tools":`+tools+`,"messages":[`+system+`,{"role":"user","content":"Hi@"}]}`, tools, system, `{"role":"user","content":"Hi`)
	f(chat.Completions, `{"messages":[@`+user+`],"tools":`+tools+`}`, tools)
	f(chat.Completions, `{"messages":[`+user+`]@}`, user)
	f(chat.Messages, `{"messages":[{"role":"user","content":"Hi@"}],"max_tokens":9,"system":"Be brief.","tools":`+tools+`}`, tools, `"Be brief."`, `{"role":"user","content":"Hi`)
	f(chat.Messages, `{"messages":[`+user+`],"max_tokens":9,"system":"Be brief.@","tools":`+tools+`}`, tools, `"Be brief.`)
	f(chat.Messages, `{@"messages":[`+user+`],"max_tokens":9,"tools":`+tools+`}`, tools)
	f(chat.Responses, `{"input":"Hi@","instructions":"Be brief."}`, `"Be brief."`, `"Hi`)
	f(chat.Responses, `{"input":[`+user+`],"instructions":"Be brief.@","tools":`+tools+`}`, tools, `"Be brief.`)
}
