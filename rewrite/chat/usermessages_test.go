package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

// A user's message is known again by its text, whatever its form, and with the answer before the
// next one; the first message of a long history is that of a short one.
func TestUserMessagesAreKnownAgain(t *testing.T) {
	parse := func(api chat.API, body string) *chat.Request {
		t.Helper()
		r, err := api.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, latest := chat.UserMessages(parse(chat.Completions, `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"One?"},{"role":"assistant","content":"Yes."},{"role":"user","content":"Two?"}]}`))
	if len(latest) != 2 || latest[1] != first || latest[0].Reply != (chat.TurnDigest{}) || first.Reply == (chat.TurnDigest{}) {
		t.Fatalf("first %v, latest %v", first, latest)
	}
	parts, again := chat.UserMessages(parse(chat.Messages, `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"One?"}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]},{"role":"assistant","content":"Yes."},{"role":"user","content":"Two?"}]}`))
	if parts != first || len(again) != 2 || again[0] != latest[0] {
		t.Errorf("as parts, with a tool: %v, %v; want %v, %v", parts, again, first, latest)
	}
	if other, _ := chat.UserMessages(parse(chat.Responses, `{"input":"One?"}`)); other.Text != first.Text {
		t.Errorf("as input: %v, want %v", other, first)
	}
	var long []string
	for n := range 40 {
		long = append(long, fmt.Sprintf(`{"role":"user","content":"Question %d"}`, n))
	}
	whole, last := chat.UserMessages(parse(chat.Completions, `{"messages":[`+strings.Join(long, ",")+`]}`))
	begin, _ := chat.UserMessages(parse(chat.Completions, `{"messages":[`+long[0]+`]}`))
	if whole.Text != begin.Text || len(last) != 17 {
		t.Errorf("of 40 messages %d are known, the first is %v, want %v", len(last), whole, begin)
	}
	if _, none := chat.UserMessages(parse(chat.Completions, `{"messages":[{"role":"system","content":"x"}]}`)); len(none) != 0 {
		t.Errorf("without a user: %v", none)
	}
	one, _ := chat.UserMessages(parse(chat.Completions, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}}]}]}`))
	two, _ := chat.UserMessages(parse(chat.Completions, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"b"}}]}]}`))
	if one == two {
		t.Error("two pictures are taken for one")
	}
}

// The end user is read from the fields of the APIs, the most specific one first.
func TestEndUser(t *testing.T) {
	f := func(members, want string) {
		t.Helper()
		r, err := chat.Completions.Parse([]byte(`{` + members + `"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.EndUser(); got != want {
			t.Errorf("%s: %q, want %q", members, got, want)
		}
	}
	f(``, "")
	f(`"user":"u",`, "u")
	f(`"metadata":{"a":[1],"user_id":"m"},`, "m")
	f(`"metadata":{"user_id":7},"user":["u"],`, "")
	f(`"user":"u","safety_identifier":"s","metadata":{"user_id":"m"},`, "s")
}
