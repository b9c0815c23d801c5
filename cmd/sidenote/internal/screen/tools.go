package screen

import (
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/explain"
)

// argumentsWidth limits the columns of a call's arguments.
const argumentsWidth = 60

// printTools prints a model's tool calls, their results, and the usage of all rounds.
func printTools(w io.Writer, e *explain.Explanation) {
	Offered(w, nil, e.ToolsSkipped)
	t := e.Tools
	if t == nil {
		return
	}
	line := fmt.Sprintf("tools: %s, %s, %s tokens of results", terminal.Plural(t.Rounds, "round"), terminal.Plural(len(t.Calls)+t.CallsOmitted, "call"), terminal.Thousands(t.Tokens))
	if t.Restored > 0 {
		line += fmt.Sprintf(", %s put back", terminal.Plural(t.Restored, "earlier turn"))
	}
	if t.TurnLoss != "" {
		line += fmt.Sprintf(", its own is not kept (%s)", terminal.Clean(string(t.TurnLoss)))
	}
	if u := e.Usage; u != nil {
		line += fmt.Sprintf("; all rounds used %s tokens of input, %s of output", terminal.Thousands(int(u.Input)), terminal.Thousands(int(u.Output)))
	}
	fmt.Fprintln(w, line)
	if len(t.Calls) > 0 {
		fmt.Fprintf(w, "  %5s  %-16s  %5s  %6s  %8s  %-8s  %s\n", "ROUND", "TOOL", "HITS", "TOKENS", "MS", "OUTCOME", "ARGUMENTS")
	}
	for _, c := range t.Calls {
		row := fmt.Sprintf("  %5d  %-16s  %5s  %6s  %8.1f  %-8s  %s", c.Round, terminal.Clean(c.Tool), terminal.Thousands(c.Hits), terminal.Thousands(c.Tokens), c.Took,
			terminal.Clean(string(c.Outcome)), terminal.Fit(c.Arguments, argumentsWidth))
		fmt.Fprintln(w, strings.TrimRight(row, " "))
	}
	if t.CallsOmitted > 0 {
		fmt.Fprintf(w, "  and %s more\n", terminal.Thousands(t.CallsOmitted))
	}
	for _, s := range t.Sources {
		title := strings.Trim(s.Name+" > "+s.Section, " >")
		line := fmt.Sprintf("tool %-4s %s", terminal.Mark(s.ID), terminal.Clean(fmt.Sprintf("%s/%s#%d  %s", s.Knowledge, s.Doc, s.Chunk, title)))
		if s.Relevance > 0 { // sources read by name have none
			line += fmt.Sprintf(", relevance %.2f", s.Relevance)
		}
		fmt.Fprintln(w, line)
	}
}

// Offered prints which tools a model would be offered, or why none; nothing if its policy has
// none.
func Offered(w io.Writer, names []string, unoffered string) {
	if len(names) > 0 {
		fmt.Fprintf(w, "tools offered: %s\n", terminal.Clean(strings.Join(names, ", ")))
	}
	if unoffered != "" {
		fmt.Fprintf(w, "tools not offered: %s\n", terminal.Clean(unoffered))
	}
}
