package screen

import (
	"fmt"
	"io"

	"sidenote/proxy/explain"
	"sidenote/rewrite/staged"
)

// Prompts prints the prompts of each stage of a chain.
func Prompts(w io.Writer, list []explain.DryRunPrompt) {
	for i, p := range list {
		fmt.Fprintf(w, "=== stage %d/%d %s%s\n", i+1, len(list), p.Name, settings(p.Stage))
		if p.System != "" {
			fmt.Fprintf(w, "--- system\n%s\n", p.System)
		}
		fmt.Fprintf(w, "--- user\n%s\n\n", p.User)
	}
}

// settings formats the settings of a stage besides its prompts.
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
