package services_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"sidenote/retrieval/services"
)

// Reasoning in front of an answer is removed, whatever its tags; such tags inside the answer stay.
func TestWithoutThinking(t *testing.T) {
	for answer, want := range map[string]string{
		"<think>all fine</think>\n\nNO ISSUES":      "NO ISSUES",
		" \n<think>\n</think>\n\n":                  "",
		"<think>a</think><think>b</think> c ":       "c ",
		"<thinking>a</thinking>b":                   "b",
		"<thought>a</thought>b":                     "b",
		"<reasoning>a</reasoning>b":                 "b",
		"[THINK]a[/THINK]b":                         "b",
		"\ufeff<think>a</think>b":                   "b",
		"all fine\n</think>\n\nNO ISSUES":           "NO ISSUES",
		"<think>the limit was used up":              "",
		"NO ISSUES":                                 "NO ISSUES",
		"  b ":                                      "  b ",
		"":                                          "",
		"b <think>c</think>\nd":                     "b <think>c</think>\nd",
		"End it with `</think>`, and say no more.":  "End it with `</think>`, and say no more.",
		"<thinker>a</thinker>":                      "<thinker>a</thinker>",
		"<think>it writes </think>\n</think> again": "</think> again",
	} {
		if got := services.WithoutThinking(answer); got != want {
			t.Errorf("%q is read as %q, want %q", answer, got, want)
		}
	}
}

// Plans and scores after reasoning are read, whether the content is a string or a list of parts.
func TestAnswersBehindThoughts(t *testing.T) {
	const thought = `{"type":"thinking","thinking":[{"type":"text","text":"{\"queries\":[\"no\"]}"}]}`
	for name, content := range map[string]string{
		"a string": `"{A}"`, "tags": `"<think>{}</think>{A}"`, "other tags": `"[THINK]{\"queries\":[]}[/THINK]\n{A}"`,
		"parts": `[` + thought + `,{"type":"text","text":"{A}"}]`, "a text in two parts": `[{"type":"text","text":"<think>x</think>"},{"type":"text","text":"{A}"}]`,
	} {
		ask := func(a string) string {
			api := serve(t, func(w http.ResponseWriter, _ *http.Request) { answerIn(w, content, a) })
			p, err := services.NewPrompt(services.LLMModel{Name: "small"}, "rules", "q", 10)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := api.Ask(t.Context(), services.LLMCall{}, p)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return answer.Text
		}
		if p, err := services.ReadPlan(ask(`{"queries":["leave"]}`)); err != nil || len(p.Queries) != 1 || p.Queries[0] != "leave" {
			t.Errorf("%s: planned %v, %v", name, p, err)
		}
		if s, err := services.ReadScores(ask(`{"scores":[{"index":0,"score":5}]}`), 1); err != nil || s[0] != .5 {
			t.Errorf("%s: scored %v, %v", name, s, err)
		}
	}
}

// answerIn answers with content, in which {A} is replaced by a.
func answerIn(w http.ResponseWriter, content, a string) {
	quoted, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	inside := string(quoted[1 : len(quoted)-1])
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":`+strings.ReplaceAll(content, "{A}", inside)+`}}]}`)
}
