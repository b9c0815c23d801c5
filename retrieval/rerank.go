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
)

// The lengths that a Reranker is given; of longer texts their beginnings are.
const (
	maxRerankQuery    = 2 << 10 // bytes
	maxRerankDocument = 4 << 10
)

// RerankSettings are the part of a policy that reranking reads. The zero RerankSettings rerank
// nothing.
type RerankSettings struct {
	Upstream  string        // that is asked
	Address   string        // of Upstream: what another one of that name scores is not the same
	Model     string        // that scores; "" is the only one that Upstream has
	Dialect   string        // that Upstream speaks
	Documents int           // candidates that are scored at most; 0: nothing is reranked
	Threshold float64       // least score of a Reranker, in place of the thresholds of bases; 0: those hold
	Timeout   time.Duration // of the scores
}

// Unasked is what came of reranking where nobody was asked: the order is that of an answer that
// was kept, or there was nothing to order.
func (s RerankSettings) Unasked(kept bool) *Reranked {
	if s.Documents == 0 {
		return nil
	}
	r := &Reranked{Upstream: s.Upstream, Model: s.Model, Reason: RerankDisabled}
	if kept {
		r.Reason = RerankOK
	}
	return r
}

// A Reranker says how relevant documents are to a query, the higher the more, mostly between 0
// and 1. It returns as many scores as documents, all finite, in their order. Its error wraps
// ErrNotAsked where nobody was asked, and ErrBadScores where the answer is no such list. It
// returns by ctx's deadline and is safe for concurrent use.
type Reranker interface {
	Rerank(ctx context.Context, query string, documents []string) ([]float64, error)
}

// A Keeper is a Reranker that tells whether the scores which it returned last were kept: they are
// of an earlier request, or of another one that asked the same.
type Keeper interface{ Kept() bool }

// kept tells whether a Reranker's last scores were.
func kept(r Reranker) bool {
	k, ok := r.(Keeper)
	return ok && k.Kept()
}

// ErrBadScores is an answer of a Reranker's service that does not score each document once.
var ErrBadScores = errors.New("the answer does not score each document once")

// A Reranking asks a Reranker after a search.
type Reranking struct {
	RerankSettings
	Reranker Reranker // nil: nobody is asked
}

// RerankReason says what came of reranking. It is a closed list and a metric label.
type RerankReason string

// The reasons. With all but RerankOK the order is that of the search.
const (
	RerankDisabled RerankReason = "disabled" // nobody was asked: nothing to order, or no room in a budget
	RerankTimeout  RerankReason = "timeout"
	RerankError    RerankReason = "error"   // it failed, or is known to
	RerankInvalid  RerankReason = "invalid" // its answer does not score each document once
	RerankOK       RerankReason = "ok"
)

// StageRerank is a Stage: the order of what was found by a Reranker.
const StageRerank Stage = "rerank"

// Reranked is what came of reranking, for the record.
type Reranked struct {
	Upstream  string        `json:"upstream"`
	Model     string        `json:"model,omitempty"`
	Documents int           `json:"documents"` // that were sent; 0 where nobody was asked
	Reason    RerankReason  `json:"reason"`
	Kept      bool          `json:"kept,omitempty"` // the scores were, see Keeper
	Took      time.Duration `json:"-"`
}

// Failed says why the order that a policy asks for is missing; "" if it is not. What lacks it is
// never kept.
func (r *Reranked) Failed() RerankReason {
	if r == nil || r.Documents == 0 || r.Reason == RerankOK {
		return ""
	}
	return r.Reason
}

// reason is RerankDisabled where nothing is reranked.
func (r *Reranked) reason() RerankReason {
	if r == nil {
		return RerankDisabled
	}
	return r.Reason
}

// rerank puts the best of the ranked candidates into the order of a Reranker's scores, in front of
// the others. Without scores the order stays. An error is an *unreadableAnswer.
func (s *selection) rerank(ctx context.Context, answers []answer) (*Reranked, error) {
	by := s.reranking
	if by == nil {
		return nil, nil
	}
	var judged []int // of ranked
	for i := range s.ranked {
		if len(judged) < by.Documents && (by.Threshold > 0 || s.ranked[i].passes()) {
			judged = append(judged, i)
		}
	}
	done := by.Unasked(false)
	if len(judged) == 0 || len(judged) == 1 && by.Threshold == 0 && !s.graded { // there is nothing to order
		return done, nil
	}
	documents, err := s.documents(answers, judged)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	scores, err := askScores(ctx, by.Reranker, s.query, documents)
	done.Documents, done.Reason, done.Took = len(documents), rerankReason(err), time.Since(start)
	if err != nil {
		return done, nil
	}
	done.Kept = kept(by.Reranker)
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

// documents returns what a Reranker reads of some of the ranked candidates.
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

// document is what a Reranker reads of a source: name, section and text.
func document(src *Source) string {
	lines := slices.DeleteFunc([]string{src.Name, src.Section, src.Text}, func(line string) bool { return line == "" })
	return beginning(strings.Join(lines, "\n"), maxRerankDocument)
}

// askScores asks a Reranker, whose panic is an error, and whose scores are one for each document.
func askScores(ctx context.Context, by Reranker, query string, documents []string) (scores []float64, err error) {
	if by == nil {
		return nil, ErrNotAsked
	}
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

// beyond says why a candidate falls by its score; "" if it does not.
func (r *Reranking) beyond(c *candidate) string {
	if r == nil || r.Threshold == 0 || !c.judged || c.score >= r.Threshold {
		return ""
	}
	return "rerank score " + shortOf(c.score, r.Threshold)
}

// shortOf writes "0.1 < 0.5".
func shortOf(score, least float64) string {
	return strconv.FormatFloat(score, 'g', 3, 64) + " < " + strconv.FormatFloat(least, 'g', 3, 64)
}

// rerankQuery is what a Reranker compares documents with: the question behind the turns that join
// it, as they were said.
func (q *Query) rerankQuery() string {
	text := beginning(q.Text, maxRerankQuery)
	for _, turn := range q.Previous {
		text = beginning(turn.Text, maxRerankQuery) + "\n" + text
	}
	return text
}

// beginning returns a text, or so many bytes of it at most.
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
