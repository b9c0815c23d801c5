package staged_test

import (
	"errors"
	"strings"
	"testing"

	"sidenote/rewrite/staged"
)

func temperature(t float64) *float64 { return &t }

// draftAndFinal returns two stages, modified by change.
func draftAndFinal(change func(s []staged.Stage)) []staged.Stage {
	s := []staged.Stage{
		{Name: "draft", UserPrompt: "{{CONTEXT}}\n{{QUESTION}}"},
		{Name: "review", UserPrompt: "Review {{draft}}", StopIf: "NO ISSUES"},
		{Name: "final", UserPrompt: "{{QUESTION}} {{draft}} {{review}}"},
	}
	change(s)
	return s
}

// Every mistake is refused with an error naming the stage and the field.
func TestCompileRefuses(t *testing.T) {
	for want, change := range map[string]func(s []staged.Stage){
		"":                         func([]staged.Stage) {},
		"[0].name: \"\" is not":    func(s []staged.Stage) { s[0].Name = "" },
		"[0].name: \"Draft\" is":   func(s []staged.Stage) { s[0].Name = "Draft" },
		"[1].name: \"draft\" is t": func(s []staged.Stage) { s[1].Name = "draft" },
		`[0].name: "context" is the placeholder {{CONTEXT}}`:                          func(s []staged.Stage) { s[0].Name = "context" },
		"[0].user_prompt_template: the first stage must use {{QUESTION}}":             func(s []staged.Stage) { s[0].UserPrompt = "{{CONTEXT}}" },
		"[1].user_prompt_template: uses neither":                                      func(s []staged.Stage) { s[1].UserPrompt = "{{CONTEXT}} {{HISTORY}}" },
		"[2].user_prompt_template: uses neither":                                      func(s []staged.Stage) { s[2].UserPrompt = "" },
		"[0].user_prompt_template: {{final}} is a later stage":                        func(s []staged.Stage) { s[0].UserPrompt = "{{QUESTION}} {{final}}" },
		"[0].user_prompt_template: {{draft}} is the stage itself":                     func(s []staged.Stage) { s[0].UserPrompt = "{{QUESTION}} {{draft}}" },
		`[2].user_prompt_template: line 2: "{{dratf}}" is not a placeholder`:          func(s []staged.Stage) { s[2].UserPrompt = "{{QUESTION}}\n{{dratf}}" },
		`[2].user_prompt_template: "{{question}}" is not a placeholder`:               func(s []staged.Stage) { s[2].UserPrompt = "{{question}}" },
		`[2].user_prompt_template: "{{ QUESTION }}" is not a placeholder`:             func(s []staged.Stage) { s[2].UserPrompt = "{{ QUESTION }}" },
		`[2].user_prompt_template: "{{{QUESTION}}}" has a brace beside a placeholder`: func(s []staged.Stage) { s[2].UserPrompt = "{{{QUESTION}}}" },
		"[1].system_prompt: holds {{":                                                 func(s []staged.Stage) { s[1].SystemPrompt = "Answer {{QUESTION}}" },
		"[1].temperature: 2.1 is out":                                                 func(s []staged.Stage) { s[1].Temperature = temperature(2.1) },
		"[1].temperature: -0.1 is out":                                                func(s []staged.Stage) { s[1].Temperature = temperature(-0.1) },
		"[1].max_tokens: -1 is out":                                                   func(s []staged.Stage) { s[1].MaxTokens = -1 },
		"[1].budget: -1 is out":                                                       func(s []staged.Stage) { s[1].Budget = -1 },
		"[0].when.stop_if: has no stage before":                                       func(s []staged.Stage) { s[0].StopIf = "X" },
		"[2].when.stop_if: is of the last stage":                                      func(s []staged.Stage) { s[2].StopIf = "X" },
		"[2].when.empty_if: is of the last stage":                                     func(s []staged.Stage) { s[2].EmptyIf = "X" },
	} {
		_, err := staged.Compile(draftAndFinal(change))
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		var problem *staged.Error
		if !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), "stages"+want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, n := range map[string]int{"has no stage": 0, "has 12 stages; there are at most 8": 12} {
		if _, err := staged.Compile(make([]staged.Stage, n)); err == nil || err.Error() != "stages: "+want {
			t.Errorf("%d stages: %v", n, err)
		}
	}
}

// A phrase alone on the first line ends a chain, however models decorate it; a phrase in a
// sentence does not.
func TestStops(t *testing.T) {
	s := staged.Stage{StopIf: "NO ISSUES", EmptyIf: "no evidence"}
	for output, want := range map[string]bool{
		"NO ISSUES": true, "NO ISSUES\nAll good.": true, "\n no issues. \n": true, "**No issues.**": true, `"NO ISSUES"`: true,
		"": false, "NO ISSUES were found in the dose, but": false, "1. NO ISSUES": false, "There are:\nNO ISSUES": false, "NO EVIDENCE": false,
	} {
		if got := s.Stops(output); got != want {
			t.Errorf("Stops(%q) = %t", output, got)
		}
	}
	if !s.FoundNothing("NO EVIDENCE.\nNone of the sources …") || s.FoundNothing("NO ISSUES") {
		t.Error("FoundNothing does not read its own phrase")
	}
	if none := (staged.Stage{}); none.Stops("") || none.FoundNothing("...") {
		t.Error("a stage without a phrase stops")
	}
}

// The tags that texts must not imitate are those of outputs, of the prompts and those protected
// in addition.
func TestTags(t *testing.T) {
	c, err := staged.Compile([]staged.Stage{{Name: "one", SystemPrompt: "In <rules> …", UserPrompt: "<Question>{{QUESTION}}</Question>"}}, "house")
	if err != nil || strings.Join(c.Tags(), " ") != "stage house rules Question" {
		t.Errorf("%q, %v", c.Tags(), err)
	}
	if !c.Uses("QUESTION") || c.Uses("CONTEXT") || c.Uses("HISTORY") || c.Uses("one") {
		t.Error("Uses is wrong")
	}
}
