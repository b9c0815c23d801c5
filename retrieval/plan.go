package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"sidenote/retrieval/tracing"
)

// MaxPlannedBytes is the maximum length of a planned query. Longer ones are cut.
const MaxPlannedBytes = 512

// PlanSettings are the part of a policy that planning reads. The zero value disables planning.
type PlanSettings struct {
	Upstream   string        // to ask; "": the request's own
	Model      string        // to ask; "": the request's own
	MaxQueries int           // maximum number of queries, the question included; 0: no planning
	Turns      int           // maximum number of earlier user turns that a Planner sees
	Timeout    time.Duration // for the plan; searches wait until it has arrived or timed out
	// Replan plans only if the first search is graded ambiguous, and then searches again.
	Replan bool `json:",omitempty"`
}

// A Question is the input of a Planner.
type Question struct {
	Text       string   // in NFKC with folded white space
	Earlier    []string // earlier user turns, last first
	MaxQueries int      // maximum number of queries, Text included
	MaySkip    bool     // the Plan may say that no search is needed
}

// A Plan is the output of a Planner. A model wrote it, perhaps influenced by a prompt injection:
// it is used only as text to search for.
type Plan struct {
	Queries []string // in addition to the question, best first
	Skip    bool     // no search is needed
	Cached  bool     `json:"-"` // cached, or shared with a concurrent request
}

// A Planner decides what to search for. Its error wraps ErrNotAsked if no model was asked, and
// ErrBadPlan if the model's answer is not a plan. It returns by ctx's deadline and is safe for
// concurrent use.
type Planner interface {
	Plan(ctx context.Context, q Question) (Plan, error)
}

// The errors of Planners, besides those of their services.
var (
	ErrNotAsked = errors.New("no model was asked")
	ErrBadPlan  = errors.New("the model's answer is not a plan")
)

// PlanReason is the outcome of planning. It is a closed list and a metric label.
type PlanReason string

// The outcomes. With all but PlanOK only the question is searched.
const (
	PlanDisabled PlanReason = "disabled" // not asked: nothing to search for, or a budget is spent
	PlanTimeout  PlanReason = "timeout"
	PlanError    PlanReason = "error"   // the planner failed, or its circuit breaker is open
	PlanInvalid  PlanReason = "invalid" // the answer is not a plan
	PlanOK       PlanReason = "ok"
)

// Failed reports whether planning was attempted and failed.
func (r PlanReason) Failed() bool { return r == PlanTimeout || r == PlanError || r == PlanInvalid }

// Planned reports the planning of a search.
type Planned struct {
	Queries  []string      `json:"retrieval_queries,omitempty"` // searched queries, the question first
	Count    int           `json:"retrieval_query_count"`       // of Queries
	Enabled  bool          `json:"retrieval_query_planner_enabled"`
	Applied  bool          `json:"retrieval_query_planner_applied"` // the plan changed what was searched
	ModelID  string        `json:"retrieval_query_planner_model_id"`
	Fallback PlanReason    `json:"retrieval_query_planner_fallback"`
	Cached   bool          `json:"retrieval_query_planner_kept,omitempty"` // see Plan
	Took     time.Duration `json:"-"`
}

// A Planning runs a Planner before a search.
type Planning struct {
	PlanSettings
	Planner Planner  // nil: not asked
	Earlier []string // earlier user turns, last first
	MaySkip bool     // a plan that skips the search is followed
}

// plan returns further queries to search beside text; each differs from text and has terms
// according to hasTerms. It takes at most PlanSettings.Timeout.
func (p *Planning) plan(ctx context.Context, text string, hasTerms func(string) bool) (further []string, skip bool, done Planned) {
	start := time.Now()
	plan, err := p.ask(ctx, Question{Text: text, Earlier: p.earlier(), MaxQueries: p.MaxQueries, MaySkip: p.MaySkip})
	done = Planned{Enabled: true, ModelID: p.Model, Fallback: planReason(err), Cached: plan.Cached, Took: time.Since(start)}
	if skip = plan.Skip && p.MaySkip; skip && err == nil {
		done.Applied = true
		return nil, true, done
	}
	if err == nil {
		further = p.distinct(text, plan.Queries, hasTerms)
	}
	done.Queries = append([]string{text}, further...)
	done.Count, done.Applied = len(done.Queries), len(further) > 0
	return further, false, done
}

// ask calls the Planner. A panic becomes an error.
func (p *Planning) ask(ctx context.Context, q Question) (plan Plan, err error) {
	if p.Planner == nil {
		return Plan{}, ErrNotAsked
	}
	ctx, span := tracing.Start(ctx, "plan", "")
	defer func() { endSpan(span, string(planReason(err)), err) }()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic: %v", broken)
		}
	}()
	return p.Planner.Plan(ctx, q)
}

// endSpan ends the span of a stage of the search with its outcome.
func endSpan(span trace.Span, outcome string, err error) {
	if span.IsRecording() && err != nil {
		tracing.Fail(span, outcome)
	}
	span.End()
}

// earlier returns the earlier turns that a Planner sees.
func (p *Planning) earlier() []string {
	var turns []string
	for _, text := range p.Earlier[:min(p.Turns, len(p.Earlier))] {
		turns = append(turns, Fold(text))
	}
	return turns
}

// distinct returns the planned queries to search beside text.
func (p *Planning) distinct(text string, planned []string, hasTerms func(string) bool) (further []string) {
	seen := []string{strings.ToLower(text)}
	for _, query := range planned {
		query = cut(Fold(printable(query)))
		lower := strings.ToLower(query)
		if len(seen) < p.MaxQueries && !slices.Contains(seen, lower) && hasTerms(query) {
			seen, further = append(seen, lower), append(further, query)
		}
	}
	return further
}

// printable replaces each control character by a space.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
}

// cut shortens a planned query to MaxPlannedBytes, at the end of a word.
func cut(query string) string {
	if len(query) <= MaxPlannedBytes {
		return query
	}
	end := MaxPlannedBytes
	for !utf8.RuneStart(query[end]) {
		end--
	}
	if space := strings.LastIndexByte(query[:end], ' '); space > 0 {
		end = space
	}
	return query[:end]
}

func planReason(err error) PlanReason {
	switch {
	case err == nil:
		return PlanOK
	case errors.Is(err, ErrNotAsked):
		return PlanDisabled
	case errors.Is(err, ErrBadPlan):
		return PlanInvalid
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return PlanTimeout
	}
	return PlanError
}
