package rewrite

import "fmt"

// recount counts the whole request before and after the rewrite, and returns an error
// unless the difference is what the ledger says. It proves that the sums of partial
// counts are the counts of the whole. It runs in tests and in builds with the tag
// sidenote_debug.
func (rw *Rewriter) recount(j *job, res *Result) error {
	if res.Outcome != Injected || res.Ledger.Exactness == Bound {
		return nil
	}
	came, err := Parse(Apply(nil, j.req.Body, j.req.StripEdits(j.policy)))
	if err != nil {
		return fmt.Errorf("request without what was removed: %w", err)
	}
	goes, err := Parse(Apply(nil, j.req.Body, res.Edits))
	if err != nil {
		return fmt.Errorf("rewritten request: %w", err)
	}
	w := rw.costs.weigher(&j.model)
	if grown := j.model.billed(w.cost(goes).sum() - w.cost(came).sum()); grown != res.Ledger.Used {
		return fmt.Errorf("the request grew by %d tokens, the ledger says %d", grown, res.Ledger.Used)
	}
	return nil
}
