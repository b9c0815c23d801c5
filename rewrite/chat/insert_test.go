package chat_test

import (
	"testing"

	"sidenote/rewrite/chat"
)

// Messages are inserted so that the list stays valid JSON and no tool call is separated from its
// result.
func TestInsert(t *testing.T) {
	const (
		system = `{"role":"system","content":"s"}`
		user   = `{"role":"user","content":"u"}`
		answer = `{"role":"assistant","content":"a"}`
		call   = `{"role":"assistant","tool_calls":[]}`
		tool   = `{"role":"tool","content":"t"}`
		x      = `{"role":"user","content":"\"x\n"}`
	)
	for _, c := range []struct {
		list                   string
		behind, beforeLastUser string
	}{
		{`[ ]`, `[` + x + ` ]`, `[` + x + ` ]`},
		{`[ ` + user + `]`, `[` + x + `, ` + user + `]`, `[` + x + `, ` + user + `]`},
		{`[` + system + `, {"content":"d","role":"developer"} ,` + user + `]`, `[` + system + `, {"content":"d","role":"developer"} ,` + x + `,` + user + `]`, `[` + system + `, {"content":"d","role":"developer"} ,` + x + `,` + user + `]`},
		{`[` + system + ` ]`, `[` + system + `,` + x + ` ]`, `[` + system + `,` + x + ` ]`},
		{`[` + user + `,` + answer + `,` + user + `,` + call + `,` + tool + `]`, `[` + x + `,` + user + `,` + answer + `,` + user + `,` + call + `,` + tool + `]`, `[` + user + `,` + answer + `,` + x + `,` + user + `,` + call + `,` + tool + `]`},
		{`[` + user + `,` + call + `,` + tool + `,` + user + `,` + tool + `]`, `[` + x + `,` + user + `,` + call + `,` + tool + `,` + user + `,` + tool + `]`, `[` + user + `,` + x + `,` + call + `,` + tool + `,` + user + `,` + tool + `]`},
		{`[` + answer + `,` + user + `,` + answer + `]`, `[` + x + `,` + answer + `,` + user + `,` + answer + `]`, `[` + answer + `,` + x + `,` + user + `,` + answer + `]`},
	} {
		r, err := chat.Parse([]byte(`{"messages":` + c.list + `}`))
		if err != nil && !r.Empty {
			t.Fatal(err)
		}
		for _, at := range []struct {
			n    int
			want string
		}{{chat.AfterSystem(r), c.behind}, {chat.BeforeLastUser(r), c.beforeLastUser}} {
			offset, text := chat.Insert(r, at.n, []chat.NewMessage{{Role: "user", Text: "\"x\n"}})
			got := string(r.Body[:offset]) + string(text) + string(r.Body[offset:])
			if want := `{"messages":` + at.want + `}`; got != want {
				t.Errorf("before %d of %s:\n got %s\nwant %s", at.n, c.list, got, want)
			}
		}
	}
}
