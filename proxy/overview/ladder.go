package overview

import (
	"sidenote/proxy/meter"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// rungs are those that are counted: by which requests fit their tenant's limits, and the end of
// each ladder.
var rungs = [...]meter.Rung{meter.NoStages, meter.FewerSources, meter.ShorterSources, meter.NoPlanner, meter.NoSources, meter.Refuse}

// A Rung is how many requests were answered on a rung of their tenant's ladder, or refused by its
// limits.
type Rung struct {
	Rung     meter.Rung `json:"rung"`
	Requests int        `json:"requests"`
}

// A ladder counts requests by rungs.
type ladder [len(rungs)]uint32

func (l *ladder) count(r *report.Report) {
	on := meter.Rung(r.Budget.Rung)
	if r.Outcome == rewrite.Refused && (r.Reason == report.ReasonRateLimit || r.Reason == report.ReasonQuota) {
		on = meter.Refuse
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

func (l *ladder) view() (list []Rung) {
	for i, n := range l {
		list = append(list, Rung{rungs[i], int(n)})
	}
	return list
}
