package screen

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/explain"
	"sidenote/retrieval"
)

const (
	columns = 79 // of a line, if names allow it
	indent  = 23 // columns before the details of a candidate
	further = 9  // columns of a strength
)

// Candidates shows how many candidates each search stage left, what was searched for, and all
// candidates in rank order.
func Candidates(w io.Writer, f *explain.SearchResult) {
	var steps, bases []string
	for _, s := range explain.LookupStages(&f.Result) {
		steps = append(steps, fmt.Sprintf("%s %d", s.Name, s.Left))
	}
	for _, ref := range f.Bases {
		bases = append(bases, ref.Knowledge)
	}
	fmt.Fprintln(w, strings.Join(steps, " → "))
	if f.Reason != retrieval.ReasonNone {
		fmt.Fprintln(w, "reason    "+string(f.Reason))
	}
	if f.Degraded != "" {
		fmt.Fprintln(w, "without   "+string(f.Degraded))
	}
	if len(bases) > 0 {
		fmt.Fprintln(w, terminal.Fit(fmt.Sprintf("searched  %s in %s: %s", terminal.Plural(len(bases), "base"), terminal.Short(f.Took, 1), strings.Join(bases, ", ")), columns))
	}
	Helpers(w, f.Planned, f.Reranked, f.Graded)
	if floor := f.Floor(); floor != "" {
		fmt.Fprintln(w, "floor     "+floor)
	}
	if len(f.Explained.Terms) > 0 {
		fmt.Fprintln(w, "terms     "+strings.Join(lines(parts(f.Explained.Terms, columns-10), columns-10), "\n          "))
	}
	all := f.Candidates()
	ordered := slices.ContainsFunc(all, func(c *explain.Candidate) bool { return c.Strength > 0 })
	if len(all) > 0 {
		head := fmt.Sprintf("%4s %9s %7s", "", "relevance", "score")
		if ordered {
			head += fmt.Sprintf("%*s", further, "strength")
		}
		fmt.Fprintln(w, "\n"+head)
	}
	for _, c := range all {
		printCandidate(w, c, ordered)
	}
}

// printCandidate shows a candidate and, below it, why it is excluded, its terms with their scores,
// and the near-duplicates that it represents. If ordered is set, strengths have a column.
func printCandidate(w io.Writer, c *explain.Candidate, ordered bool) {
	indent, strength := indent, ""
	if ordered {
		indent, strength = indent+further, fmt.Sprintf("%*.2f", further, c.Strength)
	}
	rank := "out"
	if c.Number > 0 {
		rank = fmt.Sprintf("%d.", c.Number)
	}
	line := terminal.Clean(explain.ChunkID(&c.Source))
	if heading := title(c.Source); heading != "" {
		line += "  " + terminal.Fit(heading, max(20, columns-indent-len(line)-2))
	}
	fmt.Fprintf(w, "%4s %9.2f %7.2f%s %s\n", rank, c.Relevance, c.Score, strength, line)
	owed := parts(c.Explained.Terms, columns-indent)
	switch d := c.Explained.Document; {
	case d >= .005:
		owed = append(owed, fmt.Sprintf("(whole document %.2f)", d))
	case d <= -.005:
		owed = append(owed, fmt.Sprintf("(further chunk %.2f)", d))
	}
	below := lines(owed, columns-indent)
	if c.Explained.Arm != retrieval.ArmNone {
		below = append([]string{armsOf(&c.Explained)}, below...)
	}
	if judged := judgement(&c.Source); judged != "" {
		below = append([]string{judged}, below...)
	}
	if c.Why != "" {
		below = append([]string{terminal.Clean(c.Why)}, below...)
	}
	if len(c.Duplicates) > 0 {
		var twins []string
		for i := range c.Duplicates {
			twins = append(twins, explain.ChunkID(&c.Duplicates[i]))
		}
		below = append(below, terminal.Clean("stands for "+strings.Join(twins, ", ")))
	}
	for _, text := range below {
		fmt.Fprintf(w, "%*s%s\n", indent, "", text)
	}
}

// judgement formats the scores of the reranker and the grader, or returns "".
func judgement(s *retrieval.Source) string {
	var parts []string
	if s.RerankScore != nil {
		parts = append(parts, fmt.Sprintf("rerank %.3g", *s.RerankScore))
	}
	if s.Grade != "" {
		parts = append(parts, gradeOf(s.Grade, s.GradeScore))
	}
	return strings.Join(parts, ", ")
}

// armsOf says how a chunk was found in a base with vectors.
func armsOf(told *retrieval.ExplainedHit) string {
	words := "not among the best by words"
	if told.Words > 0 {
		words = fmt.Sprintf("words %.2f", told.Words)
	}
	return fmt.Sprintf("%s, cosine %.2f weighs %.2f: by %s", words, told.Cosine, told.Weight, told.Arm)
}

// parts formats terms with their scores, each at most so many columns wide. A term that no text
// contains has no score.
func parts(terms []retrieval.ExplainedTerm, wide int) (list []string) {
	for _, t := range terms {
		text := t.Text
		if t.Typed != "" {
			text = t.Typed + " → " + t.Text
		}
		part := terminal.Fit(text, wide-12)
		if t.Score > 0 {
			part += fmt.Sprintf(" %.2f", t.Score)
		} else {
			part += " (nowhere)"
		}
		list = append(list, part)
	}
	return list
}

// lines joins parts into lines of so many columns.
func lines(parts []string, wide int) (list []string) {
	line := ""
	for _, part := range parts {
		if line != "" && len(line)+2+len(part) > wide {
			list, line = append(list, line), ""
		}
		if line != "" {
			line += "  "
		}
		line += part
	}
	if line != "" {
		list = append(list, line)
	}
	return list
}
