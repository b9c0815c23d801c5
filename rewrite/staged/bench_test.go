package staged_test

import (
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/staged"
	"sidenote/rewrite/tokens"
)

// BenchmarkRequests builds the four requests of a chain, each with 8 KB of sources and the
// previous stages' outputs, for a short chat and for one of 200 KB.
func BenchmarkRequests(b *testing.B) {
	b.Run("short", func(b *testing.B) { benchRequests(b, 0) })
	b.Run("long", func(b *testing.B) { benchRequests(b, 200) })
}

// benchRequests builds the requests for a chat with that many KB before the question.
func benchRequests(b *testing.B, before int) {
	const asked = "{{CONTEXT}}\n<question>\n{{QUESTION}}\n</question>\n"
	rules := strings.Repeat("State nothing as a fact that the sources do not support.\n", 20)
	c := compile(b,
		staged.Stage{Name: "evidence", SystemPrompt: rules, UserPrompt: asked + rules},
		staged.Stage{Name: "draft", SystemPrompt: rules, UserPrompt: asked + "{{evidence}}" + rules},
		staged.Stage{Name: "review", SystemPrompt: rules, UserPrompt: asked + "{{evidence}}{{draft}}" + rules},
		staged.Stage{Name: "final", SystemPrompt: rules, UserPrompt: asked + "{{evidence}}{{draft}}{{review}}" + rules})
	req, err := chat.Completions.Parse([]byte(`{"model":"gpt-4o","temperature":0.2,"messages":[{"role":"system","content":"Be brief."},` +
		strings.Repeat(`{"role":"assistant","content":"`+strings.Repeat("We talked of the weather.\\n", 38)+`"},`, before) + `{"role":"user","content":"How many weeks of parental leave do I get?"}]}`))
	if err != nil {
		b.Fatal(err)
	}
	encoding, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		b.Fatal(err)
	}
	said := strings.Repeat("Parents take sixteen weeks. ", 30)
	in := staged.Inputs{Question: staged.Read(req).Question, Context: chat.AppendEscaped(nil, strings.Repeat("Rule 7 about leave gives \"16\" weeks to case-12.\n", 170)), Counter: encoding}
	model := model.Model{Encoding: "o200k_base", Counter: encoding}
	b.ReportAllocs()
	for b.Loop() {
		chat, p := staged.Read(req), c.Prompts(in)
		for i := range c.Stages {
			chat.Body(nil, staged.Call{Stage: &c.Stages[i], Prompt: p.Of(i, model), Last: i == 3})
			p.Add(said)
		}
	}
}
