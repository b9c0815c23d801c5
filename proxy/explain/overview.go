package explain

import (
	"strings"
	"sync"
	"time"

	"sidenote/proxy/cacheguard"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

const (
	// Minutes is how far back requests are counted, including the current minute.
	Minutes = 60
	// slotMinutes is the interval over which documents are counted together.
	slotMinutes = 10
	slots       = Minutes / slotMinutes // so they cover the last 50 to 60 minutes
	// keptQuestions limits the remembered questions without a match.
	keptQuestions = 100
	// maxKnowledge limits the bases remembered per question.
	maxKnowledge = 8
	// maxReasons limits the pairs of outcome and reason counted per minute; further ones are
	// ignored.
	maxReasons = 64
)

// outcomes are the outcomes that are counted separately.
var outcomes = [...]rewrite.Outcome{
	rewrite.Injected, report.WithTools, report.Staged, rewrite.Shadowed, rewrite.Untouched, rewrite.Answered, rewrite.Refused, report.Failed, report.Relayed,
}

// indexOf returns the index of an outcome; len(outcomes) if it is not in the list.
func indexOf(o rewrite.Outcome) int {
	for i := range outcomes {
		if outcomes[i] == o {
			return i
		}
	}
	return len(outcomes)
}

// A Recorder counts the requests of the last hour and the documents used as sources, and remembers
// the last questions without a match. It is a report.Recorder; it takes some 300 KiB, up to 1 MiB
// with long document ids, and at most a microsecond per request. It is safe for concurrent use.
type Recorder struct {
	// CacheGuard returns whether sources break prompt caches; nil: unknown. Set it before use.
	CacheGuard func() []cacheguard.Status

	mu        sync.Mutex
	minutes   [Minutes]minute   // at their time modulo Minutes
	documents [slots]slot       // at their time modulo slots
	prompts   [slots]promptSlot // likewise
	questions [keptQuestions]question
	asked     int // total number of questions, including overwritten ones
}

// A minute holds the counts of one minute.
type minute struct {
	at         int64 // minutes since 1970
	outcomes   [len(outcomes) + 1]uint32
	hits       uint32 // searches answered from the cache
	lookups    uint32 // searches that asked the cache
	noMatch    uint32
	irrelevant uint32
	ladder     ladder
	reasons    []reason
	tokens     TokenCount
	overhead   report.Histogram
}

// A reason counts the requests with an outcome and reason.
type reason struct {
	outcome rewrite.Outcome
	reason  rewrite.Reason
	times   uint32
}

// addReason adds r to the counts. A new pair is ignored if there are already most.
func (m *minute) addReason(r reason, most int) {
	for i := range m.reasons {
		if have := &m.reasons[i]; have.outcome == r.outcome && have.reason == r.reason {
			have.times += r.times
			return
		}
	}
	if len(m.reasons) < most {
		m.reasons = append(m.reasons, r)
	}
}

// A slot counts the documents of slotMinutes.
type slot struct {
	at  int64 // minutes since 1970, divided by slotMinutes
	top top
}

// A question is a chat whose search found nothing.
type question struct {
	id, tenant, policy string
	at                 time.Time
	reason             rewrite.Reason
	knowledge          [maxKnowledge]string
}

// NewRecorder returns an empty Recorder.
func NewRecorder() *Recorder { return new(Recorder) }

// Record implements report.Recorder. A request counts for the minute in which it ended.
func (o *Recorder) Record(r *report.Report) {
	end := r.Time.Add(r.Total)
	at := end.Unix() / 60
	if at <= 0 {
		return // the clock is not set
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &o.minutes[at%Minutes]
	switch {
	case m.at > at:
		return // it ended an hour ago: late shadow work, or the clock was set back
	case m.at < at:
		*m = minute{at: at, reasons: m.reasons[:0]}
	}
	m.outcomes[indexOf(r.Outcome)]++
	m.ladder.count(r)
	if r.Reason != "" {
		m.addReason(reason{r.Outcome, r.Reason, 1}, maxReasons)
	}
	m.tokens.count(r)
	if r.Overhead > 0 {
		m.overhead.Add(r.Overhead)
	}
	switch r.Rewrite.Retrieval.Cache {
	case retrieval.CacheHit:
		m.hits++
		m.lookups++
	case retrieval.CacheMiss:
		m.lookups++
	}
	if !r.Route.Rewritten() {
		return
	}
	o.prompts[at/slotMinutes%slots].count(r, at/slotMinutes)
	switch r.Reason {
	case rewrite.ReasonNoMatch:
		m.noMatch++
		o.remember(r, end)
	case rewrite.ReasonIrrelevant:
		m.irrelevant++
		o.remember(r, end)
	}
	o.count(r, at)
}

// remember stores a question without a match.
func (o *Recorder) remember(r *report.Report, at time.Time) {
	q := question{id: r.ID, tenant: strings.Clone(r.Tenant), policy: r.Policy, at: at, reason: r.Reason}
	bases := r.Rewrite.Retrieval.Bases
	for i := range min(len(bases), maxKnowledge) {
		q.knowledge[i] = strings.Clone(clip(bases[i].Knowledge))
	}
	o.questions[o.asked%keptQuestions] = q
	o.asked++
}

// count counts the documents used as sources of a chat.
func (o *Recorder) count(r *report.Report, at int64) {
	given, byTools := r.Injected(), r.Tools != nil && len(r.Tools.Sources) > 0
	if !given && !byTools {
		return
	}
	at /= slotMinutes
	s := &o.documents[at%slots]
	switch {
	case s.at > at:
		return
	case s.at < at:
		s.at = at
		s.top.reset()
	}
	if given {
		s.top.addAll(r.Rewrite.Ledger.Sources)
	}
	if byTools {
		s.top.addAll(r.Tools.Sources)
	}
}
