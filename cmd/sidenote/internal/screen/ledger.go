package screen

import (
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chunks"
)

// mostOut limits the excluded candidates that Rewrite shows unless full is true.
const mostOut = 3

// Rewrite shows what a dry run adds to a request, and the first excluded candidates, or all if
// full is true.
func Rewrite(w io.Writer, res rewrite.Result, full bool) {
	l := res.Ledger.WithExcluded()
	fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("%s %s", res.Outcome, res.Reason)))
	if l.Background != "" {
		fmt.Fprintln(w, "background call, by rule "+l.Background)
	}
	counts(w, &l)
	if res.Ambiguity != nil {
		fmt.Fprintln(w, res.Ambiguity.Message)
	}
	if l.Filter != nil {
		fmt.Fprintf(w, "only documents of %s\n", l.Filter)
	}
	for _, note := range l.Notes {
		fmt.Fprintln(w, terminal.Clean(note))
	}
	bases := map[string]bool{}
	for _, src := range l.Sources {
		bases[src.Knowledge] = true
	}
	out := 0
	for _, src := range l.Sources {
		if src.ID == 0 {
			if out++; out > mostOut && !full {
				continue
			}
		}
		fmt.Fprintln(w, ledgerLine(src, len(bases) > 1))
	}
	if more := out - mostOut; more > 0 && !full {
		fmt.Fprintf(w, "          and %s more; --full shows all\n", terminal.Thousands(more))
	}
}

// ledgerLine formats a source, with its base if there are several.
func ledgerLine(src rewrite.SourceEntry, several bool) string {
	name := fmt.Sprintf("%s#%d", src.Doc, src.Chunk)
	if several {
		name = src.Knowledge + "/" + name
	}
	parts := []string{fmt.Sprintf("%-4s %-4s %s", src.Inclusion, terminal.Mark(src.ID), terminal.Clean(name))}
	if src.Section != "" {
		parts = append(parts, terminal.Fit(src.Section, 30))
	}
	if src.Date != "" {
		parts = append(parts, src.Date)
	}
	if src.Tokens > 0 {
		parts = append(parts, terminal.Plural(src.Tokens, "token"))
	}
	if src.Reranked != nil {
		parts = append(parts, fmt.Sprintf("rerank %.3g", *src.Reranked))
	}
	if src.Grade != "" {
		parts = append(parts, gradeOf(src.Grade, src.Graded))
	}
	if src.Detail != "" {
		parts = append(parts, terminal.Clean(src.Detail))
	}
	return strings.Join(parts, "  ")
}

// gradeOf returns "relevant", or "relevant 0.9" with a grader's score.
func gradeOf(g retrieval.Grade, score *float64) string {
	if score == nil {
		return string(g)
	}
	return fmt.Sprintf("%s %.3g", g, *score)
}

// counts prints the tokens added, their placement, and the tokens of the request.
func counts(w io.Writer, l *rewrite.Ledger) {
	fmt.Fprintf(w, "budget %s tokens, used %s %s (%s)\n", terminal.Thousands(l.Budget), terminal.Thousands(l.Used), l.Exactness, l.Encoding)
	if l.Placement != "" && l.Placement != rewrite.PlaceSystem {
		fmt.Fprintf(w, "placement %s\n", l.Placement)
	}
	if l.CacheMark != "" {
		fmt.Fprintf(w, "cache mark %s\n", l.CacheMark)
	}
	if r := l.Repeated; r != nil {
		fmt.Fprintf(w, "again %s of earlier turns, %s tokens\n", terminal.Plural(len(r.Sources), "source"), terminal.Thousands(r.Tokens))
	}
	if line := windowLine(l); line != "" {
		fmt.Fprintln(w, line)
	}
	taken(w, l.Chunks)
	Helpers(w, l.Planned, l.Reranked, l.Graded)
}

// Helpers prints the results of planning, reranking and grading, if any.
func Helpers(w io.Writer, p *retrieval.Planned, r *retrieval.Reranked, g *retrieval.Graded) {
	planned(w, p)
	if r != nil {
		fmt.Fprintf(w, "rerank %s: %s, %s\n", r.Reason, terminal.Clean(strings.TrimSpace(r.Model+" on "+r.Upstream)), terminal.Plural(r.Documents, "document"))
	}
	graded(w, g)
}

// taken prints what was included and excluded of typed chunks.
func taken(w io.Writer, c *chunks.Ledger) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "chunks %d of %d, %s of %s tokens, in %s\n", c.In, c.Total, terminal.Thousands(c.Tokens), terminal.Thousands(c.Budget), terminal.Plural(len(c.Messages), "message"))
	for _, x := range c.Excluded {
		fmt.Fprintf(w, "  out %s  %s\n", terminal.Clean(x.ID), terminal.Clean(strings.TrimSpace(string(x.Reason)+"  "+x.Detail)))
	}
}

// planned prints the result of planning, and the queries searched besides the question.
func planned(w io.Writer, p *retrieval.Planned) {
	if p == nil {
		return
	}
	fmt.Fprintf(w, "planner %s: %s\n", p.Fallback, terminal.Clean(p.ModelID))
	for _, query := range p.Queries[min(1, len(p.Queries)):] {
		fmt.Fprintf(w, "  also searched: %s\n", terminal.Fit(query, 100))
	}
}

// graded prints the result of grading.
func graded(w io.Writer, g *retrieval.Graded) {
	if g == nil {
		return
	}
	by := "scores of the reranker"
	if g.By == retrieval.GradeByModel {
		by = terminal.Clean(strings.TrimSpace(g.Model + " on " + g.Upstream))
	}
	line := fmt.Sprintf("grade %s: %s", g.Reason, by)
	if g.Verdict != "" {
		line += ", " + string(g.Verdict)
	}
	if g.Rounds > 1 {
		line += fmt.Sprintf(" after %d rounds", g.Rounds)
	}
	fmt.Fprintln(w, line)
}

// windowLine shows how the model's context window is used.
func windowLine(l *rewrite.Ledger) string {
	w := l.Window
	if w.Cost == nil {
		return ""
	}
	text := fmt.Sprintf("request %s tokens: messages %s", terminal.Thousands(w.Request), terminal.Thousands(w.Cost.Messages))
	for _, part := range []struct {
		name string
		n    int
	}{{"tools", w.Cost.Tools}, {"response_format", w.Cost.Format}, {"images", w.Cost.Images}, {"reserve", w.Reserve}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", part.name, terminal.Thousands(part.n))
		}
	}
	text += fmt.Sprintf("; reserved for the answer %s; ", terminal.Thousands(w.ReservedOutput))
	if w.Size == 0 {
		return text + "window unknown"
	}
	return text + fmt.Sprintf("window %s, room %s", terminal.Thousands(w.Size), terminal.Thousands(w.Room))
}
