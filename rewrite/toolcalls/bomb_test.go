package toolcalls_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/toolcalls"
)

// Whatever a large body contains, reading it allocates only a few times that in total,
// including garbage.
func TestReadTakesLittleMemory(t *testing.T) {
	size := 4 << 20
	if testing.Short() {
		size = 1 << 20
	}
	call := `{"id":"a","type":"function","function":{"name":"f","arguments":"`
	for name, parts := range map[string][3]string{
		"calls that are none":   {`{"role":"assistant","tool_calls":[0`, `,0`, `]}`},
		"calls":                 {`{"role":"assistant","tool_calls":[{"id":"a"}`, `,{"id":"a"}`, `]}`},
		"parts":                 {`{"role":"user","content":[{"type":"text","text":"a"}`, `,{"type":"text","text":"a"}`, `]}`},
		"arguments":             {`{"role":"assistant","tool_calls":[` + call + `[0`, `,0`, `]"}}]}`},
		"nested arguments":      {`{"role":"assistant","tool_calls":[` + call, `[`, `"}}]}`},
		"one text":              {`{"role":"user","content":"`, `\n`, `"}`},
		"members":               {`{"role":"user","content":"?"`, `,"tool_calls":[0]`, `}`},
		"messages of the user":  {`{"role":"user","content":"?"}`, `,{"role":"user","content":"?"}`, ``},
		"messages that call":    {`{"role":"user","content":"?"}`, `,{"role":"assistant","tool_calls":[{"id":"a"}]}`, ``},
		"a turn of many rounds": {`{"role":"user","content":"?"}`, `,{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"tool","tool_call_id":"a"}`, ``},
	} {
		body := `{"messages":[` + parts[0] + strings.Repeat(parts[1], size/len(parts[1])) + parts[2] + `]}`
		r, err := chat.Completions.Parse([]byte(body))
		if err != nil && r == nil {
			t.Fatalf("%s: %v", name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		toolcalls.ReadHistory(r)
		runtime.ReadMemStats(&after)
		if times := (after.TotalAlloc - before.TotalAlloc) / uint64(size); times > 16 {
			t.Errorf("%s: %d times the body", name, times)
		}
	}
}

// A message with more calls than any upstream allows is not restored, but is part of later keys.
func TestManyCalls(t *testing.T) {
	keys := func(n, answered int) []toolcalls.TurnKey {
		var calls, answers strings.Builder
		for i := range n {
			fmt.Fprintf(&calls, `,{"id":"%d","type":"function","function":{"name":"f","arguments":"{}"}}`, i)
			if i < answered {
				fmt.Fprintf(&answers, `,{"role":"tool","tool_call_id":"%d","content":"1"}`, i)
			}
		}
		return read(t, []byte(`{"messages":[{"role":"user","content":"?"},{"role":"assistant","tool_calls":[`+calls.String()[1:]+`]}`+answers.String()+
			`]}`)).Keys()
	}
	if n := len(keys(128, 128)); n != 1 {
		t.Errorf("%d turns of 128 calls", n)
	}
	for _, answered := range []int{128, 129} {
		if n := len(keys(129, answered)); n != 0 {
			t.Errorf("%d turns of 129 calls, of which %d are answered", n, answered)
		}
	}
	many := func(last string) toolcalls.TurnKey {
		calls := strings.Repeat(`0,`, 128) + last
		return read(t, []byte(`{"messages":[{"role":"assistant","tool_calls":[`+calls+`]}]}`)).KeyOfAnswer("", nil)
	}
	if many("0") == many("1") {
		t.Error("the last of 129 calls does not count")
	}
}
