package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/retrieval/eval"
)

// A stage holds the measures of the ranking of one search stage.
type evalStage struct {
	Name       string  `json:"stage"`
	NDCG       float64 `json:"ndcg_at_10"`
	RecallNear float64 `json:"recall_at_10"`
	RecallFar  float64 `json:"recall_at_100"`
	MRR        float64 `json:"mrr_at_10"`
}

// tokens are the tokens that an evaluation sends to services.
type evalTokens struct {
	Chunks    int   `json:"embeddings_chunks"`    // of all chunks, approximately; chunks with a stored vector are not sent again
	Questions int64 `json:"embeddings_questions"` // sent
	Planner   int64 `json:"planner"`              // prompts and answers
	Reranker  int64 `json:"rerank,omitempty"`     // likewise, for a chat model
	Grader    int64 `json:"grade,omitempty"`      // likewise
}

// staged reports whether there is more than the lexical stage.
func (e *evaluation) staged() bool { return len(e.Subject.Stages) > 1 }

// policy returns the policy whose stages answer, or "" with a single stage.
func (e *evaluation) policy() string {
	if e.staged() {
		return e.Subject.Policy
	}
	return ""
}

// stages returns the measures of all stages, the last of which is the whole search; nil if there
// is only one.
func (e *evaluation) stages(s eval.Summary) (list []evalStage) {
	if !e.staged() {
		return nil
	}
	for i, m := range append(s.Stages, s.Measures) {
		list = append(list, evalStage{e.Subject.Stages[i], roundedScore(m.NDCG), roundedScore(m.RecallNear), roundedScore(m.RecallFar), roundedScore(m.ReciprocalRank)})
	}
	return list
}

// tokens returns the tokens used, or nil if only words are searched.
func (e *evaluation) tokens() *evalTokens {
	if !e.staged() && e.Subject.grading == nil {
		return nil
	}
	return &evalTokens{Chunks: e.Subject.Tokens, Questions: e.Subject.Used.questions.Load(), Planner: e.Subject.Used.planner.Load(), Reranker: e.Subject.Used.reranker.Load(), Grader: e.Subject.Used.grader.Load()}
}

// printStages prints the contributions and costs of the policy's stages, if there is more than
// one.
func (e *evaluation) printStages(p painter, s eval.Summary) {
	if !e.staged() {
		return
	}
	p.row("tokens", e.tokens().String())
	if len(e.Subject.Weights) > 0 {
		p.row("weight", e.Subject.weights()+p.faint("   of vectors, where words weigh the rest"))
	}
	fmt.Fprintln(p.w)
	p.row("stage", p.faint("nDCG@10  recall@10  recall@100  MRR@10   each alone; the last is what "+terminal.Clean(e.Subject.Policy)+" gets"))
	for _, one := range e.stages(s) {
		p.row(one.Name, fmt.Sprintf("%.3f    %.3f      %.3f       %.3f", one.NDCG, one.RecallNear, one.RecallFar, one.MRR))
	}
}

// weights lists the weights of vectors in the bases.
func (s *evalSubject) weights() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(s.Weights)) {
		part := fmt.Sprintf("%.2f", s.Weights[id])
		if len(s.Weights) > 1 {
			part += " in " + id
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// String formats the tokens for people.
func (t *evalTokens) String() string {
	var parts []string
	add := func(format string, n int) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, terminal.Thousands(n)))
		}
	}
	add("about %s to embed all chunks", t.Chunks)
	add("%s to embed the questions", int(t.Questions))
	add("%s by the planner", int(t.Planner))
	add("%s by the reranker", int(t.Reranker))
	add("%s by the grader", int(t.Grader))
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
