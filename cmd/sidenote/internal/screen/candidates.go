package screen

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"sidenote/cmd/internal/console"
	"sidenote/proxy/admin"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// A Found is a search with all its candidates, and why they are in or out.
type Found struct {
	retrieval.Result
	Settings retrieval.Settings
	Told     knowledge.Explained // of the embedded bases
}

// A candidate is a source that was found, with the decision about it.
type candidate struct {
	source retrieval.Source
	number int    // among the sources of the answer; 0 for one that is out
	why    string // it is out; "" for one that is in
	told   knowledge.ExplainedHit
	twins  []retrieval.Source // that are out because they say the same
}

// candidates returns the candidates of all bases in the order of their relevance, or as they were
// reranked or graded, but for those that say the same as another, which are its twins.
func (f Found) candidates() []*candidate {
	var all []*candidate
	var fallen []retrieval.Excluded
	for i, s := range f.Sources {
		all = append(all, &candidate{source: s, number: i + 1})
	}
	for _, x := range f.Excluded {
		if x.Reason == retrieval.ExcludedDup {
			fallen = append(fallen, x)
		} else {
			all = append(all, &candidate{source: x.Source(), why: cmp.Or(x.Why(), string(x.Reason))})
		}
	}
	for _, x := range fallen {
		i := slices.IndexFunc(all, func(c *candidate) bool { return x.DuplicateOf(c.source) })
		if i < 0 { // there are more candidates than are told of
			all = append(all, &candidate{source: x.Source(), why: cmp.Or(x.Why(), string(x.Reason))})
			continue
		}
		all[i].twins = append(all[i].twins, x.Source())
	}
	if f.Reranked == nil && f.Graded == nil && f.Settings.Fusion == retrieval.FusionScores { // else they are as they were ranked
		slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(b.source.Relevance, a.source.Relevance) })
	}
	for _, c := range all {
		c.told = f.told(c.source)
	}
	return all
}

// told returns what makes the score of a chunk; nothing of a base elsewhere.
func (f Found) told(s retrieval.Source) knowledge.ExplainedHit {
	for _, h := range f.Told.Found {
		if h.Knowledge == s.Knowledge && h.Doc == s.Doc && h.Chunk == s.Chunk {
			return h
		}
	}
	return knowledge.ExplainedHit{}
}

// place names a chunk.
func place(s retrieval.Source) string { return fmt.Sprintf("%s/%s#%d", s.Knowledge, s.Doc, s.Chunk) }

// Answer adds to what sidenote search --json prints why each candidate is in or out.
func (f Found) Answer(a *admin.SearchAnswer) {
	a.Floor, a.Terms = f.Told.Floor, wireTerms(f.Told.Terms)
	for i := range a.Data {
		told := f.told(f.Sources[i])
		a.Data[i].Terms, a.Data[i].Document = wireTerms(told.Terms), told.Document
		a.Data[i].Words, a.Data[i].Cosine, a.Data[i].DenseWeight = arms(told)
		for _, x := range f.Excluded {
			if x.DuplicateOf(f.Sources[i]) {
				a.Data[i].Duplicates = append(a.Data[i].Duplicates, place(x.Source()))
			}
		}
	}
	for i := range a.Excluded {
		told := f.told(f.Excluded[i].Source())
		a.Excluded[i].Terms, a.Excluded[i].Document = wireTerms(told.Terms), told.Document
		a.Excluded[i].Words, a.Excluded[i].Cosine, a.Excluded[i].DenseWeight = arms(told)
	}
}

// arms returns the score by words of a chunk in a base with vectors, its cosine and what that weighs.
func arms(told knowledge.ExplainedHit) (words, cosine, weight float64) {
	if told.Arm == retrieval.ArmNone {
		return 0, 0, 0
	}
	return told.Words, told.Cosine, told.Weight
}

func wireTerms(terms []knowledge.ExplainedTerm) (list []admin.Term) {
	for _, t := range terms {
		list = append(list, admin.Term{Text: t.Text, Score: t.Score})
	}
	return list
}

const (
	columns = 79 // of a line, where names allow it
	indent  = 23 // columns before what is said of a candidate
)

// Print shows how many candidates each stage left, what was looked for, and all candidates in
// the order of their rank.
func (f Found) Print(w io.Writer) {
	var steps, bases []string
	for _, s := range Stages(f.Result) {
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
		fmt.Fprintln(w, console.Fit(fmt.Sprintf("searched  %s in %s: %s", console.Plural(len(bases), "base"), console.Short(f.Took, 1), strings.Join(bases, ", ")), columns))
	}
	Helpers(w, f.Planned, f.Reranked, f.Graded)
	if floor := f.floor(); floor != "" {
		fmt.Fprintln(w, "floor     "+floor)
	}
	if len(f.Told.Terms) > 0 {
		fmt.Fprintln(w, "terms     "+strings.Join(lines(parts(f.Told.Terms, columns-10), columns-10), "\n          "))
	}
	all := f.candidates()
	if len(all) > 0 {
		fmt.Fprintf(w, "\n%4s %9s %7s\n", "", "relevance", "score")
	}
	for _, c := range all {
		c.print(w)
	}
}

// floor says what a candidate needs to be in.
func (f Found) floor() string {
	if f.Settings.ScoreThreshold >= 0 {
		return fmt.Sprintf("a score of %g, of any base", f.Settings.ScoreThreshold)
	}
	var parts []string
	if f.Told.Floor > 0 {
		parts = append(parts, fmt.Sprintf("relevance 0.50, here a score of %.2f", f.Told.Floor))
	}
	for _, t := range f.Settings.Thresholds {
		if slices.ContainsFunc(f.Bases, func(ref retrieval.Ref) bool { return ref.Knowledge == t.Knowledge }) {
			parts = append(parts, fmt.Sprintf("%s: relevance %.2f", t.Knowledge, t.Relevance))
		}
	}
	return strings.Join(parts, "; ")
}

// print shows a candidate, and below it why it is out, its terms with their scores, and what
// it stands for.
func (c *candidate) print(w io.Writer) {
	rank := "out"
	if c.number > 0 {
		rank = fmt.Sprintf("%d.", c.number)
	}
	line := console.Clean(place(c.source))
	if heading := title(c.source); heading != "" {
		line += "  " + console.Fit(heading, max(20, columns-indent-len(line)-2))
	}
	fmt.Fprintf(w, "%4s %9.2f %7.2f %s\n", rank, c.source.Relevance, c.source.Score, line)
	owed := parts(c.told.Terms, columns-indent)
	switch d := c.told.Document; {
	case d >= .005:
		owed = append(owed, fmt.Sprintf("(whole document %.2f)", d))
	case d <= -.005:
		owed = append(owed, fmt.Sprintf("(further chunk %.2f)", d))
	}
	below := lines(owed, columns-indent)
	if c.told.Arm != retrieval.ArmNone {
		below = append([]string{c.arms()}, below...)
	}
	if judged := judgement(&c.source); judged != "" {
		below = append([]string{judged}, below...)
	}
	if c.why != "" {
		below = append([]string{console.Clean(c.why)}, below...)
	}
	if len(c.twins) > 0 {
		var twins []string
		for _, s := range c.twins {
			twins = append(twins, place(s))
		}
		below = append(below, console.Clean("stands for "+strings.Join(twins, ", ")))
	}
	for _, text := range below {
		fmt.Fprintf(w, "%*s%s\n", indent, "", text)
	}
}

// judgement is what a reranker and a grader said of a source; "" where nobody was asked.
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

// arms says how a chunk was found in a base with vectors.
func (c *candidate) arms() string {
	words := "not among the best by words"
	if c.told.Words > 0 {
		words = fmt.Sprintf("words %.2f", c.told.Words)
	}
	return fmt.Sprintf("%s, cosine %.2f weighs %.2f: by %s", words, c.told.Cosine, c.told.Weight, c.told.Arm)
}

// parts are terms with their scores, each at most so many columns wide. What no text has, has
// no score.
func parts(terms []knowledge.ExplainedTerm, wide int) (list []string) {
	for _, t := range terms {
		part := console.Fit(t.Text, wide-12)
		if t.Score > 0 {
			part += fmt.Sprintf(" %.2f", t.Score)
		} else {
			part += " (nowhere)"
		}
		list = append(list, part)
	}
	return list
}

// lines puts parts into lines of so many columns.
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
