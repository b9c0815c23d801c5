package inspector

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/audit"
	"sidenote/proxy/gaps"
)

const gapsPath = "/gaps"

// Gaps finds what the knowledge bases lack in the questions that were recorded.
type Gaps interface {
	// Recorded reports whether questions are recorded.
	Recorded() bool
	// Gaps looks at the questions of the last days.
	Gaps(ctx context.Context, days int) (*gaps.Report, error)
}

const (
	gapsWait   = 30 * time.Second // for a report
	maxGroups  = 100              // of the page
	gapsOfWeek = 7                // days that are looked at if none are chosen
)

// gapDays lists the periods to choose from, in days.
func gapDays() []int { return []int{1, gapsOfWeek, 30} }

// A gapsView is the data of gaps.html.
type gapsView struct {
	*gaps.Report       // nil: nothing is recorded
	Days         int   // that were looked at
	Choices      []int // of them
	Shown        []gapGroup
}

// A gapGroup is a group with its signs in order.
type gapGroup struct {
	gaps.Group
	Signs   []gapSign
	Address string // URL of the nearest document; "" if there is none
}

// A gapSign is how many questions of a group lack the same.
type gapSign struct {
	Count int
	Text  string
}

// gapsOf returns the report that a visitor asks for; nil if nothing is recorded. As records are
// encrypted, it needs a token.
func gapsOf(i *Inspector, v *visit) (report *gaps.Report, days int, err error) {
	days, err = strconv.Atoi(string(v.QueryArgs().Peek("days")))
	if err != nil || !slices.Contains(gapDays(), days) {
		days = gapsOfWeek
	}
	if i.data.Gaps == nil || !i.data.Gaps.Recorded() {
		return nil, days, nil
	}
	if v.by == "" && v.in == nil {
		return nil, days, errNoToken
	}
	ctx, cancel := context.WithTimeout(context.Background(), gapsWait)
	defer cancel()
	report, err = i.data.Gaps.Gaps(ctx, days)
	if report != nil {
		i.record(v, audit.Event{Action: audit.Explain, Object: "recorded questions", Result: audit.OK})
	}
	if ctx.Err() != nil {
		return nil, days, &problem{fasthttp.StatusServiceUnavailable, "There are too many recorded questions for a page; sidenote gaps has no time limit."}
	}
	return report, days, err
}

func gapsPage(i *Inspector, v *visit) (any, error) {
	report, days, err := gapsOf(i, v)
	if err != nil {
		return nil, err
	}
	view := gapsView{Report: report, Days: days, Choices: gapDays()}
	if report == nil {
		return view, nil
	}
	for _, g := range report.Groups[:min(len(report.Groups), maxGroups)] {
		one := gapGroup{Group: g}
		for _, k := range gaps.Kinds() {
			if n := g.Kinds[k]; n > 0 {
				one.Signs = append(one.Signs, gapSign{n, k.String()})
			}
		}
		if d := g.Nearest; d != nil {
			one.Address = documentAddress(d.Knowledge, d.ID, d.Chunk)
		}
		view.Shown = append(view.Shown, one)
	}
	return view, nil
}

// gapsJSON answers with the report.
func gapsJSON(i *Inspector, v *visit) error {
	report, _, err := gapsOf(i, v)
	switch {
	case err != nil:
		return err
	case report == nil:
		return &problem{fasthttp.StatusNotFound, "No policy records questions."}
	}
	return answerJSON(v, report)
}
