package proxy_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/staged"
)

// A model's reasoning is not part of a stage's output: the words to stop or to say that nothing
// was found are recognized after it, and later stages do not read it, whatever shape the answer
// has.
func TestStagesDoNotReadThoughts(t *testing.T) {
	parts := func(text string) string {
		return raised(okJSON, `{"choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"SECRET"}]},{"type":"text","text":"`+text+`"}]},"finish_reason":"stop"}]}`)
	}
	for name, by := range map[string]func(text string) string{
		"in tags":              func(text string) string { return "<think>SECRET</think>\n\n" + text },
		"in other tags":        func(text string) string { return " <reasoning>SECRET\nNO ISSUES</reasoning>" + text },
		"without the first":    func(text string) string { return "SECRET\n</think>\n\n" + text },
		"in a part":            parts,
		"in tags, and a part":  func(text string) string { return parts("<think>SECRET</think>" + text) },
		"without any thoughts": func(text string) string { return text },
	} {
		t.Run(name, func(t *testing.T) {
			list := func() []staged.Stage {
				return []staged.Stage{{Name: "draft", Draft: true}, {Name: "review", StopIf: "NO ISSUES"}, {Name: "last"}}
			}
			u := newUpstream(t, saying(map[string]string{"draft": by("The draft."), "review": by("NO ISSUES"), "last": "Final."}))
			g := oddStages(t, u, nil, list()...)
			if p := g.plays(t, oddBody); !strings.Contains(p.body, "The draft.") || !strings.HasPrefix(p.told(), "staged; stages=2; ") {
				t.Errorf("it does not stop: %s: %s", p.told(), p.body)
			}
			g.reports.next(t)
			u.next(t)
			if s := u.next(t); strings.Contains(s.body, "SECRET") || !strings.Contains(s.body, "The draft.") || len(u.seen) > 0 {
				t.Errorf("the second stage reads %s, %d more are called", s.body, len(u.seen))
			}

			u = newUpstream(t, saying(map[string]string{"draft": by("NOTHING"), "": "Without stages."}))
			stages := list()
			stages[0].EmptyIf = "NOTHING"
			g = oddStages(t, u, nil, stages...)
			if p := g.plays(t, oddBody); !strings.Contains(p.body, "Without stages.") {
				t.Errorf("it is not seen that nothing was found: %s: %s", p.told(), p.body)
			}
			g.reports.next(t)
		})
	}
	u := newUpstream(t, saying(map[string]string{"draft": "<think>SECRET, and the limit is used up", "": "Without stages."}))
	g := oddStages(t, u, nil, staged.Stage{Name: "draft"}, staged.Stage{Name: "last"})
	if p := g.plays(t, oddBody); !strings.Contains(p.told(), "failed=draft; failure=silent; ") {
		t.Errorf("an answer of thoughts alone: %s: %s", p.told(), p.body)
	}
}
