package explain

import (
	"cmp"
	"slices"
	"time"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// maxShown limits the reasons and documents in an Overview.
const maxShown = 20

// An Overview summarizes the requests of the last hour.
type Overview struct {
	Object        string         `json:"object"` // "overview"
	Time          time.Time      `json:"time"`
	Requests      int            `json:"requests"`
	Outcomes      []OutcomeCount `json:"outcomes"` // all that exist, also those with a count of 0
	Reasons       []ReasonCount  `json:"reasons"`  // of outcomes that have one, most frequent first, at most 20
	Tokens        TokenCount     `json:"tokens"`
	Overhead      Quantile       `json:"overhead_ms"` // of requests that were sent upstream
	Cache         CacheCount     `json:"cache"`
	Ladder        []RungCount    `json:"ladder"`          // requests reduced to fit limits, by rung, then refused ones
	Minutes       []Minute       `json:"minutes"`         // oldest first; the last one is not over
	Documents     []UsedDocument `json:"documents"`       // most used in the last 50 to 60 minutes, at most 20
	MaxUndercount int            `json:"documents_short"` // maximum error of each of their counts
	NoMatch       int            `json:"no_match"`
	Graded        int            `json:"irrelevant"`
	Questions     []OpenQuestion `json:"questions"` // questions without a match, latest first, at most 100, also older than an hour
	Texts         bool           `json:"texts"`     // questions are shown while the Ring keeps their requests
}

// An OutcomeCount is the number of requests with an outcome.
type OutcomeCount struct {
	Outcome  rewrite.Outcome `json:"outcome"`
	Requests int             `json:"requests"`
}

// A ReasonCount is the number of requests with an outcome for a reason.
type ReasonCount struct {
	Outcome  rewrite.Outcome `json:"outcome"`
	Reason   rewrite.Reason  `json:"reason"`
	Requests int             `json:"requests"`
}

// TokenCount holds the token usage and cost of requests.
type TokenCount struct {
	Added    int64   `json:"added"`                 // to prompts, by Sidenote's count
	Reported int     `json:"told"`                  // requests whose answers reported usage, which is in the fields below
	Input    int64   `json:"input"`                 // including Cached
	Cached   int64   `json:"cached"`                // read from the upstream's cache
	Written  int64   `json:"cache_write,omitempty"` // written into it
	Output   int64   `json:"output"`
	USD      float64 `json:"usd"` // charged to tenants with limits on money or with accounting
}

// count adds a request.
func (t *TokenCount) count(r *report.Report) {
	if r.Injected() {
		t.Added += int64(r.Rewrite.Ledger.Used)
	}
	if r.Tools != nil {
		t.Added += int64(r.Tools.Tokens)
	}
	if u := &r.Usage; u.Known {
		t.Reported, t.Input, t.Cached, t.Output = t.Reported+1, t.Input+u.Input, t.Cached+u.CachedInput, t.Output+u.Output
		t.Written += u.CacheWrite
	}
	t.USD += float64(r.Budget.Charged.Money) / 1e9
}

func (t *TokenCount) add(other *TokenCount) {
	t.Added, t.Reported, t.Input, t.Cached, t.Output, t.USD = t.Added+other.Added, t.Reported+other.Reported, t.Input+other.Input, t.Cached+other.Cached, t.Output+other.Output, t.USD+other.USD
	t.Written += other.Written
}

// A Minute summarizes the requests that ended in one minute.
type Minute struct {
	Time     time.Time               `json:"time"` // start of the minute
	Requests int                     `json:"requests"`
	Outcomes map[rewrite.Outcome]int `json:"outcomes"` // without those with a count of 0
	Overhead Quantile                `json:"overhead_ms"`
	Cache    CacheCount              `json:"cache"`
	NoMatch  int                     `json:"no_match"`
	Graded   int                     `json:"irrelevant"`
}

// A Quantile holds a median and the 95th and 99th percentiles, with a relative error of at most
// 1/32.
type Quantile struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// A CacheCount is the hit rate of the search cache.
type CacheCount struct {
	Hits    int     `json:"hits"`
	Lookups int     `json:"lookups"`
	Share   float64 `json:"share"`
}

// A UsedDocument is how often chunks of a document were used as sources.
type UsedDocument struct {
	Knowledge string `json:"kb_id"`
	ID        string `json:"doc_id"`
	Name      string `json:"name"`
	Given     int    `json:"given"`
}

// An OpenQuestion is a chat whose search found nothing.
type OpenQuestion struct {
	ID        string         `json:"id"` // of the request
	Time      time.Time      `json:"time"`
	Tenant    string         `json:"tenant"`
	Policy    string         `json:"policy"`
	Reason    rewrite.Reason `json:"reason"`
	Knowledge []string       `json:"knowledge"`      // bases that were searched, the first 8
	Text      string         `json:"text,omitempty"` // "" if it is not kept
}

// Texts gives access to the questions of requests.
type Texts interface {
	// Question returns the question of a tenant's request; "" if it is not kept.
	Question(id, tenant string) string
	// HasQuestions reports whether any are kept.
	HasQuestions() bool
}

// View returns the overview at now. texts may be nil.
func (o *Recorder) View(now time.Time, texts Texts) *Overview {
	v := &Overview{Object: "overview", Time: now.UTC(), Minutes: []Minute{}, Reasons: []ReasonCount{}, Documents: []UsedDocument{}, Questions: []OpenQuestion{}}
	questions := o.fill(v, now)
	v.Texts = texts != nil && texts.HasQuestions()
	for i := range questions {
		q := &questions[i]
		shown := OpenQuestion{ID: q.id, Time: q.at.UTC(), Tenant: q.tenant, Policy: q.policy, Reason: q.reason, Knowledge: []string{}}
		for _, id := range q.knowledge {
			if id != "" {
				shown.Knowledge = append(shown.Knowledge, id)
			}
		}
		if v.Texts {
			shown.Text = texts.Question(q.id, q.tenant)
		}
		v.Questions = append(v.Questions, shown)
	}
	return v
}

// fill sets the counts of v, and returns the questions, latest first.
func (o *Recorder) fill(v *Overview, now time.Time) (questions []question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var total minute
	last := now.Unix() / 60
	for at := last - Minutes + 1; at <= last; at++ {
		m := o.minutes[at%Minutes]
		if m.at != at {
			m = minute{at: at}
		}
		v.Minutes = append(v.Minutes, m.view())
		total.add(&m)
	}
	whole := total.view()
	v.Requests, v.Overhead, v.Cache, v.NoMatch, v.Graded = whole.Requests, whole.Overhead, whole.Cache, whole.NoMatch, whole.Graded
	for i, outcome := range outcomes {
		v.Outcomes = append(v.Outcomes, OutcomeCount{outcome, int(total.outcomes[i])})
	}
	v.Ladder = total.ladder.view()
	for _, r := range total.reasons {
		v.Reasons = append(v.Reasons, ReasonCount{r.outcome, r.reason, int(r.times)})
	}
	slices.SortFunc(v.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason))
	})
	v.Reasons = v.Reasons[:min(len(v.Reasons), maxShown)]
	v.Tokens = total.tokens
	o.top(v, last/slotMinutes)
	for i := range min(o.asked, keptQuestions) {
		questions = append(questions, o.questions[(o.asked-1-i)%keptQuestions])
	}
	return questions
}

func (m *minute) add(other *minute) {
	for i, n := range other.outcomes {
		m.outcomes[i] += n
	}
	m.hits, m.lookups, m.noMatch, m.irrelevant = m.hits+other.hits, m.lookups+other.lookups, m.noMatch+other.noMatch, m.irrelevant+other.irrelevant
	m.ladder.add(&other.ladder)
	for _, r := range other.reasons {
		m.addReason(r, maxReasons*Minutes)
	}
	m.tokens.add(&other.tokens)
	m.overhead.Merge(&other.overhead)
}

func (m *minute) view() Minute {
	v := Minute{
		Time: time.Unix(60*m.at, 0).UTC(), Outcomes: map[rewrite.Outcome]int{}, Overhead: quantile(&m.overhead),
		Cache: CacheCount{Hits: int(m.hits), Lookups: int(m.lookups)}, NoMatch: int(m.noMatch), Graded: int(m.irrelevant),
	}
	if m.lookups > 0 {
		v.Cache.Share = float64(m.hits) / float64(m.lookups)
	}
	for i, n := range m.outcomes {
		v.Requests += int(n)
		if n > 0 && i < len(outcomes) {
			v.Outcomes[outcomes[i]] = int(n)
		}
	}
	return v
}

func quantile(h *report.Histogram) Quantile {
	return Quantile{report.Milliseconds(h.Quantile(.5)), report.Milliseconds(h.Quantile(.95)), report.Milliseconds(h.Quantile(.99))}
}

// top adds up the documents of all slots up to last.
func (o *Recorder) top(v *Overview, last int64) {
	all := map[document]*UsedDocument{}
	for i := range o.documents {
		s := &o.documents[i]
		if s.at <= last-slots || s.at > last {
			continue
		}
		v.MaxUndercount += int(s.top.short)
		for d, c := range s.top.counts {
			if all[d] == nil {
				all[d] = &UsedDocument{Knowledge: d.knowledge, ID: d.id, Name: c.name}
			}
			all[d].Given += int(c.times)
		}
	}
	for _, d := range all {
		v.Documents = append(v.Documents, *d)
	}
	slices.SortFunc(v.Documents, func(a, b UsedDocument) int {
		return cmp.Or(b.Given-a.Given, cmp.Compare(a.Knowledge, b.Knowledge), cmp.Compare(a.ID, b.ID))
	})
	v.Documents = v.Documents[:min(len(v.Documents), maxShown)]
}
