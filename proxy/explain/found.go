package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval"
)

// A SearchResult is a search result with all its candidates, and why each is in or out.
type SearchResult struct {
	retrieval.Result
	Settings  retrieval.Settings
	Explained retrieval.Explained // of the embedded bases; zero if not requested
}

// A Candidate is a source that was found, and whether it is in.
type Candidate struct {
	retrieval.Source
	Number            int                     // position among the sources, from 1; 0 if excluded
	Reason            retrieval.ExcludeReason // why it is excluded; "" if it is in
	Why               string                  // the same for people
	Explained         retrieval.ExplainedHit  // components of its score; zero for a remote base
	Duplicates        []retrieval.Source      // candidates excluded as duplicates of it
	RequiredRelevance float64                 // required relevance; 0 for none
}

// Candidates returns the candidates of all bases, sorted by strength, by relevance or in the order of
// the reranker or grader. Duplicates are listed with the candidate that they duplicate.
func (f *SearchResult) Candidates() []*Candidate {
	var all []*Candidate
	var twins []retrieval.Excluded
	for i, s := range f.Sources {
		all = append(all, &Candidate{Source: s, Number: i + 1})
	}
	out := func(x *retrieval.Excluded) *Candidate {
		return &Candidate{Source: retrieval.ExcludedSource(x), Reason: x.Reason, Why: cmp.Or(x.Why(), string(x.Reason))}
	}
	for x := range f.Excluded.All() {
		if x.Reason == retrieval.ExcludedDup {
			twins = append(twins, x)
		} else {
			all = append(all, out(&x))
		}
	}
	for i := range twins {
		x := &twins[i]
		at := slices.IndexFunc(all, func(c *Candidate) bool { return retrieval.DuplicateOf(x, &c.Source) })
		if at < 0 { // its original is not among the listed candidates
			all = append(all, out(x))
			continue
		}
		all[at].Duplicates = append(all[at].Duplicates, retrieval.ExcludedSource(x))
	}
	sorted := slices.IsSortedFunc(f.Sources, func(a, b retrieval.Source) int { return better(&a, &b) })
	if f.Reranked == nil && f.Graded == nil && f.Settings.Fusion == retrieval.FusionScores && sorted { // otherwise they are ranked already, or versions stand first
		slices.SortStableFunc(all, func(a, b *Candidate) int { return better(&a.Source, &b.Source) })
	}
	for _, c := range all {
		c.Explained, c.RequiredRelevance = f.told(&c.Source), f.least(&c.Source)
	}
	return all
}

// better orders sources by strength or, without one, by relevance.
func better(a, b *retrieval.Source) int {
	return cmp.Or(cmp.Compare(b.Strength, a.Strength), cmp.Compare(b.Relevance, a.Relevance))
}

// told returns the components of a chunk's score; zero for a remote base.
func (f *SearchResult) told(s *retrieval.Source) retrieval.ExplainedHit {
	for _, h := range f.Explained.Hits {
		if h.Knowledge == s.Knowledge && h.Doc == s.Doc && h.Chunk == s.Chunk {
			return h
		}
	}
	return retrieval.ExplainedHit{}
}

// least returns the relevance that a candidate needs in its base; 0 for none.
func (f *SearchResult) least(s *retrieval.Source) float64 {
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

// floorOf returns the floor that converted a score into a relevance; 0 if there was none because
// the score is a relevance already.
func floorOf(s *retrieval.Source) float64 {
	if s.Relevance <= 0 || s.Relevance == retrieval.Relevance(s.Score, 0) {
		return 0
	}
	return s.Score * (1 - s.Relevance) / s.Relevance
}

// Floor describes for people what a candidate needs to be in; "" if nothing.
func (f *SearchResult) Floor() string {
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

// ChunkID returns the id of a chunk as kb_id/doc_id#chunk.
func ChunkID(s *retrieval.Source) string {
	return fmt.Sprintf("%s/%s#%d", s.Knowledge, s.Doc, s.Chunk)
}

// A LookupStage is the number of candidates left after a stage of a search.
type LookupStage struct {
	Name string `json:"name"`
	Left int    `json:"left"`
}

// LookupStages returns the number of candidates left after each stage, in order.
func LookupStages(res *retrieval.Result) []LookupStage {
	out := []LookupStage{{Name: "search", Left: res.Retrieved}}
	add := func(name string, reason retrieval.ExcludeReason) {
		out = append(out, LookupStage{Name: name, Left: out[len(out)-1].Left - res.Excluded.Count(reason)})
	}
	if res.Reranked != nil {
		add("rerank", retrieval.ExcludedRerank)
	}
	add("threshold", retrieval.ExcludedScore)
	add("duplicates", retrieval.ExcludedDup)
	if res.Excluded.Count(retrieval.ExcludedVersion) > 0 {
		add("versions", retrieval.ExcludedVersion)
	}
	if res.Excluded.Count(retrieval.ExcludedVariant) > 0 {
		add("variants", retrieval.ExcludedVariant)
	}
	add("per document", retrieval.ExcludedDocument)
	add("top k", retrieval.ExcludedTopK)
	if res.Graded != nil {
		add("grade", retrieval.ExcludedGrade)
	}
	return out
}
