package staged_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/staged"
)

// Whatever a fit request contains, the request of a stage is valid and ends with the stage's
// prompt; reading it never panics.
func FuzzBody(f *testing.F) {
	for _, a := range goldentest.Load(f, "testdata") {
		f.Add(a.Get("request.json"), true, strings.HasPrefix(a.Name, "messages"))
	}
	f.Add([]byte(`{"\u006dodel":"m","messages":[{"role":"user","content":"a\ud83d\ude42\u2028b"}],"stop":null}`), false, false)
	stage := &staged.Stage{Name: "s", Model: "m", MaxTokens: 7}
	f.Fuzz(func(t *testing.T, body []byte, last, messages bool) {
		api := chat.Completions
		if messages {
			api = chat.Messages
		}
		req, err := api.Parse(body)
		if err != nil || staged.Read(req).Unfit() != "" {
			return
		}
		staged.Read(req).History(words{})
		out := staged.Read(req).Body(nil, staged.Call{Stage: stage, Prompt: staged.Escaped("S", staged.Read(req).Question), Last: last})
		got, err := api.Parse(out)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if text := staged.Read(got).Question; got.Model != "m" || got.MaxTokens == 0 || got.MaxTokens > 7 && !messages || strings.TrimSpace(text) != staged.Read(req).Question {
			t.Fatalf("%q, %d: %s", got.Model, got.MaxTokens, out)
		}
	})
}
