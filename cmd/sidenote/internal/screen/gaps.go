package screen

import (
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/gaps"
)

const (
	firstGaps = 25 // groups that are shown
	gapText   = 72 // columns of a question
)

// Gaps shows what recorded questions lack, all groups or the first ones.
func Gaps(w io.Writer, r *gaps.Report, all bool) {
	fmt.Fprintf(w, "%s recorded, %s searched for, %s lack something\n", terminal.Plural(r.Records, "question"), terminal.Thousands(r.Searched), terminal.Thousands(r.Gaps))
	if r.Left > 0 {
		fmt.Fprintf(w, "the oldest %s of them are left out\n", terminal.Thousands(r.Left))
	}
	shown := r.Groups
	if !all {
		shown = shown[:min(len(shown), firstGaps)]
	}
	if len(shown) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%5s  QUESTION, SIGNS, NEAREST DOCUMENT\n", "ASKED")
	for i := range shown {
		g := &shown[i]
		fmt.Fprintf(w, "%5s  %s\n", terminal.Thousands(g.Count), terminal.Fit(g.Question, gapText))
		fmt.Fprintf(w, "%5s  %s; %s\n", "", signs(g), nearest(g))
	}
	if more := len(r.Groups) - len(shown); more > 0 {
		fmt.Fprintf(w, "\n%s more; --full shows them\n", terminal.Plural(more, "group"))
	}
	fmt.Fprintln(w, "\nthe relevance of a source is at least 0.50")
}

// signs lists what is missing, and how often if that differs.
func signs(g *gaps.Group) string {
	var list []string
	for _, k := range gaps.Kinds() {
		if n := g.Kinds[k]; n > 0 {
			text := k.String()
			if n < g.Count {
				text = terminal.Thousands(n) + " " + text
			}
			list = append(list, text)
		}
	}
	if g.Answered > 0 {
		list = append(list, terminal.Thousands(g.Answered)+" would get sources now")
	}
	return strings.Join(list, ", ")
}

func nearest(g *gaps.Group) string {
	d := g.Nearest
	switch {
	case g.Unsearched:
		return "not searched again: its tenant, policy or bases are gone, or it needs the caller's token"
	case d == nil:
		return "no document has a word of it"
	}
	return fmt.Sprintf("nearest %s of %s, relevance %.2f", terminal.Clean(d.ID), d.Knowledge, d.Relevance)
}
