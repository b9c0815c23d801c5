package explain

import (
	"strings"
	"sync"
	"time"

	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

const (
	// Minutes is how far back requests are counted, the minute that is not over included.
	Minutes = 60
	// slotMinutes is how many minutes documents are counted together.
	slotMinutes = 10
	slots       = Minutes / slotMinutes // so they are those of the last 50 to 60 minutes
	// keptQuestions is how many questions without a match are remembered.
	keptQuestions = 100
	// maxKnowledge is how many bases are remembered of each.
	maxKnowledge = 8
	// maxReasons is how many pairs of outcome and reason are counted in a minute; others are not.
	maxReasons = 64
)

// outcomes are those that are counted apart.
var outcomes = [...]rewrite.Outcome{
	rewrite.Injected, report.WithTools, report.Staged, rewrite.Shadowed, rewrite.Untouched, rewrite.Answered, rewrite.Refused, report.Failed, report.Relayed,
}

// indexOf returns the index of an outcome; len(outcomes) if it is none of them.
func indexOf(o rewrite.Outcome) int {
	for i := range outcomes {
		if outcomes[i] == o {
			return i
		}
	}
	return len(outcomes)
}

// A Recorder counts the requests of the last hour, the documents that they were given, and remembers
// the last questions that found nothing. It is a report.Recorder, takes some 300 KiB, up to 1 MiB where
// ids of documents are long, and a microsecond of each request at most. It is safe for concurrent use.
type Recorder struct {
	mu        sync.Mutex
	minutes   [Minutes]minute // by their time modulo Minutes
	documents [slots]slot     // likewise
	questions [keptQuestions]question
	asked     int // questions that were remembered, those included that have gone
}

// A minute is what is counted of one.
type minute struct {
	at         int64 // since 1970
	outcomes   [len(outcomes) + 1]uint32
	hits       uint32 // searches that the cache answered
	lookups    uint32 // and those that it was asked for
	noMatch    uint32
	irrelevant uint32
	ladder     ladder
	reasons    []reason
	tokens     TokenCount
	overhead   report.Histogram
}

// A reason is how many requests came to an outcome for a reason.
type reason struct {
	outcome rewrite.Outcome
	reason  rewrite.Reason
	times   uint32
}

// addReason counts requests that came to an outcome for a reason, which is left out if there are
// most of them already.
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

// A slot has the documents of slotMinutes.
type slot struct {
	at  int64 // minutes since 1970, divided by slotMinutes
	top top
}

// A question is a chat that was searched for, and for which nothing was found.
type question struct {
	id, tenant, policy string
	at                 time.Time
	reason             rewrite.Reason
	knowledge          [maxKnowledge]string
}

// NewRecorder returns a Recorder.
func NewRecorder() *Recorder { return new(Recorder) }

// Record implements report.Recorder. A request counts in the minute of its end.
func (o *Recorder) Record(r *report.Report) {
	end := r.Time.Add(r.Total)
	at := end.Unix() / 60
	if at <= 0 {
		return // nobody set the clock
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &o.minutes[at%Minutes]
	switch {
	case m.at > at:
		return // it ended an hour ago: shadow work was that late, or the clock was set back
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
	if r.Route != route.Chat {
		return
	}
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

// remember notes a question without a match.
func (o *Recorder) remember(r *report.Report, at time.Time) {
	q := question{id: r.ID, tenant: strings.Clone(r.Tenant), policy: r.Policy, at: at, reason: r.Reason}
	bases := r.Rewrite.Retrieval.Bases
	for i := range min(len(bases), maxKnowledge) {
		q.knowledge[i] = strings.Clone(clip(bases[i].Knowledge))
	}
	o.questions[o.asked%keptQuestions] = q
	o.asked++
}

// count counts the documents that a chat was given.
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
