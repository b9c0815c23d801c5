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
)

// MaxPlannedBytes is the length of a planned query that is searched with. Of a longer one its
// beginning is.
const MaxPlannedBytes = 512

// PlanSettings are the part of a policy that planning reads. The zero PlanSettings plan nothing.
type PlanSettings struct {
	Upstream   string        // that is asked; "" is the request's own
	Model      string        // that is asked; "" is the request's own
	MaxQueries int           // searched at most, the question itself included; 0: nothing is planned
	Turns      int           // texts that the user said before, which a Planner sees at most
	Timeout    time.Duration // of a plan; searches begin when it has come or time is up
	// Replan plans only where what the question finds is graded ambiguous; it is searched again then.
	Replan bool `json:",omitempty"`
}

// A Question is what a Planner is asked.
type Question struct {
	Text       string   // in NFKC with folded white space
	Earlier    []string // what the user said before, last first
	MaxQueries int      // searched at most, Text included
	MaySkip    bool     // a Plan may say that nothing need be searched
}

// A Plan is what a Planner makes of a Question. A model wrote it, perhaps after somebody else's
// instructions: it is text to search with and nothing else.
type Plan struct {
	Queries []string // beside the question itself, the best first
	Skip    bool     // the question needs no search
	Kept    bool     `json:"-"` // it was made for an earlier request, or for another one that asked the same
}

// A Planner says what to search for. Its error wraps ErrNotAsked where no model was asked, and
// ErrBadPlan where a model answered with something else than a plan. It returns by ctx's
// deadline and is safe for concurrent use.
type Planner interface {
	Plan(ctx context.Context, q Question) (Plan, error)
}

// The errors of Planners, beside those of whom they ask.
var (
	ErrNotAsked = errors.New("nobody was asked")
	ErrBadPlan  = errors.New("the answer is no plan")
)

// PlanReason says what came of planning. It is a closed list and a metric label.
type PlanReason string

// The reasons. With all but PlanOK the question alone is searched.
const (
	PlanDisabled PlanReason = "disabled" // nobody was asked: nothing to search for, or no room in a budget
	PlanTimeout  PlanReason = "timeout"
	PlanError    PlanReason = "error"   // it failed, or is known to
	PlanInvalid  PlanReason = "invalid" // its answer is no plan
	PlanOK       PlanReason = "ok"
)

// Failed tells whether a planner was to help and did not.
func (r PlanReason) Failed() bool { return r == PlanTimeout || r == PlanError || r == PlanInvalid }

// Planned is what came of planning, for the record.
type Planned struct {
	Queries  []string      `json:"retrieval_queries,omitempty"` // that were searched, the question first
	Count    int           `json:"retrieval_query_count"`       // of Queries
	Enabled  bool          `json:"retrieval_query_planner_enabled"`
	Applied  bool          `json:"retrieval_query_planner_applied"` // the plan changed what was searched
	ModelID  string        `json:"retrieval_query_planner_model_id"`
	Fallback PlanReason    `json:"retrieval_query_planner_fallback"`
	Kept     bool          `json:"retrieval_query_planner_kept,omitempty"` // see Plan
	Took     time.Duration `json:"-"`
}

// A Planning asks a Planner before a search.
type Planning struct {
	PlanSettings
	Planner Planner  // nil: nobody is asked
	Earlier []string // what the user said before, last first
	MaySkip bool     // a plan without a search is followed
}

// plan asks for further queries beside text, which has terms; none of them is text, or without
// terms by hasTerms. It takes PlanSettings.Timeout at most.
func (p *Planning) plan(ctx context.Context, text string, hasTerms func(string) bool) (further []string, skip bool, done Planned) {
	start := time.Now()
	plan, err := p.ask(ctx, Question{Text: text, Earlier: p.earlier(), MaxQueries: p.MaxQueries, MaySkip: p.MaySkip})
	done = Planned{Enabled: true, ModelID: p.Model, Fallback: planReason(err), Kept: plan.Kept, Took: time.Since(start)}
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

// ask asks the Planner, whose panic is an error.
func (p *Planning) ask(ctx context.Context, q Question) (plan Plan, err error) {
	if p.Planner == nil {
		return Plan{}, ErrNotAsked
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic: %v", broken)
		}
	}()
	return p.Planner.Plan(ctx, q)
}

// earlier is what a Planner sees of what was said before.
func (p *Planning) earlier() []string {
	var turns []string
	for _, text := range p.Earlier[:min(p.Turns, len(p.Earlier))] {
		turns = append(turns, Fold(text))
	}
	return turns
}

// distinct returns those of planned queries that are searched beside text.
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

// printable has a space for each control character.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
}

// cut returns a planned query, or its beginning up to the end of a word.
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
