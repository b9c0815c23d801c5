package inspector

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sidenote/proxy/cacheguard"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

const overviewPath = "/overview"

// maxQuestions limits the questions without a match on the page.
const maxQuestions = 40

// maxCaches limits the prompt caches on the page.
const maxCaches = 40

// maxWindows limits the observed windows on the page.
const maxWindows = 40

// An overviewView is the data of overview.html.
type overviewView struct {
	*explain.Overview
	Series    []series // outcomes that occurred, in the order of the Overview
	ByMinute  *chart   // requests
	Latency   *chart   // nil: no request was sent upstream
	Failures  []why
	Others    []why            // why requests were relayed unchanged
	Minutes   []explain.Minute // with requests, newest first
	Questions []question
	Documents []given
	Windows   []window            // of upstreams that truncate prompts
	Caches    []cacheguard.Status // of prompts; those that sources break first
	Kept      bool                // some requests are kept
}

// A window is the observed window of an upstream.
type window struct {
	model.CalibrationKey
	Tokens int
}

// A series is an outcome that occurred.
type series struct {
	Outcome  rewrite.Outcome
	Requests int
	Class    string // CSS class of its colour
	Address  string // URL of its requests; "" if they are not kept
}

// A why is a reason and the URL of its requests.
type why struct {
	Outcome  rewrite.Outcome
	Reason   rewrite.Reason
	Requests int
	Address  string // see series
}

// A given is a document that was used as a source.
type given struct {
	explain.UsedDocument
	Address string // "" if its id was cut
}

// A question is a question without a match, and how often it was asked.
type question struct {
	explain.OpenQuestion     // the latest request
	Times                int // among those that are remembered
	Kept                 bool
}

func overviewPage(i *Inspector, _ *visit) (any, error) {
	v, ring := i.data.Overview(), i.data.Requests
	view := &overviewView{Overview: v, Kept: ring != nil, Questions: questionsOf(ring, v.Questions)}
	if i.data.Learnt != nil {
		for _, e := range i.data.Learnt.All() {
			if tokens := i.data.Learnt.Window(e.CalibrationKey); tokens > 0 && len(view.Windows) < maxWindows {
				view.Windows = append(view.Windows, window{e.CalibrationKey, tokens})
			}
		}
	}
	view.Caches = slices.SortedStableFunc(slices.Values(v.CacheGuard), func(a, b cacheguard.Status) int { return cmp.Compare(b.State, a.State) })
	view.Caches = view.Caches[:min(len(view.Caches), maxCaches)]
	for _, o := range v.Outcomes {
		if o.Requests > 0 {
			view.Series = append(view.Series, series{o.Outcome, o.Requests, "outcome-" + string(o.Outcome), requestsOf(ring, o.Outcome, "")})
		}
	}
	for _, d := range v.Documents {
		g := given{UsedDocument: d}
		if len(d.ID) < explain.MaxOverviewID {
			g.Address = documentAddress(d.Knowledge, d.ID, 0)
		}
		view.Documents = append(view.Documents, g)
	}
	for _, r := range v.Reasons {
		w := why{r.Outcome, r.Reason, r.Requests, requestsOf(ring, r.Outcome, r.Reason)}
		if tone(r.Outcome) == "bad" {
			view.Failures = append(view.Failures, w)
		} else {
			view.Others = append(view.Others, w)
		}
	}
	for _, m := range slices.Backward(v.Minutes) {
		if m.Requests > 0 {
			view.Minutes = append(view.Minutes, m)
		}
	}
	view.ByMinute, view.Latency = requestsChart(v, view.Series), latencyChart(v)
	return view, nil
}

// CachedShare returns the share of the input that was read from upstreams' caches.
func (v *overviewView) CachedShare() float64 {
	if v.Tokens.Input == 0 {
		return 0
	}
	return float64(v.Tokens.Cached) / float64(v.Tokens.Input)
}

// requestsOf returns the URL of the requests with an outcome and reason; "" if none are kept.
func requestsOf(ring *explain.Ring, o rewrite.Outcome, r rewrite.Reason) string {
	if ring == nil || o == report.Relayed {
		return ""
	}
	f := filterInspector{Outcome: string(o)}
	if r != "" {
		f.Text = "reason=" + string(r)
	}
	return requestsPath + "?" + f.query()
}

// questionsOf merges equal questions, most frequent first.
func questionsOf(ring *explain.Ring, all []explain.OpenQuestion) []question {
	ids := make([]string, len(all))
	for n := range all {
		ids[n] = all[n].ID
	}
	kept := ring.Kept(ids)
	var asked []question
	at := map[string]int{} // by text
	for _, q := range all {
		text := strings.ToLower(strings.Join(strings.Fields(q.Text), " "))
		if n, again := at[text]; again {
			asked[n].Times++
			continue
		}
		if text != "" {
			at[text] = len(asked)
		}
		asked = append(asked, question{q, 1, kept[q.ID]})
	}
	slices.SortStableFunc(asked, func(a, b question) int { return cmp.Compare(b.Times, a.Times) })
	return asked[:min(len(asked), maxQuestions)]
}

// A chart draws the last hour as stacked columns, one per minute, each 10 wide.
type chart struct {
	Label   string // describes the chart in words
	Top     string // value at the full height
	Beyond  string // says which columns are cut at the top; "" if none
	Columns []column
}

// A column is a minute of a chart.
type column struct {
	X     int
	Title string
	Parts []columnPart
}

// A columnPart is a segment of a column.
type columnPart struct {
	Class     string
	Y, Height float64
}

const (
	chartHeight = 100
	columnWidth = 10
)

// stack adds the column of minute n, with a segment for each of values.
func (c *chart) stack(n int, title string, height float64, classes []string, values []float64) {
	col, y := column{X: n * columnWidth, Title: title}, float64(chartHeight)
	for k, v := range values {
		if v > 0 {
			h := chartHeight * v / height
			y -= h
			col.Parts = append(col.Parts, columnPart{classes[k], y, h})
		}
	}
	if len(col.Parts) > 0 {
		c.Columns = append(c.Columns, col)
	}
}

func requestsChart(v *explain.Overview, all []series) *chart {
	most := 0
	for _, m := range v.Minutes {
		most = max(most, m.Requests)
	}
	height := scaleTo(float64(most))
	c := &chart{Label: fmt.Sprintf("Requests by minute and outcome: %s in the last hour, %s in one minute at most", count(v.Requests), count(most)), Top: count(height)}
	classes := make([]string, len(all))
	for k := range all {
		classes[k] = all[k].Class
	}
	for n, m := range v.Minutes {
		title, values := clock(m.Time)[:5]+":", make([]float64, len(all))
		for k, s := range all {
			if times := m.Outcomes[s.Outcome]; times > 0 {
				values[k] = float64(times)
				title += fmt.Sprintf(" %d %s", times, s.Outcome)
			}
		}
		c.stack(n, title, height, classes, values)
	}
	return c
}

// latencyChart shows the latency added to requests; nil if none was sent upstream.
func latencyChart(v *explain.Overview) *chart {
	most := latencyScale(v.Minutes)
	if most == 0 {
		return nil
	}
	height, beyond := scaleTo(most), 0
	c := &chart{Label: "Added latency by minute: half of the requests took no longer than " + ms(v.Overhead.P50) + ", 95 % no longer than " + ms(v.Overhead.P95), Top: strconv.FormatFloat(height, 'g', -1, 64) + " ms"}
	for n, m := range v.Minutes {
		q := m.Overhead
		title, median, p95 := clock(m.Time)[:5]+": median "+ms(q.P50)+", p95 "+ms(q.P95), min(q.P50, height), min(q.P95, height)
		if q.P95 > height {
			title += ", beyond the scale"
			beyond++
		}
		c.stack(n, title, height, []string{"median", "p95"}, []float64{median, p95 - median})
	}
	if beyond > 0 {
		c.Beyond = fmt.Sprintf("minutes beyond the scale: %d", beyond)
		c.Label += "; " + c.Beyond
	}
	return c
}

// latencyScale returns the latency that the chart must cover: the largest p95 of a minute or, if
// that is an outlier, the 75th percentile of the minutes. It is 0 if there are no values.
func latencyScale(minutes []explain.Minute) float64 {
	var all []float64
	for _, m := range minutes {
		if m.Overhead.P95 > 0 {
			all = append(all, m.Overhead.P95)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	const outlier = 5 // multiple of the usual latency
	usual, most := all[(len(all)-1)*3/4], all[len(all)-1]
	if most > outlier*usual {
		return usual
	}
	return most
}

// scaleTo returns the next round number that is not smaller: 1, 2 or 5 times a power of ten.
func scaleTo(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{1, 2, 5} {
		if times*power >= most {
			return times * power
		}
	}
	return 10 * power
}

// percent formats a share.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }
