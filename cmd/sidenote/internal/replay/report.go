package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// A Report sums up a replay. It is what --json prints.
type Report struct {
	Object string     `json:"object"` // "replay"
	Policy string     `json:"policy,omitempty"`
	Model  string     `json:"model,omitempty"`
	First  *time.Time `json:"first,omitempty"` // time of the first record
	Last   *time.Time `json:"last,omitempty"`
	TookMS float64    `json:"took_ms"`

	Records      int     `json:"records"`
	Replayed     int     `json:"replayed"`
	Skipped      []Count `json:"skipped"` // records that were not replayed, by cause
	Compared     int     `json:"compared"`
	Incomparable []Count `json:"not_compared"` // replayed records whose differences say nothing, by cause

	// The rest is about compared records.
	Identical   int         `json:"identical"`    // with the same added text, byte for byte
	OtherText   int         `json:"other_text"`   // with the same sources, but another text
	OtherSource int         `json:"other_source"` // with other sources, or in another order
	MeanChange  float64     `json:"mean_change"`
	Measure     string      `json:"change_measure"`
	SameInput   SameInput   `json:"same_input"`
	Sources     SourceTotal `json:"sources"`
	Silence     Silence     `json:"silence"`
	Tokens      Totals      `json:"tokens"` // by which prompts grew
	Cost        Cost        `json:"context_cost"`
	Retrieval   Retrieval   `json:"retrieval_ms"`
	Bases       []Base      `json:"knowledge"`
	Answers     *Answers    `json:"answers,omitempty"` // if the model was asked

	Changed []*Outcome `json:"changed"` // largest change first
	More    int        `json:"changed_not_shown,omitempty"`
}

// A Count counts records with a cause.
type Count struct {
	Cause   string   `json:"cause"`
	Records int      `json:"records"`
	Names   []string `json:"names,omitempty"` // what is concerned, at most 20
	Example string   `json:"example"`         // id of a request
}

// SameInput counts records for which policy, bases and row of the model table are as they were.
type SameInput struct {
	Records   int `json:"records"`
	Identical int `json:"identical"`
}

// A SourceTotal counts changes of sources.
type SourceTotal struct {
	Added       int `json:"added"`
	Removed     int `json:"removed"`
	Moved       int `json:"moved"`
	NotSearched int `json:"not_searched"` // of bases that the policy does not have
}

// Silence counts requests without sources.
type Silence struct {
	Before int `json:"before"`
	Now    int `json:"now"`
	Gained int `json:"gained"` // had none and get some
	Lost   int `json:"lost"`   // had some and get none
}

// Totals are sums before and now.
type Totals struct {
	Before int64 `json:"before"`
	Now    int64 `json:"now"`
}

// A Cost is what the added tokens cost as uncached input.
type Cost struct {
	BeforeUSD float64  `json:"before_usd"`
	NowUSD    float64  `json:"now_usd"`
	Priced    int      `json:"records"`
	Unpriced  []string `json:"models_without_price,omitempty"`
}

// A Retrieval has the times of searches, as served and as replayed. Machines and load differ.
type Retrieval struct {
	Before Quantiles `json:"before"`
	Now    Quantiles `json:"now"`
}

// Quantiles are in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// A Base counts records by the generation of a base.
type Base struct {
	ID    string `json:"id"`
	Same  int    `json:"same_generation"`
	Other int    `json:"other_generation"`
}

// A Tally makes a Report of outcomes. It is not safe for concurrent use.
type Tally struct {
	keep   int // changed outcomes to keep
	report Report

	skipped, incomparable map[string]*Count
	failed                map[string]*Count // answers, by error
	bases                 map[string]*Base
	unpriced              map[string]bool
	change                float64
	before, now           []float64 // times of searches
	kept                  []*Outcome
	changed               int
}

// NewTally returns a Tally that keeps the outcomes that changed most.
func NewTally(keep int) *Tally {
	return &Tally{
		keep: keep, report: Report{Object: "replay", Measure: ChangeMeasure},
		skipped: map[string]*Count{}, incomparable: map[string]*Count{}, failed: map[string]*Count{}, bases: map[string]*Base{}, unpriced: map[string]bool{},
	}
}

// Add counts an outcome.
func (t *Tally) Add(o *Outcome) {
	r := &t.report
	r.Records++
	if r.First == nil || o.Time.Before(*r.First) {
		r.First = &o.Time
	}
	if r.Last == nil || o.Time.After(*r.Last) {
		r.Last = &o.Time
	}
	if o.Answer != nil {
		t.answer(o)
	}
	if o.Skipped != nil {
		count(t.skipped, o.Skipped, o.ID)
		return
	}
	r.Replayed++
	if o.Incomparable != nil {
		count(t.incomparable, o.Incomparable, o.ID)
		return
	}
	r.Compared++
	t.compare(o)
	if !o.Identical || o.Change > 0 {
		t.changed++
		t.keepChanged(o)
	}
}

// maxNames limits the names of a Count.
const maxNames = 20

func count(in map[string]*Count, c *Cause, id string) {
	n := in[c.Code]
	if n == nil {
		n = &Count{Cause: c.Code, Example: id}
		in[c.Code] = n
	}
	n.Records++
	for _, name := range c.Names {
		if at, found := slices.BinarySearch(n.Names, name); !found && name != "" && len(n.Names) < maxNames {
			n.Names = slices.Insert(n.Names, at, name)
		}
	}
}

// compare adds a compared outcome to the sums.
func (t *Tally) compare(o *Outcome) {
	r := &t.report
	switch {
	case o.Identical:
		r.Identical++
	case o.Change == 0:
		r.OtherText++
	}
	if o.Change > 0 {
		r.OtherSource++
	}
	t.change += o.Change
	if o.SameInput {
		r.SameInput.Records++
		if o.Identical {
			r.SameInput.Identical++
		}
	}
	for i := range o.Sources {
		r.Sources.add(o.Sources[i].Change)
	}
	r.Silence.add(o.Before.Sources > 0, o.Now.Sources > 0)
	r.Tokens.Before, r.Tokens.Now = r.Tokens.Before+int64(o.Before.Tokens), r.Tokens.Now+int64(o.Now.Tokens)
	t.price(o)
	t.before, t.now = append(t.before, o.Before.Retrieval), append(t.now, o.Now.Retrieval)
	for id, other := range o.changedBases {
		b := t.bases[id]
		if b == nil {
			b = &Base{ID: id}
			t.bases[id] = b
		}
		if other {
			b.Other++
		} else {
			b.Same++
		}
	}
}

func (s *SourceTotal) add(change string) {
	switch change {
	case added:
		s.Added++
	case removed:
		s.Removed++
	case moved:
		s.Moved++
	case notSearched:
		s.NotSearched++
	}
}

func (s *Silence) add(had, has bool) {
	if !had {
		s.Before++
	}
	if !has {
		s.Now++
	}
	switch {
	case had && !has:
		s.Lost++
	case !had && has:
		s.Gained++
	}
}

// price adds the cost of an outcome, if both of its models have a price.
func (t *Tally) price(o *Outcome) {
	a, b := o.Before.CostUSD, o.Now.CostUSD
	if a != nil && b != nil {
		c := &t.report.Cost
		c.BeforeUSD, c.NowUSD, c.Priced = c.BeforeUSD+*a, c.NowUSD+*b, c.Priced+1
		return
	}
	for _, s := range []*Side{&o.Before, &o.Now} {
		if s.CostUSD == nil && len(t.unpriced) < maxNames {
			t.unpriced[s.Model] = true
		}
	}
}

// keepChanged keeps an outcome if it is among those that changed most.
func (t *Tally) keepChanged(o *Outcome) {
	if t.kept = append(t.kept, o); len(t.kept) < 2*max(t.keep, 1) || t.keep < 0 {
		return
	}
	t.cut()
}

// KeepAll as the number of outcomes to keep keeps all that changed.
const KeepAll = -1

// cut sorts the kept outcomes, and drops those that changed less.
func (t *Tally) cut() {
	slices.SortFunc(t.kept, func(a, b *Outcome) int {
		return cmp.Or(cmp.Compare(b.Change, a.Change), cmp.Compare(abs(b.Now.Tokens-b.Before.Tokens), abs(a.Now.Tokens-a.Before.Tokens)), a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	if t.keep >= 0 && len(t.kept) > t.keep {
		clear(t.kept[t.keep:])
		t.kept = t.kept[:t.keep]
	}
}

func abs(n int) int { return max(n, -n) }

// Report returns the sums of all outcomes so far.
func (t *Tally) Report() *Report {
	t.cut()
	r := t.report
	r.Skipped, r.Incomparable = sorted(t.skipped), sorted(t.incomparable)
	r.Changed, r.More = append([]*Outcome{}, t.kept...), t.changed-len(t.kept)
	if r.Compared > 0 {
		r.MeanChange = round(t.change / float64(r.Compared))
	}
	r.Cost.Unpriced = slices.Sorted(maps.Keys(t.unpriced))
	r.Retrieval = Retrieval{quantiles(t.before), quantiles(t.now)}
	if of := r.Answers; of != nil {
		of.Errors = sorted(t.failed)
		for _, s := range []*AnswerSide{&of.Before, &of.Now} {
			s.CitingShare = round(float64(s.Citing) / float64(max(of.Compared, 1)))
		}
	}
	r.Bases = []Base{}
	for _, id := range slices.Sorted(maps.Keys(t.bases)) {
		r.Bases = append(r.Bases, *t.bases[id])
	}
	return &r
}

// sorted returns the counts, largest first.
func sorted(of map[string]*Count) []Count {
	list := []Count{}
	for _, c := range of {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Count) int { return cmp.Or(b.Records-a.Records, cmp.Compare(a.Cause, b.Cause)) })
	return list
}

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// quantiles returns those of the nearest rank. It sorts its argument.
func quantiles(ms []float64) Quantiles {
	slices.Sort(ms)
	at := func(q float64) float64 {
		if len(ms) == 0 {
			return 0
		}
		return ms[max(int(math.Ceil(q*float64(len(ms))))-1, 0)]
	}
	return Quantiles{at(.5), at(.95), at(.99)}
}
