package chat_test

import (
	"testing"

	"sidenote/rewrite/chat"
)

// inserted returns the body with a message before element n.
func inserted(r *chat.Request, n int) string {
	var got []byte
	from := 0
	for _, in := range chat.Insert(r, n, []chat.NewMessage{{Role: "user", Text: "\"x\n"}}) {
		got = append(append(got, r.Body[from:in.Offset]...), in.Text...)
		from = in.Offset
	}
	return string(append(got, r.Body[from:]...))
}

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
		r, err := chat.Completions.Parse([]byte(`{"messages":` + c.list + `}`))
		if err != nil && !r.Empty {
			t.Fatal(err)
		}
		for _, at := range []struct {
			n    int
			want string
		}{{chat.AfterSystem(r), c.behind}, {chat.BeforeLastUser(r), c.beforeLastUser}} {
			got := inserted(r, at.n)
			if want := `{"messages":` + at.want + `}`; got != want {
				t.Errorf("before %d of %s:\n got %s\nwant %s", at.n, c.list, got, want)
			}
		}
	}
}
