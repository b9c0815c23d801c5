package screen

import (
	"fmt"
	"io"

	"sidenote/cmd/internal/console"
	"sidenote/rewrite"
)

// Rewrite shows what a dry run adds to a request.
func Rewrite(w io.Writer, res rewrite.Result) {
	l := &res.Ledger
	fmt.Fprintf(w, "%s %s\n", res.Outcome, res.Reason)
	counts(w, l)
	if res.Ambiguity != nil {
		fmt.Fprintln(w, res.Ambiguity.Message)
	}
	if l.Filter != nil {
		fmt.Fprintf(w, "only documents of %s\n", l.Filter)
	}
	for _, src := range l.Sources {
		fmt.Fprintf(w, "%-4s %-4s %s#%d  %s  %d tokens  %s\n", src.Fate, console.Mark(src.ID), src.Doc, src.Chunk, src.Section, src.Tokens, src.Detail)
	}
}

// counts prints the tokens that were added, and where, and those of the request.
func counts(w io.Writer, l *rewrite.Ledger) {
	fmt.Fprintf(w, "budget %s tokens, used %s %s (%s)\n", console.Thousands(l.Budget), console.Thousands(l.Used), l.Exactness, l.Encoding)
	if l.Placement != "" && l.Placement != rewrite.PlaceSystem {
		fmt.Fprintf(w, "placement %s\n", l.Placement)
	}
	if line := windowLine(l); line != "" {
		fmt.Fprintln(w, line)
	}
}

// windowLine shows how the model's window is used.
func windowLine(l *rewrite.Ledger) string {
	w := l.Window
	if w.Cost == nil {
		return ""
	}
	text := fmt.Sprintf("request %s tokens: messages %s", console.Thousands(w.Request), console.Thousands(w.Cost.Messages))
	for _, part := range []struct {
		name string
		n    int
	}{{"tools", w.Cost.Tools}, {"response_format", w.Cost.Format}, {"images", w.Cost.Images}, {"reserve", w.Reserve}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", part.name, console.Thousands(part.n))
		}
	}
	text += fmt.Sprintf("; reserved for the answer %s; ", console.Thousands(w.ReservedOutput))
	if w.Size == 0 {
		return text + "window unknown"
	}
	return text + fmt.Sprintf("window %s, room %s", console.Thousands(w.Size), console.Thousands(w.Room))
}
