package inspector

import (
	"cmp"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// roomOfRows limits the bytes of the page for the compared sources.
const roomOfRows = 100 << 10

// A comparison shows a request as it was and its dry run.
type comparison struct {
	Before, After  *side
	Figures        []figure
	Rows           []sideRow
	More           int      // sources that are not shown
	Changed        []string // bases that have changed since
	HelpersSkipped bool     // the policy has helpers that were skipped
}

// A figure is one compared fact.
type figure struct {
	difference
	Change string // in words or as a signed number; "" if there is none
}

// A side is one of the two requests.
type side struct {
	Outcome                     rewrite.Outcome
	Reason                      rewrite.Reason
	Line                        string // Sidenote-Status
	Policy, Hash                string
	Mode                        string
	Budget                      *bar
	Ledger                      *explain.Ledger // nil if no rewrite was tried
	Sources                     int             // in the prompt
	Tools, Stages               []string        // tools offered to its model, or stages
	ToolsSkipped, StagesSkipped string          // why there are no tools or stages though the policy has them
	Answer                      string          // fixed answer instead of a model's
}

func comparisonOf(e *explain.Explanation, now *explain.DryRunResult) *comparison {
	before := &side{Outcome: e.Outcome, Reason: e.Reason, Line: e.Line, Policy: e.Policy, Hash: e.PolicyHash, Mode: e.Mode, ToolsSkipped: e.ToolsSkipped, StagesSkipped: e.StagesSkipped, Ledger: e.Ledger}
	after := &side{
		Outcome: now.Outcome, Reason: now.Reason, Line: string(report.AppendStatus(nil, &now.Report)), Policy: now.Policy, Hash: now.PolicyHash, Mode: now.Rules.Mode.String(),
		ToolsSkipped: now.ToolsSkipped, StagesSkipped: now.StagesSkipped, Tools: now.Tools, Ledger: &explain.Ledger{Ledger: now.Rewrite.Ledger.WithExcluded()},
	}
	for _, stage := range now.Stages {
		after.Stages = append(after.Stages, stage.Name)
	}
	if now.Outcome == rewrite.Answered {
		after.Answer = now.Rules.EmptyAnswer
	}
	c := &comparison{Before: before, After: after, HelpersSkipped: now.HelpersSkipped, Changed: changedBases(e, now)}
	r := room(roomOfRows)
	for _, row := range alignRows(before.count(), after.count()) {
		if c.More == 0 && r.take(sizeOf(&row)) {
			c.Rows = append(c.Rows, row)
		} else {
			c.More++
		}
	}
	c.Figures = figures(before, after)
	return c
}

// sizeOf returns the maximum bytes of a row in the page.
func sizeOf(row *sideRow) int {
	s := row.Source()
	n := 2*sourceMarkup + 3*min(len(s.Doc), maxShown) + pageSize(cut(s.Doc, "").Text) + pageSize(cut(s.Knowledge, "").Text)
	for _, e := range [...]*rewrite.SourceEntry{row.Before, row.After} {
		if e != nil {
			n += pageSize(cut(e.Detail, "").Text)
		}
	}
	return n
}

// count sets the figures from the ledger, and returns its sources.
func (s *side) count() []rewrite.SourceEntry {
	if s.Ledger == nil {
		return nil
	}
	sources := inPromptOrder(s.Ledger.Sources)
	for n := range sources {
		if sources[n].ID > 0 {
			s.Sources++
		}
	}
	s.Budget = budgetBar(s.Ledger, sources)
	return sources
}

// figures compares facts that fit in a word or number.
func figures(before, after *side) (list []figure) {
	text := func(key, a, b string) {
		f := figure{difference: difference{key, a, b}}
		if a != b {
			f.Change = "other"
		}
		list = append(list, f)
	}
	number := func(key string, a, b int) {
		f := figure{difference: difference{key, count(a), count(b)}}
		switch {
		case a < b:
			f.Change = "+" + count(b-a)
		case a > b:
			f.Change = "−" + count(a-b)
		}
		list = append(list, f)
	}
	text("Outcome", string(before.Outcome), string(after.Outcome))
	text("Reason", string(before.Reason), string(after.Reason))
	text("Policy", before.Policy+" "+before.Hash, after.Policy+" "+after.Hash)
	text("Mode", before.Mode, after.Mode)
	number("Sources in the prompt", before.Sources, after.Sources)
	var none explain.Ledger
	a, b := cmp.Or(before.Ledger, &none), after.Ledger
	number("Tokens added", a.Used, b.Used)
	number("Budget", a.Budget, b.Budget)
	number("Tokens wanted beyond it", a.Overflow, b.Overflow)
	number("Rules", a.Rules, b.Rules)
	number("Tags", a.Tags, b.Tags)
	number("Text", a.Text, b.Text)
	return list
}

// changedBases returns the bases whose generation has changed since the request.
func changedBases(e *explain.Explanation, now *explain.DryRunResult) (changed []string) {
	was := map[string]string{}
	for _, base := range e.Knowledge {
		was[base.ID] = base.Generation
	}
	for _, base := range now.Rewrite.Retrieval.Bases {
		if generation, ok := was[base.Knowledge]; ok && generation != base.Generation {
			changed = append(changed, base.Knowledge)
		}
	}
	return changed
}
