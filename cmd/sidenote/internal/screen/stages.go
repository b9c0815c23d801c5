package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
)

// printStages prints the time, usage and outcome of each stage of an answer and, if kept, its
// prompt and output.
func printStages(w io.Writer, e *explain.Explanation) {
	StagesSkipped(w, e.StagesSkipped)
	s := e.Stages
	if s == nil {
		return
	}
	line := fmt.Sprintf("stages: %d of %d", len(s.Called), s.Total)
	if s.Answer != "" {
		line += ", the answer is that of " + terminal.Clean(s.Answer)
	}
	if u := e.Usage; u != nil {
		line += fmt.Sprintf("; all used %s tokens of input, %s of output", terminal.Thousands(int(u.Input)), terminal.Thousands(int(u.Output)))
	}
	fmt.Fprintln(w, line)
	if len(s.Called) > 0 {
		fmt.Fprintf(w, "  %5s  %-24s  %5s  %6s  %9s  %8s  %8s  %-12s  %s\n", "STAGE", "NAME", "CALLS", "STATUS", "MS", "INPUT", "OUTPUT", "OUTCOME", "MODEL")
	}
	for i := range s.Called {
		printStage(w, &s.Called[i])
	}
}

// sentByStage reports whether the last upstream request is that of a stage, which is shown
// separately.
func sentByStage(e *explain.Explanation) bool { return e.Stages != nil && e.Outcome == report.Staged }

func printStage(w io.Writer, s *explain.Stage) {
	status, input, output := "-", "-", "-"
	if s.Status > 0 {
		status = fmt.Sprint(s.Status)
	}
	if u := s.Usage; u != nil {
		input, output = terminal.Thousands(int(u.Input)), terminal.Thousands(int(u.Output))
	}
	outcome := string(s.Outcome)
	if s.Finish != "" && s.Finish != "stop" {
		outcome += " (" + s.Finish + ")"
	}
	model := s.Model
	if s.Upstream != "" {
		model += " on " + s.Upstream
	}
	row := fmt.Sprintf("  %5d  %-24s  %5d  %6s  %9.1f  %8s  %8s  %-12s  %s", s.At, terminal.Clean(s.Name), s.Calls, status, s.Took, input, output, terminal.Clean(outcome), terminal.Clean(model))
	fmt.Fprintln(w, strings.TrimRight(row, " "))
	if b := s.Request; b != nil {
		fmt.Fprintf(w, "         asked, %s bytes\n", terminal.Thousands(b.Bytes))
		printIndented(w, messages(b.Text))
	}
	if b := s.Output; b != nil {
		fmt.Fprintf(w, "         said, %s bytes\n", terminal.Thousands(b.Bytes))
		printIndented(w, b.Text)
	}
}

// printIndented prints a text behind a bar, so that its lines cannot be mistaken for ours.
func printIndented(w io.Writer, text string) {
	for line := range strings.Lines(strings.TrimRight(strings.Map(visible, text), "\n")) {
		fmt.Fprintf(w, "         | %s\n", strings.TrimRight(line, "\n"))
	}
}

// messages returns the messages of a request in readable form, or its whole text if it is
// truncated or has none.
func messages(request string) string {
	var body struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal([]byte(request), &body) != nil || len(body.Messages) == 0 {
		return request
	}
	var b strings.Builder
	for _, m := range body.Messages {
		content := ""
		if json.Unmarshal(m.Content, &content) != nil {
			content = string(m.Content)
		}
		fmt.Fprintf(&b, "%s:\n%s\n", m.Role, content)
	}
	return b.String()
}

// StagesSkipped prints why a chat is not answered in stages, if there is a reason.
func StagesSkipped(w io.Writer, why string) {
	if why != "" {
		fmt.Fprintf(w, "not answered in stages: %s\n", terminal.Clean(why))
	}
}
