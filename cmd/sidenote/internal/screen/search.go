package screen

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/proxy/admin"
	"sidenote/retrieval"
)

// Stages returns how many candidates passed each stage, in order.
func Stages(res retrieval.Result) []admin.Stage {
	excluded := map[retrieval.ExcludeReason]int{}
	for _, x := range res.Excluded {
		excluded[x.Reason]++
	}
	out := []admin.Stage{{Name: "search", Left: res.Retrieved}}
	for _, s := range []struct {
		name   string
		reason retrieval.ExcludeReason
	}{
		{"threshold", retrieval.ExcludedScore}, {"duplicates", retrieval.ExcludedDup},
		{"per document", retrieval.ExcludedDocument}, {"top k", retrieval.ExcludedTopK},
	} {
		out = append(out, admin.Stage{Name: s.name, Left: out[len(out)-1].Left - excluded[s.reason]})
	}
	return out
}

// A candidate is a source that was found, with the decision about it.
type candidate struct {
	source retrieval.Source
	number int // among the sources of the answer; 0 for an excluded one
	why    string
}

// candidates returns all candidates, best first.
func candidates(res retrieval.Result) []candidate {
	var all []candidate
	for i, s := range res.Sources {
		all = append(all, candidate{s, i + 1, "in"})
	}
	for _, x := range res.Excluded {
		all = append(all, candidate{x.Source, 0, cmp.Or(x.Detail, string(x.Reason))})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.source.Relevance, a.source.Relevance) })
	return all
}

// printExplained shows how many candidates each stage left, and every candidate with its
// score and why it was excluded.
func printExplained(w io.Writer, res retrieval.Result) {
	var steps []string
	for _, s := range Stages(res) {
		steps = append(steps, fmt.Sprintf("%s %d", s.Name, s.Left))
	}
	fmt.Fprintf(w, "\n%s   (%s, %s)\n", strings.Join(steps, " → "), console.Plural(len(res.Bases), "base"), res.Took.Round(time.Microsecond))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tscore\trelevance\t\tcandidate and why it is in or out\n")
	for _, f := range candidates(res) {
		place := "out"
		if f.number > 0 {
			place = fmt.Sprintf("%d.", f.number)
		}
		line := strings.TrimSpace(fmt.Sprintf("%s/%s#%d  %s", f.source.Knowledge, f.source.Doc, f.source.Chunk, f.source.Section))
		if f.number == 0 {
			line += ": " + f.why
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.2f\t\t%s\n", place, f.source.Score, f.source.Relevance, console.Clean(line))
	}
	_ = table.Flush() // to the terminal
}

// Result shows the sources of a search, and, to explain them, what each stage left and every
// candidate.
func Result(w io.Writer, res retrieval.Result, explain bool) {
	for i, src := range res.Sources {
		fmt.Fprintf(w, "%d. %s#%d  %s  (score %.1f, relevance %.2f, base %s)\n   %s\n", i+1, src.Doc, src.Chunk,
			strings.Trim(src.Name+" > "+src.Section, " >"), src.Score, src.Relevance, src.Knowledge, excerpt(src.Text))
	}
	if len(res.Sources) == 0 {
		fmt.Fprintf(w, "nothing: %s\n", res.Reason)
	}
	if explain {
		printExplained(w, res)
	}
}

// excerpt is the beginning of a chunk on one line.
func excerpt(text string) string {
	const maxRunes = 160
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxRunes {
		return string(runes[:maxRunes]) + " …"
	}
	return string(runes)
}
