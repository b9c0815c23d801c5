package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sidenote/retrieval/tracing"
)

// Longer texts are cut to these lengths for a Reranker.
const (
	maxRerankQuery    = 2 << 10 // bytes
	maxRerankDocument = 4 << 10
)

// RerankSettings are the part of a policy that reranking reads. The zero value disables reranking.
type RerankSettings struct {
	Upstream  string        // name of the upstream to ask
	Address   string        // of Upstream; part of the key, since another address may score differently
	Model     string        // model that scores; "": the only one of Upstream
	Dialect   string        // API dialect of Upstream
	Documents int           // maximum number of candidates to score; 0: no reranking
	Threshold float64       // minimum rerank score, replacing the thresholds of bases; 0: those apply
	Timeout   time.Duration // for the scores
}

// SkippedReport returns the report for a search in which the Reranker was not asked: the order is
// that of a cached answer, or there was nothing to order. It returns nil if reranking is disabled.
func (s RerankSettings) SkippedReport(kept bool) *Reranked {
	if s.Documents == 0 {
		return nil
	}
	r := &Reranked{Upstream: s.Upstream, Model: s.Model, Reason: RerankDisabled}
	if kept {
		r.Reason = RerankOK
	}
	return r
}

// A Reranker scores the relevance of documents to a query; higher is better, usually between 0 and
// 1. It returns one finite score for each document, in their order. Its error wraps ErrNotAsked if
// no service was asked, and ErrBadScores if the answer is not such a list. It returns by ctx's
// deadline and is safe for concurrent use.
type Reranker interface {
	Rerank(ctx context.Context, query string, documents []string) ([]float64, error)
}

// A CachedReranker is a Reranker that reports whether its last scores came from a cache or were
// shared with a concurrent request.
type CachedReranker interface{ FromCache() bool }

// fromCache reports whether a Reranker's last scores were cached or shared.
func fromCache(r Reranker) bool {
	k, ok := r.(CachedReranker)
	return ok && k.FromCache()
}

// ErrBadScores says that a service's answer does not score each document exactly once.
var ErrBadScores = errors.New("the answer does not score each document once")

// A Reranking asks a Reranker after a search.
type Reranking struct {
	RerankSettings
	Reranker Reranker // nil: not asked
}

// RerankReason is the outcome of reranking. It is a closed list and a metric label.
type RerankReason string

// The outcomes. With all but RerankOK the order is that of the search.
const (
	RerankDisabled RerankReason = "disabled" // not asked: nothing to order, or a budget is spent
	RerankTimeout  RerankReason = "timeout"
	RerankError    RerankReason = "error"   // the service failed, or its circuit breaker is open
	RerankInvalid  RerankReason = "invalid" // the answer does not score each document once
	RerankOK       RerankReason = "ok"
)

// StageRerank is the ordering of candidates by a Reranker.
const StageRerank Stage = "rerank"

// Reranked reports the reranking of a search.
type Reranked struct {
	Upstream  string        `json:"upstream"`
	Model     string        `json:"model,omitempty"`
	Documents int           `json:"documents"` // sent to the Reranker; 0 if it was not asked
	Reason    RerankReason  `json:"reason"`
	Cached    bool          `json:"kept,omitempty"` // cached scores, see CachedReranker
	Took      time.Duration `json:"-"`
}

// Failed returns why the policy's reranking failed; "" if it did not. An answer without it is
// never cached.
func (r *Reranked) Failed() RerankReason {
	if r == nil || r.Documents == 0 || r.Reason == RerankOK {
		return ""
	}
	return r.Reason
}

// reason returns Reason, or RerankDisabled if nothing was reranked.
func (r *Reranked) reason() RerankReason {
	if r == nil {
		return RerankDisabled
	}
	return r.Reason
}

// rerank moves the best of the ranked candidates to the front, in the order of a Reranker's
// scores. Without scores the order stays. An error is an *unreadableAnswer.
func (s *selection) rerank(ctx context.Context, answers []answer) (*Reranked, error) {
	by := s.reranking
	if by == nil {
		return nil, nil
	}
	var judged []int // indices into ranked
	for i := range s.ranked {
		if len(judged) < by.Documents && (by.Threshold > 0 || s.ranked[i].passes()) {
			judged = append(judged, i)
		}
	}
	done := by.SkippedReport(false)
	if len(judged) == 0 || len(judged) == 1 && by.Threshold == 0 && !s.graded { // nothing to order
		return done, nil
	}
	documents, err := s.documents(answers, judged)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	scores, err := askScores(ctx, StageRerank, by.Reranker, s.query, documents)
	done.Documents, done.Reason, done.Took = len(documents), rerankReason(err), time.Since(start)
	if err != nil {
		return done, nil
	}
	done.Cached = fromCache(by.Reranker)
	for n, i := range judged {
		c := s.ranked[i]
		if c.judged, c.score = true, scores[n]; by.Threshold > 0 {
			c.threshold = math.Inf(-1)
		}
	}
	slices.SortStableFunc(s.ranked, func(a, b *candidate) int {
		switch {
		case a.judged && b.judged:
			return cmp.Compare(b.score, a.score)
		case a.judged:
			return -1
		case b.judged:
			return 1
		}
		return 0
	})
	return done, nil
}

// documents returns the texts that a Reranker reads of some of the ranked candidates.
func (s *selection) documents(answers []answer, of []int) ([]string, error) {
	whole := make([]Source, len(of))
	for n, i := range of {
		whole[n] = s.ranked[i].result()
	}
	for from := range answers {
		var read []*Source
		for n, i := range of {
			if c := s.ranked[i]; c.from == from && c.hit != nil {
				read = append(read, &whole[n])
			}
		}
		if len(read) == 0 {
			continue
		}
		if err := answers[from].res.Texts.Read(read); err != nil {
			return nil, unreadable(from, err)
		}
	}
	documents := make([]string, len(of))
	for n := range whole {
		documents[n] = document(&whole[n])
	}
	return documents, nil
}

// document returns what a Reranker reads of a source: name, section and text.
func document(src *Source) string {
	lines := slices.DeleteFunc([]string{src.Name, src.Section, src.Text}, func(line string) bool { return line == "" })
	return beginning(strings.Join(lines, "\n"), maxRerankDocument)
}

// askScores calls a Reranker for a stage and checks its scores. A panic becomes an error.
func askScores(ctx context.Context, stage Stage, by Reranker, query string, documents []string) (scores []float64, err error) {
	if by == nil {
		return nil, ErrNotAsked
	}
	ctx, span := tracing.Start(ctx, string(stage), "")
	defer func() { endSpan(span, string(rerankReason(err)), err) }()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic: %v", broken)
		}
	}()
	if scores, err = by.Rerank(ctx, query, documents); err != nil {
		return nil, err
	}
	bad := func(score float64) bool { return math.IsNaN(score) || math.IsInf(score, 0) }
	if len(scores) != len(documents) || slices.ContainsFunc(scores, bad) {
		return nil, ErrBadScores
	}
	return scores, nil
}

// beyond returns why a candidate is excluded by its rerank score; "" if it is not.
func (r *Reranking) beyond(c *candidate) string {
	if r == nil || r.Threshold == 0 || !c.judged || c.score >= r.Threshold {
		return ""
	}
	return "rerank score " + shortOf(c.score, r.Threshold)
}

// shortOf returns text such as "0.1 < 0.5".
func shortOf(score, least float64) string {
	return strconv.FormatFloat(score, 'g', 3, 64) + " < " + strconv.FormatFloat(least, 'g', 3, 64)
}

// rerankQuery returns the text that a Reranker compares documents with: the earlier turns that
// join the question, oldest first, then the question.
func (q *Query) rerankQuery() string {
	text := beginning(q.Text, maxRerankQuery)
	for _, turn := range q.Previous {
		text = beginning(turn.Text, maxRerankQuery) + "\n" + text
	}
	return text
}

// beginning returns text cut to at most most bytes, at a rune boundary.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func rerankReason(err error) RerankReason {
	switch {
	case err == nil:
		return RerankOK
	case errors.Is(err, ErrNotAsked):
		return RerankDisabled
	case errors.Is(err, ErrBadScores):
		return RerankInvalid
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return RerankTimeout
	}
	return RerankError
}

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
	scores, err := askScores(ctx, StageGrade, g.Grader, query, documents)
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
			Score: src.Score, Relevance: src.Relevance, Strength: src.Strength, Arm: src.Arm, ByArm: src.ByArm, RerankScore: src.RerankScore, GradeScore: src.GradeScore, At: src.At,
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
