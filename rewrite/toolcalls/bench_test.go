package toolcalls_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/toolcalls"
)

// BenchmarkRead reads an agent's conversation, in time linear in its length.
func BenchmarkRead(b *testing.B) {
	for _, turns := range []int{10, 100, 1000} {
		var body strings.Builder
		body.WriteString(`{"messages":[{"role":"user","content":"What is to be done?"}`)
		for i := range turns {
			fmt.Fprintf(&body, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%[1]d","type":"function","function":{"name":"now","arguments":"{\"city\":\"Bern\"}"}}]},{"role":"tool","tool_call_id":"call_%[1]d","content":%[2]q}`, i, strings.Repeat("a result\n", 200))
		}
		body.WriteString("]}")
		r, err := chat.Completions.Parse([]byte(body.String()))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			b.SetBytes(int64(len(r.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if n := len(toolcalls.ReadHistory(r).Keys()); n != turns {
					b.Fatal(n)
				}
			}
		})
	}
}
