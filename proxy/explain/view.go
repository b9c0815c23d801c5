package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// maxShown limits the reasons and documents in an Overview.
const maxShown = 20

// An Overview summarizes the requests of the last hour.
type Overview struct {
	Object        string              `json:"object"` // "overview"
	Time          time.Time           `json:"time"`
	Requests      int                 `json:"requests"`
	Outcomes      []OutcomeCount      `json:"outcomes"` // all that exist, also those with a count of 0
	Reasons       []ReasonCount       `json:"reasons"`  // of outcomes that have one, most frequent first, at most 20
	Tokens        TokenCount          `json:"tokens"`
	Overhead      Quantile            `json:"overhead_ms"` // of requests that were sent upstream
	Cache         CacheCount          `json:"cache"`
	Ladder        []RungCount         `json:"ladder"`          // requests reduced to fit limits, by rung, then refused ones
	Minutes       []Minute            `json:"minutes"`         // oldest first; the last one is not over
	Prompts       []PromptUse         `json:"prompt_cache"`    // use of upstreams' caches in the last 50 to 60 minutes, most tokens first, at most 20
	Documents     []UsedDocument      `json:"documents"`       // most used in the last 50 to 60 minutes, at most 20
	MaxUndercount int                 `json:"documents_short"` // maximum error of each of their counts
	NoMatch       int                 `json:"no_match"`
	Graded        int                 `json:"irrelevant"`
	CacheGuard    []cacheguard.Status `json:"cache_guard"` // whether sources break prompt caches, since the last reload
	Questions     []OpenQuestion      `json:"questions"`   // questions without a match, latest first, at most 100, also older than an hour
	Texts         bool                `json:"texts"`       // questions are shown while the Ring keeps their requests
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

	ContextUSD float64 `json:"context_usd,omitempty"` // estimated cost of added tokens, part of USD
}

// count adds a request.
func (t *TokenCount) count(r *report.Report) {
	if r.Injected() {
		t.Added += int64(r.Rewrite.Ledger.Grown())
	}
	if r.Tools != nil {
		t.Added += int64(r.Tools.Tokens)
	}
	if u := &r.Usage; u.Known {
		t.Reported, t.Input, t.Cached, t.Output = t.Reported+1, t.Input+u.Input, t.Cached+u.CachedInput, t.Output+u.Output
		t.Written += u.CacheWrite
	}
	t.USD += float64(r.Budget.Charged.Money) / 1e9
	t.ContextUSD += float64(r.Context.Cost) / 1e12
}

func (t *TokenCount) add(other *TokenCount) {
	t.Added, t.Reported, t.Input, t.Cached, t.Output, t.USD = t.Added+other.Added, t.Reported+other.Reported, t.Input+other.Input, t.Cached+other.Cached, t.Output+other.Output, t.USD+other.USD
	t.Written += other.Written
	t.ContextUSD += other.ContextUSD
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
	v := &Overview{Object: "overview", Time: now.UTC(), Minutes: []Minute{}, Reasons: []ReasonCount{}, Documents: []UsedDocument{}, Questions: []OpenQuestion{}, CacheGuard: []cacheguard.Status{}}
	if o.CacheGuard != nil {
		v.CacheGuard = append(v.CacheGuard, o.CacheGuard()...)
	}
	questions := o.fill(v, now)
	v.Prompts = o.PromptUses(now)
	v.Prompts = v.Prompts[:min(len(v.Prompts), maxShown)]
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

// Stages describe a chat that is answered in stages.
type Stages struct {
	Total  int     `json:"of"`               // number of stages in the chain
	Answer string  `json:"answer,omitempty"` // the stage whose output is the answer; absent if none is
	Called []Stage `json:"called"`
}

// A Stage is a stage that was called, or whose output was cached.
type Stage struct {
	Name     string              `json:"stage"`
	At       int                 `json:"at"` // position in the chain, from 1
	Upstream string              `json:"upstream"`
	Model    string              `json:"model"`
	Calls    int                 `json:"calls"`            // of the upstream; 0 if its output was cached, or nothing was sent
	Status   int                 `json:"status,omitempty"` // of the last answer; 0 if there was none
	Took     float64             `json:"took_ms"`
	Outcome  report.StageOutcome `json:"outcome"`
	Finish   string              `json:"finish_reason,omitempty"`
	Usage    *StageUsage         `json:"usage,omitempty"` // nil if its answer did not report usage

	// Only if bodies are kept: the request body, including the messages, and the output text.
	Request *Body `json:"request,omitempty"`
	Output  *Body `json:"output,omitempty"`
}

// A StageUsage is the token usage that the answer to a stage reported.
type StageUsage struct {
	Input        int64 `json:"input_tokens"`
	CachedInput  int64 `json:"cached_input_tokens"`             // part of Input
	CacheWrite   int64 `json:"cache_write_tokens,omitempty"`    // part of Input: written into the upstream's cache
	CacheWrite1h int64 `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite
	Output       int64 `json:"output_tokens"`
	Reasoning    int64 `json:"reasoning_tokens"` // part of Output
}

// A spoken holds the kept input and output of a stage.
type spoken struct{ request, output *Body }

func (s *spoken) size() (n int) {
	for _, b := range [...]*Body{s.request, s.output} {
		if b != nil {
			n += len(b.Text)
		}
	}
	return n
}

// spoken copies the input and output of each stage in the form in which bodies are kept.
func (r *Ring) spoken(of *report.Stages) []spoken {
	list := make([]spoken, len(of.Called))
	for i := range of.Called {
		s := &of.Called[i]
		if s.Request != nil {
			b := r.copy([][]byte{s.Request})
			list[i].request = &b
		}
		if s.Output != "" {
			b := r.copyText(s.Output)
			list[i].output = &b
		}
	}
	return list
}

// trimStages returns a copy of s without the inputs and outputs of the stages.
func trimStages(s *report.Stages) *report.Stages {
	if s == nil {
		return nil
	}
	kept := &report.Stages{Total: s.Total, Answer: s.Answer, Called: append([]report.Stage(nil), s.Called...)}
	for i := range kept.Called {
		c := &kept.Called[i]
		c.Request, c.Output = nil, ""
		c.Model, c.Finish = strings.Clone(short(c.Model)), strings.Clone(short(c.Finish)) // copies, so that no longer text stays in memory
	}
	return kept
}

// explainStages converts s. upstream is that of the chat, which stages without their own use.
func explainStages(s *report.Stages, upstream string) *Stages {
	if s == nil {
		return nil
	}
	e := &Stages{Total: s.Total, Answer: s.Answer, Called: []Stage{}}
	for i := range s.Called {
		c := &s.Called[i]
		stage := Stage{
			Name: c.Name, At: c.At, Upstream: cmp.Or(c.Upstream, upstream), Model: c.Model, Calls: c.Calls, Status: c.Status,
			Took: report.Milliseconds(c.Took), Outcome: c.Outcome, Finish: c.Finish,
		}
		if u := c.Usage; u != (answer.Usage{}) {
			stage.Usage = &StageUsage{u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning}
		}
		e.Called = append(e.Called, stage)
	}
	return e
}

// say adds the kept inputs and outputs of the stages, with keys masked.
func (s *Stages) say(kept *body) {
	if s == nil || kept == nil {
		return
	}
	for i := range min(len(s.Called), len(kept.stages)) {
		s.Called[i].Request, s.Called[i].Output = kept.stages[i].request.masked(), kept.stages[i].output.masked()
	}
}

// Tools describe the tool calls of a chat.
type Tools struct {
	Rounds       int             `json:"rounds"` // calls of the upstream
	Tokens       int             `json:"tokens"` // of all results
	Restored     int             `json:"restored,omitempty"`
	TurnLoss     report.TurnLoss `json:"unkept,omitempty"`
	Calls        []ToolCall      `json:"calls"`             // the first 50
	CallsOmitted int             `json:"beyond,omitempty"`  // number of calls left out of Calls
	Sources      []ToolSource    `json:"sources,omitempty"` // from tool results
}

// A ToolCall is a call of a tool.
type ToolCall struct {
	Round     int                `json:"round"` // from 1
	Tool      string             `json:"tool"`
	Arguments string             `json:"arguments,omitempty"` // as the model wrote them, in the form in which bodies are kept
	Hits      int                `json:"hits"`
	Tokens    int                `json:"tokens"` // of its result
	Took      float64            `json:"took_ms"`
	Outcome   report.ToolOutcome `json:"outcome"`
}

// A ToolSource is a source from a tool result.
type ToolSource struct {
	ID        int     `json:"id"` // in the prompt
	Knowledge string  `json:"kb_id"`
	Doc       string  `json:"doc_id"`
	Chunk     int     `json:"chunk"`
	Name      string  `json:"name"`
	Section   string  `json:"section,omitempty"`
	Relevance float64 `json:"relevance,omitempty"` // 0 if it does not come from a search
}

// Limits of what is kept about tools.
const (
	maxCalls     = 50
	maxArguments = 1 << 10 // bytes of arguments that are read
)

// trimTools returns a copy of t within the limits, with at most room sources. keep copies the
// arguments in the form in which bodies are kept; nil drops them.
func trimTools(t *report.Tools, room int, keep func([][]byte) Body) *report.Tools {
	if t == nil {
		return nil
	}
	kept := &report.Tools{Rounds: t.Rounds, Tokens: t.Tokens, Restored: t.Restored, TurnLoss: t.TurnLoss, CallsOmitted: t.CallsOmitted}
	n := min(len(t.Calls), maxCalls)
	kept.CallsOmitted += len(t.Calls) - n
	kept.Calls = append(kept.Calls, t.Calls[:n]...)
	for i := range kept.Calls {
		c := &kept.Calls[i]
		if c.Name = short(c.Name); keep == nil {
			c.Arguments = ""
			continue
		}
		c.Arguments = short(keep([][]byte{[]byte(c.Arguments[:min(len(c.Arguments), maxArguments)])}).Text)
	}
	kept.Sources = shortNames(append([]rewrite.SourceEntry(nil), t.Sources[:min(len(t.Sources), max(room, 0))]...))
	return kept
}

// explainTools converts t, with keys masked.
func explainTools(t *report.Tools) *Tools {
	if t == nil {
		return nil
	}
	e := &Tools{Rounds: t.Rounds, Tokens: t.Tokens, Restored: t.Restored, TurnLoss: t.TurnLoss, Calls: []ToolCall{}, CallsOmitted: t.CallsOmitted}
	for i := range t.Calls {
		c := &t.Calls[i]
		arguments := (&Body{Text: c.Arguments}).masked().Text
		e.Calls = append(e.Calls, ToolCall{c.Round, c.Name, arguments, c.Hits, c.Tokens, report.Milliseconds(c.Took), c.Outcome})
	}
	for i := range t.Sources {
		s := &t.Sources[i]
		e.Sources = append(e.Sources, ToolSource{s.ID, s.Knowledge, s.Doc, s.Chunk, s.Name, s.Section, s.Relevance})
	}
	return e
}

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
