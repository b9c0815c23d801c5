package retrieval

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// A Grade says how relevant a source is to the question, or those of a search together
// (corrective RAG: Yan, Gu, Zhu and Ling, 2024, arXiv 2401.15884). It is a closed list and a
// metric label.
type Grade string

// The grades. One relevant source makes a search relevant; it is irrelevant where all sources are,
// and else ambiguous.
const (
	GradeNone       Grade = "" // not graded
	GradeRelevant   Grade = "relevant"
	GradeAmbiguous  Grade = "ambiguous"
	GradeIrrelevant Grade = "irrelevant"
)

// A GradeBy says whose scores grade.
type GradeBy string

// Those that grade.
const (
	GradeByNobody GradeBy = ""
	GradeByRerank GradeBy = "rerank" // the scores of a query's Reranking
	GradeByModel  GradeBy = "llm"    // those of a Grader
)

// GradeSettings are the part of a policy that grading reads. The zero GradeSettings grade nothing.
type GradeSettings struct {
	By         GradeBy
	Upstream   string        // of a model: that is asked
	Address    string        // likewise: of Upstream
	Model      string        // likewise
	Relevant   float64       // least score of a relevant source
	Irrelevant float64       // least score of an ambiguous one
	Timeout    time.Duration // of a model's scores
}

// Unasked is what came of grading where nothing was searched; nil where nothing is graded.
func (s GradeSettings) Unasked() *Graded {
	if s.By == GradeByNobody {
		return nil
	}
	return s.unasked()
}

func (s *GradeSettings) unasked() *Graded {
	return &Graded{By: s.By, Upstream: s.Upstream, Model: s.Model, Reason: RerankDisabled}
}

// of is the grade of a score.
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
	Grader Reranker // of GradeByModel; nil: nobody is asked
}

// StageGrade is a Stage: the grades of what was found.
const StageGrade Stage = "grade"

// Graded is what came of grading, for the record.
type Graded struct {
	By        GradeBy       `json:"by"`
	Upstream  string        `json:"upstream,omitempty"`
	Model     string        `json:"model,omitempty"`
	Documents int           `json:"documents"`         // that a model was sent; 0 where none was asked
	Reason    RerankReason  `json:"reason"`            // with all but RerankOK the sources stay
	Verdict   Grade         `json:"verdict,omitempty"` // on all sources together
	Kept      bool          `json:"kept,omitempty"`    // the scores were, see Keeper
	Rounds    int           `json:"rounds,omitempty"`  // 2 where a plan was searched because of the first verdict
	Took      time.Duration `json:"-"`
}

// Failed says why the grades that a policy asks for are missing; "" if they are not, or if it is
// the Reranker that failed.
func (g *Graded) Failed() RerankReason {
	if g == nil || g.Documents == 0 || g.Reason == RerankOK {
		return ""
	}
	return g.Reason
}

// byRerank tells whether the scores of a Reranker are wanted even where there is nothing to order.
func (g *Grading) byRerank() bool { return g != nil && g.By == GradeByRerank }

// grade grades the sources of a result that nobody else has yet, and takes out the irrelevant ones
// unless the verdict is ambiguous. Without scores all stay.
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
		src.Grade = GradeAmbiguous // also where it comes after those that a Reranker scores
		if score := cmp.Or(src.GradeScore, src.RerankScore); score != nil {
			src.Grade = g.of(*score)
		}
	}
	if res.Graded.Verdict = verdict(res); res.Graded.Verdict != GradeAmbiguous {
		g.drop(res)
	}
}

// ask asks the Grader for the scores of all sources.
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
	done.Kept = err == nil && kept(g.Grader)
	for i := range scores {
		res.Sources[i].GradeScore = &scores[i]
	}
}

// drop takes out irrelevant sources. They were ranked above all that has fallen.
func (g *Grading) drop(res *Result) {
	fallen, kept := []Excluded(nil), res.Sources[:0]
	for _, src := range res.Sources {
		if src.Grade != GradeIrrelevant {
			kept = append(kept, src)
			continue
		}
		fallen = append(fallen, Excluded{
			Knowledge: src.Knowledge, Doc: src.Doc, Chunk: src.Chunk, Name: src.Name, Section: src.Section,
			Score: src.Score, Relevance: src.Relevance, Arm: src.Arm, ByArm: src.ByArm, RerankScore: src.RerankScore, GradeScore: src.GradeScore, At: src.At,
			Reason: ExcludedGrade, Detail: "irrelevant: " + shortOf(*cmp.Or(src.GradeScore, src.RerankScore), g.Irrelevant),
		})
	}
	clear(res.Sources[len(kept):])
	if res.Sources = kept; len(fallen) > 0 {
		res.Fallen = NewExcludedList(append(fallen, res.Fallen.List()...))
	}
}

// verdict is the grade of all sources together.
func verdict(res *Result) Grade {
	has := func(g Grade) bool {
		return slices.ContainsFunc(res.Sources, func(src Source) bool { return src.Grade == g })
	}
	dropped := res.Fallen.Fell(ExcludedGrade) > 0
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

// graded is what came of grading a result, also of one that was kept.
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
