package staged_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/staged"
)

// Over the Messages API what a chain cannot handle has other names.
func TestUnfitMessages(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"Q"}]`
	turn := func(assistant, last string) string {
		return `"messages":[{"role":"user","content":"?"},{"role":"assistant","content":[` + assistant + `]},{"role":"user","content":[` + last + `]}]`
	}
	const said, asked = `{"type":"text","text":"A"}`, `{"type":"text","text":"Q"}`
	for body, want := range map[string]staged.Reason{
		user: "",
		user + `,"system":"S","tools":[],"mcp_servers":[],"container":null,"thinking":{"type":"adaptive"},"logprobs":true`: "",
		user + `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`:                                                  staged.Tools,
		user + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`:                                             staged.Tools,
		user + `,"mcp_servers":[{"type":"url","url":"https://a.test","name":"a"}]`:                                         staged.Tools,
		user + `,"container":"c_1"`:          staged.Tools,
		user + `,"thread":{"type":"create"}`: staged.Stored,
		user + `,"max_tokens":0`:             staged.BadLimits,
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a.test"}},` + asked + `]}]`:            staged.Attachments,
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"D"}},` + asked + `]}]`:                    staged.Attachments,
		`"messages":[{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[` + said + `]},` + asked + `]}]`: staged.Attachments,
		turn(said, asked): "",
		turn(`{"type":"thinking","thinking":"T","signature":"s"},`+said, asked):                                                     staged.Items,
		turn(`{"type":"redacted_thinking","data":"d"},`+said, asked):                                                                staged.Items,
		turn(`{"type":"tool_use","id":"a","name":"f","input":{}}`, `{"type":"tool_result","tool_use_id":"a","content":"1"}`):        staged.NoQuestion,
		turn(`{"type":"tool_use","id":"a","name":"f","input":{}}`, `{"type":"tool_result","tool_use_id":"a","content":"1"},`+asked): staged.NoQuestion,
		`"messages":[{"role":"user","content":"Q"},{"role":"system","content":"S"}]`:                                                "",
		`"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A:"}]`:                                            staged.NoQuestion,
	} {
		req, err := chat.Messages.Parse([]byte(`{"max_tokens":9,` + body + `}`))
		if strings.Contains(body, `"max_tokens"`) {
			req, err = chat.Messages.Parse([]byte(`{` + body + `}`))
		}
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := staged.Read(req).Unfit(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
