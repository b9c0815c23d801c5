package screen

import (
	"fmt"
	"io"

	"sidenote/rewrite/staged"
)

// Prompts prints the prompts of a chain. What a stage would say stands there as its placeholder.
func Prompts(w io.Writer, c *staged.Chain, in staged.Inputs) {
	for i := range c.Stages {
		s := &c.Stages[i]
		fmt.Fprintf(w, "=== stage %d/%d %s%s\n", i+1, len(c.Stages), s.Name, settings(s))
		system, user := c.Prompt(i, in)
		if system != "" {
			fmt.Fprintf(w, "--- system\n%s\n", system)
		}
		fmt.Fprintf(w, "--- user\n%s\n\n", user)
		in.Outputs = append(in.Outputs, "{{"+s.Name+"}}")
	}
}

// settings is what a stage says beside its prompts.
func settings(s *staged.Stage) (text string) {
	add := func(format string, value any) {
		between := ", "
		if text == "" {
			between = ": "
		}
		text += between + fmt.Sprintf(format, value)
	}
	if s.Model != "" {
		add("model %s", s.Model)
	}
	if s.Upstream != "" {
		add("upstream %s", s.Upstream)
	}
	if s.Temperature != nil {
		add("temperature %g", *s.Temperature)
	}
	if s.MaxTokens > 0 {
		add("at most %d tokens", s.MaxTokens)
	}
	if s.StopIf != "" {
		add("ends the chain by %q", s.StopIf)
	}
	if s.EmptyIf != "" {
		add("finds nothing by %q", s.EmptyIf)
	}
	return text
}
