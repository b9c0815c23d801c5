package answer_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/proxy/answer"
)

// madeID is an id that the loop makes.
var madeID = regexp.MustCompile(`call_[a-z2-7]{24}`)

// Events of the same form as the one before become what they become if each is read by itself.
func TestAlike(t *testing.T) {
	texts := []string{`"a"`, `"m"`, `"c1"`, `""`, `" \"quoted\" "`, `"\\"`, `"\ud83d\ude42"`, `"\ud83d"`, `"ü"`, `null`, `7`, `["p"]`, `"}],\"usage\":{}"`, `"`, `"a","refusal":"no"`, `"a" `, `"x"},"finish_reason":"stop"`}
	shapes := []string{
		`data: {"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}` + "\n\n",
		`data: {"id":"c2","created":2,"model":"m","choices":[{"delta":{"content":%s,"refusal":null}}],"usage":null}` + "\r\n\r\n",
		`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":%s}}],"id":"c1"}` + "\n\n",
		`data: {"choices":null,"choices":[{"index":0,"delta":{"content":%s}}],"id":"c1"}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"content":%[1]s}},{"index":1,"delta":{"content":%[1]s}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"content":%s}}],"usage":{"prompt_tokens":1}}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,` + "\n" + `data: "delta":{"content":%s}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"content":%s,"tool_calls":[{"index":0,"id":"t","function":{"name":"search_knowledge","arguments":"{}"}}]}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":%s}}],"content":null}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"search_knowledge","arguments":%s}}]}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"u","function":{"name":"weather","arguments":%s}}]}}]}` + "\n\n",
		`data: {"id":"c1","choices":[{"index":0,"delta":{"content":%s},"finish_reason":"stop"}]}` + "\n\n",
	}
	rapid.Check(t, func(rt *rapid.T) {
		hide := rapid.Bool().Draw(rt, "hide")
		var loops [2]*answer.Loop
		for i := range loops {
			loops[i] = answer.NewLoop(answer.LoopRules{
				Ours: func(name string) bool { return name == "search_knowledge" }, Starts: func(name string) bool { return strings.HasPrefix("search_knowledge", name) }, HideText: hide,
			})
		}
		for range rapid.IntRange(1, 3).Draw(rt, "rounds") {
			var out [2]bytes.Buffer
			for _, l := range loops {
				l.Begin(false)
			}
			shape := rapid.SampledFrom(shapes).Draw(rt, "shape")
			events := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string {
				of := shape
				if rapid.IntRange(0, 4).Draw(rt, "other") == 0 {
					of = rapid.SampledFrom(shapes).Draw(rt, "other shape")
				}
				return fmt.Sprintf(of, rapid.SampledFrom(texts).Draw(rt, "text"))
			}), 0, 12).Draw(rt, "events")
			for _, event := range events {
				for i, l := range loops {
					if i == 1 {
						answer.Forget(l)
					}
					if _, err := l.Stage(&out[i]).Write([]byte(event)); err != nil {
						rt.Fatal(err)
					}
				}
			}
			var said [2]string
			for i, l := range loops {
				turn, err := l.EndStream(&out[i])
				if err != nil {
					rt.Fatal(err)
				}
				for _, c := range turn.Ours {
					said[i] += fmt.Sprint(c.Name, c.Arguments, c.At, " ")
				}
				for _, c := range turn.Theirs {
					said[i] += fmt.Sprint(c.Name, c.Arguments, c.At, " ")
				}
				said[i] += turn.Text + " " + l.Shown() + " " + turn.Finish
				if err := l.Continue(&out[i]); err != nil {
					rt.Fatal(err)
				}
			}
			byForm, byItself := madeID.ReplaceAllString(out[0].String(), "call_"), madeID.ReplaceAllString(out[1].String(), "call_")
			if byForm != byItself || said[0] != said[1] {
				rt.Fatalf("by form\n%s\n%s\nby itself\n%s\n%s", byForm, said[0], byItself, said[1])
			}
		}
	})
}
