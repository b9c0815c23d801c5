package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval"
)

// A Found is a search with all its candidates, and why they are in or out.
type Found struct {
	retrieval.Result
	Settings  retrieval.Settings
	Explained retrieval.Explained // of the embedded bases; the zero one where it was not asked for
}

// A Candidate is a source that was found, with the decision about it.
type Candidate struct {
	retrieval.Source
	Number     int                     // among the sources of the answer, from 1; 0 for one that is out
	Reason     retrieval.ExcludeReason // of one that is out; "" for one that is in
	Why        string                  // likewise, for people
	Explained  retrieval.ExplainedHit  // what makes its score; the zero one of a base elsewhere
	Duplicates []retrieval.Source      // that are out because they say the same
	Least      float64                 // relevance that it needs; 0 for none
}

// Candidates returns the candidates of all bases in the order of their relevance, or as they were
// reranked or graded, but for those that say the same as another, which are its duplicates.
func (f *Found) Candidates() []*Candidate {
	var all []*Candidate
	var twins []retrieval.Excluded
	for i, s := range f.Sources {
		all = append(all, &Candidate{Source: s, Number: i + 1})
	}
	out := func(x *retrieval.Excluded) *Candidate {
		return &Candidate{Source: retrieval.ExcludedSource(x), Reason: x.Reason, Why: cmp.Or(x.Why(), string(x.Reason))}
	}
	for x := range f.Fallen.All() {
		if x.Reason == retrieval.ExcludedDup {
			twins = append(twins, x)
		} else {
			all = append(all, out(&x))
		}
	}
	for i := range twins {
		x := &twins[i]
		at := slices.IndexFunc(all, func(c *Candidate) bool { return retrieval.DuplicateOf(x, &c.Source) })
		if at < 0 { // there are more candidates than are told of
			all = append(all, out(x))
			continue
		}
		all[at].Duplicates = append(all[at].Duplicates, retrieval.ExcludedSource(x))
	}
	if f.Reranked == nil && f.Graded == nil && f.Settings.Fusion == retrieval.FusionScores { // else they are as they were ranked
		slices.SortStableFunc(all, func(a, b *Candidate) int { return cmp.Compare(b.Relevance, a.Relevance) })
	}
	for _, c := range all {
		c.Explained, c.Least = f.told(&c.Source), f.least(&c.Source)
	}
	return all
}

// told returns what makes the score of a chunk; nothing of a base elsewhere.
func (f *Found) told(s *retrieval.Source) retrieval.ExplainedHit {
	for _, h := range f.Explained.Found {
		if h.Knowledge == s.Knowledge && h.Doc == s.Doc && h.Chunk == s.Chunk {
			return h
		}
	}
	return retrieval.ExplainedHit{}
}

// least returns the relevance that a candidate needs in its base; 0 for none.
func (f *Found) least(s *retrieval.Source) float64 {
	floor := floorOf(s)
	if least := f.Settings.ScoreThreshold; least >= 0 {
		return retrieval.Relevance(least, floor)
	}
	for _, t := range f.Settings.Thresholds {
		if t.Knowledge == s.Knowledge {
			return t.Relevance
		}
	}
	return retrieval.Relevance(floor, floor)
}

// floorOf returns the floor by which a score became its relevance; 0 where it had none, so that
// the score is one.
func floorOf(s *retrieval.Source) float64 {
	if s.Relevance <= 0 || s.Relevance == retrieval.Relevance(s.Score, 0) {
		return 0
	}
	return s.Score * (1 - s.Relevance) / s.Relevance
}

// Floor says for people what a candidate needs to be in; "" for nothing.
func (f *Found) Floor() string {
	if f.Settings.ScoreThreshold >= 0 {
		return fmt.Sprintf("a score of %g, of any base", f.Settings.ScoreThreshold)
	}
	var parts []string
	if f.Explained.Floor > 0 {
		parts = append(parts, fmt.Sprintf("relevance 0.50, here a score of %.2f", f.Explained.Floor))
	}
	for _, t := range f.Settings.Thresholds {
		if slices.ContainsFunc(f.Bases, func(ref retrieval.Ref) bool { return ref.Knowledge == t.Knowledge }) {
			parts = append(parts, fmt.Sprintf("%s: relevance %.2f", t.Knowledge, t.Relevance))
		}
	}
	return strings.Join(parts, "; ")
}

// LookupPlace names a chunk.
func LookupPlace(s *retrieval.Source) string {
	return fmt.Sprintf("%s/%s#%d", s.Knowledge, s.Doc, s.Chunk)
}

// A LookupStage is how many candidates one stage of a search left.
type LookupStage struct {
	Name string `json:"name"`
	Left int    `json:"left"`
}

// LookupStages returns how many candidates passed each stage, in order.
func LookupStages(res *retrieval.Result) []LookupStage {
	out := []LookupStage{{Name: "search", Left: res.Retrieved}}
	add := func(name string, reason retrieval.ExcludeReason) {
		out = append(out, LookupStage{Name: name, Left: out[len(out)-1].Left - res.Fallen.Fell(reason)})
	}
	if res.Reranked != nil {
		add("rerank", retrieval.ExcludedRerank)
	}
	add("threshold", retrieval.ExcludedScore)
	add("duplicates", retrieval.ExcludedDup)
	add("per document", retrieval.ExcludedDocument)
	add("top k", retrieval.ExcludedTopK)
	if res.Graded != nil {
		add("grade", retrieval.ExcludedGrade)
	}
	return out
}
