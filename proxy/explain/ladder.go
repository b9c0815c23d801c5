package explain

import (
	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// rungs are the rungs that are counted: the steps that made requests fit their tenant's limits,
// and refusal as the last one.
var rungs = [...]budget.Rung{budget.NoStages, budget.FewerSources, budget.ShorterSources, budget.NoPlanner, budget.NoSources, budget.RefuseRung}

// A RungCount is the number of requests that were reduced on a rung of their tenant's ladder, or
// refused by its limits.
type RungCount struct {
	Rung     budget.Rung `json:"rung"`
	Requests int         `json:"requests"`
}

// A ladder counts requests by rung.
type ladder [len(rungs)]uint32

func (l *ladder) count(r *report.Report) {
	on := budget.Rung(r.Budget.Rung)
	if r.Outcome == rewrite.Refused && (r.Reason == report.ReasonRateLimit || r.Reason == report.ReasonQuota) {
		on = budget.RefuseRung
	}
	for i := range rungs {
		if rungs[i] == on {
			l[i]++
		}
	}
}

func (l *ladder) add(other *ladder) {
	for i, n := range other {
		l[i] += n
	}
}

func (l *ladder) view() (list []RungCount) {
	for i, n := range l {
		list = append(list, RungCount{rungs[i], int(n)})
	}
	return list
}
