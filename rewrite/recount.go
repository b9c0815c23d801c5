package rewrite

import (
	"fmt"

	"sidenote/rewrite/chat"
)

// Count returns the tokens billed for the unmodified request, plus a reserve for errors of the
// formulas.
func (rw *Rewriter) Count(p Policy, req *chat.Request) int {
	p.CountWhole = true
	j := rw.begin(&p, req)
	defer rw.release(j)
	j.measureWindow()
	return j.window.Request
}

// recount counts the whole request before and after the rewrite, and returns an error unless the
// difference is what the ledger says. It verifies that the sums of partial counts equal the
// counts of the whole. It runs in tests and in builds with the tag sidenote_debug.
func (rw *Rewriter) recount(j *job, res *Result) error {
	if res.Outcome != Injected || res.Ledger.Exactness == Bound {
		return nil
	}
	came, err := j.req.API.Parse(ApplyEdits(nil, j.req.Body, StripEdits(j.req, j.policy.Placement)))
	if err != nil && (came == nil || !came.Empty) { // the request may consist of components and sources only
		return fmt.Errorf("request without what was removed: %w", err)
	}
	goes, err := j.req.API.Parse(ApplyEdits(nil, j.req.Body, res.Edits))
	if err != nil {
		return fmt.Errorf("rewritten request: %w", err)
	}
	count := func(r *chat.Request) int { return rw.costs.Count(r, j.model.Counting(), 0).Sum() }
	if grown := j.model.Billed(count(goes) - count(came)); grown != res.Ledger.Grown() && (res.Ledger.Repeated == nil || grown != res.Ledger.Grown()-1) { // two amounts are rounded up
		return fmt.Errorf("the request grew by %d tokens, the ledger says %d", grown, res.Ledger.Grown())
	}
	return nil
}
