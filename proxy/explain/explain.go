// Package explain keeps records of the last requests, so that each can be looked up by its id:
// which sources were found, which were put into the prompt, and why the rest was excluded. It also
// runs searches for users as requests do, shows what would happen to a chat without sending it
// (DryRun), and counts the outcomes of the last hour in fixed memory (Overview).
package explain

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// Bodies says in which form the bodies of chats are kept.
type Bodies string

// The forms.
const (
	BodiesOff      Bodies = "off"
	BodiesRedacted Bodies = "redacted" // their structure, with lengths instead of texts
	BodiesFull     Bodies = "full"
)

// Limits of what is kept for one request. The rest is dropped.
const (
	maxSources = 100      // entries of the ledger
	maxEdits   = 16       // entries of the ledger
	maxChunks  = 50       // ids of chunks in each list of the ledger
	maxNotes   = 16       // notes of the ledger
	maxText    = 256      // bytes of a text that comes from the request, or of a source's name
	maxID      = 512      // bytes of a document id
	maxFallen  = 16 << 10 // bytes of the excluded candidates, unless their texts are shortened
	maxFilter  = 4 << 10  // bytes of a filter
	maxBody    = 64 << 10 // bytes of a body
)

// maxBodies limits the bytes of all kept bodies. The oldest are dropped first; the reports of
// their requests stay.
const maxBodies = 32 << 20

// maxBodiesOf is the number of bodies per request: as received, as last sent, the text of its
// answer, and those of its stages.
const maxBodiesOf = 4

// A Ring keeps the last reports and, if enabled, the bodies of their requests. It is a
// report.Recorder and a proxy.BodyKeeper. It skips requests that were only relayed, whose answers
// show no id. Its memory is bounded: by the constants above for bodies and for long texts, and
// otherwise to some 20 KiB per report, most of it for sources; twice that if tools were called;
// 300 KiB if all names of its sources have the maximum length. Inputs and outputs of stages and
// texts of answers count as bodies. It is safe for concurrent use.
type Ring struct {
	mu        sync.Mutex
	reports   []entry                    // a ring buffer: report n is at n modulo its length
	recorded  uint64                     // total number of reports, and the number of the next one
	waiting   []chan struct{}            // channels of subscribers
	bodies    []body                     // oldest first
	bodyBytes int                        // size of all bodies
	copy      func(pieces [][]byte) Body // nil: no bodies are kept
	copyText  func(text string) Body     // the same for a text that is not JSON
	texts     bool                       // texts of users are kept
}

// An entry is a report.Report without the parts that take much memory.
type entry struct {
	report.Report
	rewritten bool   // a rewrite was done or tried, so there is a ledger
	edits     []Edit // edits of the ledger
}

// A body is a copy of a request's body, or of those of its stages.
type body struct {
	id, tenant string
	of         bodyKind
	Body                         // zero for stages
	finish     string            // finish reason of an answer
	unread     answer.TextUnread // of an answer
	stages     []spoken          // in the order of the report
}

// A bodyKind is the kind of a body.
type bodyKind int

const (
	received bodyKind = iota
	sent              // as sent upstream
	answered          // text of the answer
	ofStages
)

// size returns the number of bytes that count for maxBodies.
func (b *body) size() int {
	n := len(b.Text)
	for i := range b.stages {
		n += b.stages[i].size()
	}
	return n
}

// New returns a Ring that keeps the last n reports, at least 1, and bodies in the given form.
func New(n int, bodies Bodies) *Ring {
	r := &Ring{reports: make([]entry, n)}
	switch bodies {
	case BodiesRedacted:
		r.copy, r.copyText = redacted, lengthOf
	case BodiesFull:
		r.copy, r.copyText, r.texts = ends, endsOf, true
	}
	return r
}

// Record implements report.Recorder.
func (r *Ring) Record(of *report.Report) {
	if of.Outcome == report.Relayed {
		return
	}
	if of.Stages != nil && r.copy != nil {
		r.keep(body{id: of.ID, tenant: of.Tenant, of: ofStages, stages: r.spoken(of.Stages)})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.at(r.recorded)
	r.recorded++
	calls := append(kept.Calls[:0], of.Calls...) // reuse the memory of the overwritten report, as of's own is reused by the caller
	kept.Report = *of
	kept.Calls = calls
	kept.trim(r.texts, r.copy)
	r.tell()
}

// at returns the entry of a report number. The caller holds mu.
func (r *Ring) at(number uint64) *entry { return &r.reports[number%uint64(len(r.reports))] }

// have returns the number of reports kept. The caller holds mu.
func (r *Ring) have() int { return int(min(r.recorded, uint64(len(r.reports)))) }

// trim drops the texts of sources, most of what a request can make long and, unless texts is set,
// the planner's queries. The arguments of tool calls are treated by keep like a body.
func (r *entry) trim(texts bool, keep func(pieces [][]byte) Body) {
	res := &r.Rewrite
	l := &res.Ledger
	r.rewritten, r.edits = l.Edits != nil, r.edits[:0] // reuse the memory of an older report
	for i := range min(len(l.Edits), maxEdits) {
		e := &l.Edits[i]
		r.edits = append(r.edits, Edit{e.Name, e.Offset, e.Delete, e.Insert.Len()})
	}
	res.Edits, l.Edits = nil, nil
	res.Retrieval.Sources, res.Retrieval.Excluded = nil, retrieval.ExcludedList{}
	if found := &res.Retrieval; len(found.Lookups) > maxLookups {
		found.Lookups = slices.Clone(found.Lookups[:maxLookups])
	}
	res.Model = model.Model{Row: res.Model.Row, Window: res.Model.Window}
	l.Model = short(l.Model)
	if l.Planned != nil {
		planned := *l.Planned // it may be read concurrently
		if planned.ModelID = short(planned.ModelID); !texts {
			planned.Queries = nil
		}
		l.Planned, res.Retrieval.Planned = &planned, nil
	}
	if len(l.Sources) > maxSources {
		l.Sources = slices.Clone(l.Sources[:maxSources]) // a subslice would keep the whole list in memory
	}
	l.Sources = shortNames(l.Sources)
	room := maxSources - len(l.Sources)
	l.Excluded = shortFallen(l.Excluded, room)
	r.Tools, r.Stages = trimTools(r.Tools, room, keep), trimStages(r.Stages)
	l.Chunks = l.Chunks.First(maxChunks)
	l.Notes = slices.Clone(l.Notes[:min(len(l.Notes), maxNotes)])
	for i := range l.Notes {
		l.Notes[i] = short(l.Notes[i])
	}
	if l.Filter != nil && len(l.Filter.String()) > maxFilter {
		l.Filter = nil
		l.Notes = append(l.Notes, "the filters in force are too long to be kept")
	}
}

// short returns text, cut to maxText if it is longer.
func short(text string) string { return shorterThan(maxText, text) }

func shorterThan(most int, text string) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}

// shortNames returns sources with their texts cut to the limits. It does not change list.
func shortNames(list []rewrite.SourceEntry) []rewrite.SourceEntry {
	long := func(s rewrite.SourceEntry) bool {
		return len(s.Doc) > maxID || max(len(s.Name), len(s.Section), len(s.Detail)) > maxText
	}
	if !slices.ContainsFunc(list, long) {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		s := &list[i]
		s.Doc, s.Name, s.Section, s.Detail = shorterThan(maxID, s.Doc), short(s.Name), short(s.Section), short(s.Detail)
	}
	return list
}

// shortFallen returns at most n excluded candidates within the limits. Usually it returns f
// itself.
func shortFallen(f retrieval.ExcludedList, n int) retrieval.ExcludedList {
	if f.Len() <= n && f.Bytes() <= maxFallen {
		return f
	}
	list := f.List()
	list = list[:min(len(list), n)]
	for i := range list {
		x := &list[i]
		x.Doc, x.Name, x.Section, x.Detail = shorterThan(maxID, x.Doc), short(x.Name), short(x.Section), short(x.Detail)
	}
	return retrieval.NewExcludedList(list)
}

// Received implements proxy.BodyKeeper.
func (r *Ring) Received(of *report.Report, text []byte) { r.keepBody(of, received, [][]byte{text}) }

// Sent implements proxy.BodyKeeper.
func (r *Ring) Sent(of *report.Report, pieces [][]byte) { r.keepBody(of, sent, pieces) }

func (r *Ring) keepBody(of *report.Report, as bodyKind, pieces [][]byte) {
	if r.copy != nil {
		r.keep(body{id: of.ID, tenant: of.Tenant, of: as, Body: r.copy(pieces)})
	}
}

// Answered implements proxy.BodyKeeper.
func (r *Ring) Answered(of *report.Report, said answer.Text) {
	if r.copy == nil {
		return
	}
	b := body{id: of.ID, tenant: of.Tenant, of: answered, finish: strings.Clone(short(said.Finish)), unread: said.Unread}
	switch missing := said.Bytes - len(said.Text); {
	case said.Unread != "":
	case !r.texts:
		b.Text = fmt.Sprintf("(%d bytes)", said.Bytes)
	case missing > 0:
		b.Text = fmt.Sprintf("%s\n… %d bytes …", said.Text, missing)
	default:
		b.Body = r.copyText(said.Text)
	}
	b.Bytes = said.Bytes
	r.keep(b)
}

// keep adds a body and drops the oldest beyond the limits.
func (r *Ring) keep(b body) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodyBytes += b.size()
	if before := r.sentBefore(&b); before != nil {
		r.bodyBytes -= before.size()
		*before = b
	} else {
		r.bodies = append(r.bodies, b)
	}
	for len(r.bodies) > maxBodiesOf*len(r.reports) || r.bodyBytes > maxBodies {
		r.bodyBytes -= r.bodies[0].size()
		r.bodies[0] = body{} // frees its memory
		r.bodies = r.bodies[1:]
	}
}

// DropBodies drops all kept bodies and returns their number. The reports stay.
func (r *Ring) DropBodies() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = len(r.bodies)
	r.bodies, r.bodyBytes = nil, 0
	return n
}

// sentBefore returns the body that the request of b sent earlier, which b replaces; nil if there
// is none.
func (r *Ring) sentBefore(b *body) *body {
	if b.of != sent {
		return nil
	}
	for i := range slices.Backward(r.bodies) {
		if old := &r.bodies[i]; old.id == b.id && old.tenant == b.tenant {
			if old.of == sent {
				return old
			}
			return nil // the body as received: nothing was sent before
		}
	}
	return nil
}

// Find returns the explanation of the request with that id, or nil if it is not kept. have is the
// number of requests kept, keep the maximum.
func (r *Ring) Find(id string) (e *Explanation, have, keep int) {
	of, bodies, have := r.find(id)
	if of == nil {
		return nil, have, len(r.reports)
	}
	e = newExplanation(of) // takes some time, so not under the lock
	e.Received, e.Sent = bodies.text(received), bodies.text(sent)
	e.Answer = bodies[answered].answer()
	e.Stages.say(bodies[ofStages])
	return e, have, len(r.reports)
}

// bodiesOf holds the last bodies of a request by kind; nil for those not kept.
type bodiesOf [ofStages + 1]*body

// text returns a body with keys masked.
func (b *bodiesOf) text(of bodyKind) *Body {
	if b[of] == nil {
		return nil
	}
	return b[of].masked()
}

// answer returns the text of an answer with keys masked; nil if it is not kept.
func (b *body) answer() *Answer {
	if b == nil {
		return nil
	}
	return &Answer{b.Bytes, b.masked().Text, b.finish, b.unread}
}

func (r *Ring) find(id string) (of *entry, bodies bodiesOf, have int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.reports {
		if found := &r.reports[i]; found.ID == id {
			of = new(entry)
			*of = *found
			of.edits, of.Calls = append([]Edit{}, found.edits...), slices.Clone(found.Calls)
			for kind := range bodies {
				bodies[kind] = r.body(of, bodyKind(kind))
			}
			return of, bodies, r.have()
		}
	}
	return nil, bodies, r.have()
}

// body returns a body of a request, nil if it is not kept. The tenant is compared too, so that a
// mistake about ids cannot show one tenant's text as another's.
func (r *Ring) body(of *entry, as bodyKind) *body {
	for _, b := range slices.Backward(r.bodies) {
		if b.id == of.ID && b.tenant == of.Tenant && b.of == as {
			return &b
		}
	}
	return nil
}

// A Summary describes a finished request in a list.
type Summary struct {
	Number   uint64 // of the request in the ring; see Range
	ID       string
	Time     time.Time // when the request header had been read
	Tenant   string    // "" if the caller was refused
	Model    string    // row of the model table
	Outcome  rewrite.Outcome
	Reason   rewrite.Reason
	Rung     string        // of the ladder; "" if the request was not reduced
	Status   int           // of the answer; 499 if the client left before it
	Sources  int           // in the prompt, and in tool results
	Tokens   int           // added to the prompt, and in tool results
	Overhead time.Duration // from request read to request handed to the upstream
	Total    time.Duration // from Time to the end of the answer
	Line     string        // Sidenote-Status of the answer, as known at its end
}

// maxSubscribers limits the concurrent subscribers: each costs every request a few nanoseconds.
const maxSubscribers = 16

// Range returns the numbers of the requests that are kept: first <= n < end. Requests are numbered
// in the order in which they ended.
func (r *Ring) Range() (first, end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recorded - uint64(r.have()), r.recorded
}

// Summary returns the summary of the request with a number; false if it is not kept. It blocks
// recording for about a microsecond.
func (r *Ring) Summary(number uint64) (Summary, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number >= r.recorded || number < r.recorded-uint64(r.have()) {
		return Summary{}, false
	}
	of := r.at(number)
	s := Summary{
		Number: number, ID: of.ID, Time: of.Time, Tenant: of.Tenant, Model: of.Model(), Outcome: of.Outcome, Reason: of.Reason, Rung: of.Budget.Rung, Status: of.Status,
		Sources: of.Sources(), Tokens: of.Rewrite.Ledger.Used, Overhead: of.Overhead, Total: of.Total, Line: of.line(),
	}
	if t := of.Tools; t != nil {
		s.Sources, s.Tokens = s.Sources+len(t.Sources), s.Tokens+t.Tokens
	}
	return s, true
}

// line returns the Sidenote-Status.
func (r *entry) line() string { return string(report.AppendStatus(nil, &r.Report)) }

// Kept reports which of the requests with these ids are kept. A nil Ring keeps none.
func (r *Ring) Kept(ids []string) map[string]bool {
	kept := make(map[string]bool, len(ids))
	for _, id := range ids {
		kept[id] = false
	}
	if r == nil {
		return kept
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.have() {
		if _, asked := kept[r.reports[i].ID]; asked {
			kept[r.reports[i].ID] = true
		}
	}
	return kept
}

// Subscribe returns a channel that receives a value if requests were recorded since the last
// receive. Requests are not queued, so that a slow subscriber costs no memory: it finds by Range
// what it missed. ok is false if there are too many subscribers; otherwise stop must be called.
func (r *Ring) Subscribe() (kept <-chan struct{}, stop func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == maxSubscribers {
		return nil, nil, false
	}
	c := make(chan struct{}, 1)
	r.waiting = append(r.waiting, c)
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting = slices.DeleteFunc(r.waiting, func(other chan struct{}) bool { return other == c })
	}, true
}

// tell wakes the subscribers. The caller holds mu.
func (r *Ring) tell() {
	for _, c := range r.waiting {
		select {
		case c <- struct{}{}:
		default: // the last value was not received yet
		}
	}
}

const (
	// counters is the number of documents counted at a time. After n sources each count is too low
	// by at most n/(counters+1), and exact if there are no more documents than counters.
	counters = 128
	// MaxOverviewID is the length in bytes to which ids and names are cut.
	MaxOverviewID = 256
)

// A document identifies a document in a base.
type document struct{ knowledge, id string }

// A count is how often a document was used.
type count struct {
	times uint32
	name  string
}

// A top counts the most used documents by the algorithm of Misra and Gries ("Finding repeated
// elements", 1982): if there is no counter for another document, all are decremented. Several tops
// can be added up (Agarwal et al., "Mergeable summaries", 2012).
type top struct {
	counts map[document]*count
	short  uint32 // maximum error of each count
}

func (t *top) reset() {
	if t.counts == nil {
		t.counts = make(map[document]*count, counters)
	}
	clear(t.counts)
	t.short = 0
}

// addAll counts the sources in the prompt.
func (t *top) addAll(sources []rewrite.SourceEntry) {
	for i := range sources {
		if s := &sources[i]; s.ID > 0 {
			t.add(document{clip(s.Knowledge), clip(s.Doc)}, s.Name)
		}
	}
}

func (t *top) add(d document, name string) {
	if c := t.counts[d]; c != nil {
		c.times++
		return
	}
	if len(t.counts) < counters {
		d = document{strings.Clone(d.knowledge), strings.Clone(d.id)} // they may be part of a longer text
		t.counts[d] = &count{1, strings.Clone(clip(name))}
		return
	}
	t.short++
	for d, c := range t.counts {
		if c.times--; c.times == 0 {
			delete(t.counts, d)
		}
	}
}

// clip returns text, cut to MaxOverviewID.
func clip(text string) string {
	if len(text) <= MaxOverviewID {
		return text
	}
	return strings.ToValidUTF8(text[:MaxOverviewID], "")
}
