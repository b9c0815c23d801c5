package retrieval

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// A Grade says how relevant a source, or all sources of a search together, are to the question
// (corrective RAG: Yan, Gu, Zhu and Ling, 2024, arXiv 2401.15884). It is a closed list and a
// metric label.
type Grade string

// The grades. A search is relevant if one of its sources is, irrelevant if all are irrelevant, and
// ambiguous otherwise.
const (
	GradeNone       Grade = "" // not graded
	GradeRelevant   Grade = "relevant"
	GradeAmbiguous  Grade = "ambiguous"
	GradeIrrelevant Grade = "irrelevant"
)

// A GradeBy names the origin of the scores that grade.
type GradeBy string

// The origins of scores.
const (
	GradeByNobody GradeBy = ""
	GradeByRerank GradeBy = "rerank" // the query's Reranking
	GradeByModel  GradeBy = "llm"    // a Grader
)

// GradeSettings are the part of a policy that grading reads. The zero value disables grading.
type GradeSettings struct {
	By         GradeBy
	Upstream   string        // GradeByModel: name of the upstream to ask
	Address    string        // GradeByModel: address of Upstream
	Model      string        // GradeByModel: model to ask
	Relevant   float64       // minimum score of a relevant source
	Irrelevant float64       // minimum score of an ambiguous source
	Timeout    time.Duration // GradeByModel: for the scores
}

// SkippedReport returns the report for a request without a search; nil if grading is disabled.
func (s GradeSettings) SkippedReport() *Graded {
	if s.By == GradeByNobody {
		return nil
	}
	return s.unasked()
}

func (s *GradeSettings) unasked() *Graded {
	return &Graded{By: s.By, Upstream: s.Upstream, Model: s.Model, Reason: RerankDisabled}
}

// of returns the grade of a score.
func (s *GradeSettings) of(score float64) Grade {
	switch {
	case score >= s.Relevant:
		return GradeRelevant
	case score >= s.Irrelevant:
		return GradeAmbiguous
	}
	return GradeIrrelevant
}

// A Grading grades the sources of a search.
type Grading struct {
	GradeSettings
	Grader Reranker // of GradeByModel; nil: not asked
}

// StageGrade is the grading of sources.
const StageGrade Stage = "grade"

// Graded reports the grading of a search.
type Graded struct {
	By        GradeBy       `json:"by"`
	Upstream  string        `json:"upstream,omitempty"`
	Model     string        `json:"model,omitempty"`
	Documents int           `json:"documents"`         // sent to a model; 0 if none was asked
	Reason    RerankReason  `json:"reason"`            // with all but RerankOK all sources are kept
	Verdict   Grade         `json:"verdict,omitempty"` // of all sources together
	Cached    bool          `json:"kept,omitempty"`    // cached scores, see CachedReranker
	Rounds    int           `json:"rounds,omitempty"`  // 2 if the verdict led to a second search
	Took      time.Duration `json:"-"`
}

// Failed returns why the policy's grading failed; "" if it did not, or if the Reranker failed.
func (g *Graded) Failed() RerankReason {
	if g == nil || g.Documents == 0 || g.Reason == RerankOK {
		return ""
	}
	return g.Reason
}

// byRerank reports whether rerank scores are needed even if there is nothing to order.
func (g *Grading) byRerank() bool { return g != nil && g.By == GradeByRerank }

// grade grades the sources of res, which must not be shared yet, and removes the irrelevant ones
// unless the verdict is ambiguous. Without scores all sources stay.
func (q *Query) grade(ctx context.Context, res *Result) {
	g := q.Grading
	if g == nil {
		return
	}
	if res.Graded = g.unasked(); len(res.Sources) == 0 {
		return
	}
	if g.By == GradeByRerank {
		res.Graded.Reason = res.Reranked.reason()
	} else {
		g.ask(ctx, q.rerankQuery(), res)
	}
	if res.Graded.Reason != RerankOK {
		return
	}
	for i := range res.Sources {
		src := &res.Sources[i]
		src.Grade = GradeAmbiguous // also if it is ranked after the reranked ones
		if score := cmp.Or(src.GradeScore, src.RerankScore); score != nil {
			src.Grade = g.of(*score)
		}
	}
	if res.Graded.Verdict = verdict(res); res.Graded.Verdict != GradeAmbiguous {
		g.drop(res)
	}
}

// ask requests scores for all sources from the Grader.
func (g *Grading) ask(ctx context.Context, query string, res *Result) {
	documents := make([]string, len(res.Sources))
	for i := range res.Sources {
		documents[i] = document(&res.Sources[i])
	}
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	start := time.Now()
	scores, err := askScores(ctx, g.Grader, query, documents)
	done := res.Graded
	done.Documents, done.Reason, done.Took = len(documents), rerankReason(err), time.Since(start)
	done.Cached = err == nil && fromCache(g.Grader)
	for i := range scores {
		res.Sources[i].GradeScore = &scores[i]
	}
}

// drop removes irrelevant sources. They precede the excluded candidates, which ranked lower.
func (g *Grading) drop(res *Result) {
	excluded, kept := []Excluded(nil), res.Sources[:0]
	for _, src := range res.Sources {
		if src.Grade != GradeIrrelevant {
			kept = append(kept, src)
			continue
		}
		excluded = append(excluded, Excluded{
			Knowledge: src.Knowledge, Doc: src.Doc, Chunk: src.Chunk, Name: src.Name, Section: src.Section,
			Score: src.Score, Relevance: src.Relevance, Arm: src.Arm, ByArm: src.ByArm, RerankScore: src.RerankScore, GradeScore: src.GradeScore, At: src.At,
			Reason: ExcludedGrade, Detail: "irrelevant: " + shortOf(*cmp.Or(src.GradeScore, src.RerankScore), g.Irrelevant),
		})
	}
	clear(res.Sources[len(kept):])
	if res.Sources = kept; len(excluded) > 0 {
		res.Excluded = NewExcludedList(append(excluded, res.Excluded.List()...))
	}
}

// verdict returns the grade of all sources together.
func verdict(res *Result) Grade {
	has := func(g Grade) bool {
		return slices.ContainsFunc(res.Sources, func(src Source) bool { return src.Grade == g })
	}
	dropped := res.Excluded.Count(ExcludedGrade) > 0
	switch {
	case has(GradeRelevant):
		return GradeRelevant
	case has(GradeAmbiguous):
		return GradeAmbiguous
	case has(GradeIrrelevant) || dropped:
		return GradeIrrelevant
	}
	return GradeNone
}

// graded returns the report of grading res, rebuilt from the sources if res came from a cache.
func (g *Grading) graded(res *Result) *Graded {
	if g == nil || res.Graded != nil {
		return res.Graded
	}
	done := g.unasked()
	if done.Verdict = verdict(res); done.Verdict != GradeNone {
		done.Reason = RerankOK
	}
	return done
}
