package rewrite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// Exactness says how reliable a token count is.
type Exactness string

// Exact counts are made with the model's own encoding. Bound counts are upper bounds. Estimated
// counts include a margin and are for models without a public tokenizer.
const (
	Exact     Exactness = "exact"
	Bound     Exactness = "bound"
	Estimated Exactness = "estimated"
)

// Outcome says what Sidenote did with a request.
type Outcome string

// The outcomes.
const (
	Injected  Outcome = "injected"  // something was added to the messages
	Untouched Outcome = "untouched" // nothing was added; Reason says why
	Shadowed  Outcome = "shadow"    // relayed at once; rewritten only for the request log
	Answered  Outcome = "answered"  // on_empty: refuse; the policy's fixed answer was sent, without calling the upstream
	Refused   Outcome = "refused"   // Sidenote returned an error
)

// Reason says why a request was left untouched, degraded or refused. It is a closed list, used as
// a metric label, and includes the reasons of the packages chat and retrieval.
type Reason = chat.Reason

// The reasons.
const (
	ReasonOff         Reason = "off"            // the mode is off
	ReasonSwitchedOff Reason = "switched-off"   // the kill switch lowered the mode
	ReasonBackground  Reason = "background"     // a call that a chat app makes for itself; see Skip
	ReasonRoute       Reason = "route"          // a generation endpoint that is not rewritten
	ReasonTooLarge    Reason = "body-too-large" // beyond max_rewrite_bytes
	ReasonEncoded     Reason = "encoded-body"   // the body is compressed
	ReasonNoQuery     Reason = "no-query"       // no text in the last user message
	ReasonBudget      Reason = "budget"         // nothing fits
	ReasonWindow      Reason = "window"         // nothing fits into the model's window beside the request
	ReasonPresent     Reason = "already-there"  // the messages already contain the text of every source
	ReasonNoPlace     Reason = "no-place"       // the model takes no system message, and there is no user message
	ReasonOverload    Reason = "overload"       // shadow work was dropped under load
	ReasonOption      Reason = "invalid-option" // an option of the request is wrong
	ReasonUnavailable Reason = "unavailable"    // refused: sources were required and failed

	ReasonNotJSON   = chat.NotJSON
	ReasonNotChat   = chat.NotChat
	ReasonAmbiguous = chat.Ambiguous
	ReasonTooDeep   = chat.TooDeep

	ReasonNoQueryTerms = Reason(retrieval.ReasonNoQueryTerms)
	ReasonNoKnowledge  = Reason(retrieval.ReasonNoKnowledge)
	ReasonPlannerSkip  = Reason(retrieval.ReasonPlannerSkip)
	ReasonNoMatch      = Reason(retrieval.ReasonNoMatch)
	ReasonIrrelevant   = Reason(retrieval.ReasonIrrelevant)
	ReasonIndexing     = Reason(retrieval.ReasonIndexing)
	ReasonState        = Reason(retrieval.ReasonState)
	ReasonTimeout      = Reason(retrieval.ReasonTimeout)
	ReasonError        = Reason(retrieval.ReasonError)
)

// Inclusion says whether a component or source was added whole, cut or left out.
type Inclusion string

// The fates.
const (
	Included Inclusion = "in"
	Cut      Inclusion = "cut"
	Excluded Inclusion = "out"
)

// The reasons that package retrieval does not have.
const (
	ExcludedBudget   retrieval.ExcludeReason = "budget"    // does not fit
	ExcludedBelowCut retrieval.ExcludeReason = "below_cut" // a component of higher priority was cut
	ExcludedPresent  retrieval.ExcludeReason = "present"   // the messages already contain its text
	ExcludedNoText   retrieval.ExcludeReason = "no_text"   // has no visible text
)

const detailCut = "cut to the budget"

// A SourceEntry is the ledger entry of one source.
type SourceEntry struct {
	ID        int                 `json:"id,omitempty"` // its id in the prompt, from 1; 0 if left out
	Knowledge string              `json:"kb_id"`
	Doc       string              `json:"doc_id"`
	Chunk     int                 `json:"chunk"`
	Name      string              `json:"name"`
	Section   string              `json:"section,omitempty"`
	Date      string              `json:"date,omitempty"` // if it is one of several versions of a document
	Score     float64             `json:"score"`
	Relevance float64             `json:"relevance"`              // Score on a scale from 0 to 1 shared by all bases; 0.5 is the calibrated minimum
	Strength  float32             `json:"strength,omitempty"`     // by which the search ordered it; 0 if something else did
	Arm       retrieval.Arm       `json:"arm,omitempty"`          // the search arm that contributed most, if the base is searched by several
	ByArm     retrieval.ArmScores `json:"arm_scores,omitzero"`    // the scores by arm
	Reranked  *float64            `json:"rerank_score,omitempty"` // the reranker's score; nil if it was not reranked
	Grade     retrieval.Grade     `json:"grade,omitempty"`        // if the policy grades
	Graded    *float64            `json:"grade_score,omitempty"`  // the grader's score; nil if it was not graded
	Inclusion Inclusion           `json:"fate"`
	Tokens    int                 `json:"tokens"`           // tokens of its text in the prompt, tags included
	Demand    int                 `json:"demand,omitempty"` // tokens if all of it had been added; 0 if not counted
	Detail    string              `json:"reason,omitempty"` // why it was cut or left out, for people

	Neighbours int                     `json:"neighbours,omitempty"` // number of neighbouring chunks added to it
	Cited      int                     `json:"cited,omitempty"`      // number of citations of it in the answer, if citations are checked
	Support    *float64                `json:"support,omitempty"`    // share of the terms of the statements citing it that it contains; nil if unknown
	Reason     retrieval.ExcludeReason `json:"-"`                    // why it was cut or left out
}

// A ComponentEntry is the ledger entry of one component.
type ComponentEntry struct {
	Name        string    `json:"name"`
	Priority    int       `json:"priority"`
	Truncatable bool      `json:"truncatable"` // may be cut
	Inclusion   Inclusion `json:"fate"`
	Tokens      int       `json:"tokens"`       // tokens in the prompt
	Demand      int       `json:"demand"`       // tokens if all of it had been added
	TotalTokens int       `json:"total_tokens"` // same as Demand, under the name that other assemblers use
	Detail      string    `json:"reason,omitempty"`

	Reason retrieval.ExcludeReason `json:"-"`
}

// An Assembly sums up what was added to a rewritten request.
type Assembly struct {
	TotalTokens int `json:"total_tokens"` // tokens by which the messages grew
	Components  int `json:"components"`   // components added, whole or cut; the sources count as one
	Overflow    int `json:"overflow"`     // tokens that did not fit
}

// A Ledger records one rewrite: what was added, what was cut, what was left out, and why. Its
// slices may be shared with other ledgers and must not be modified.
type Ledger struct {
	Model     string    `json:"model"`    // as named in the request
	Encoding  string    `json:"encoding"` // of the tokenizer used for counting
	Exactness Exactness `json:"exactness"`

	// Truncation is "auto" if the upstream drops the oldest items of a Responses request that is too
	// long, so that what is added may displace them.
	Truncation string    `json:"truncation,omitempty"`
	Placement  Placement `json:"placement,omitempty"` // where the block was inserted; not the policy's if there is no such place

	Moved Placement `json:"moved_to,omitempty"` // placement that replaced the policy's, "" if none did

	CacheMark CacheMarkState `json:"cache_mark,omitempty"` // whether the end of what the application sent is marked; "" if no mark was to be set

	Budget   int `json:"budget"`   // context_tokens in force
	Used     int `json:"used"`     // tokens by which the messages grew
	Rules    int `json:"rules"`    // of Used: the fixed sentences
	Tags     int `json:"tags"`     // of Used: tags, separators, message overhead
	Text     int `json:"text"`     // of Used: the texts of sources and components
	Overflow int `json:"overflow"` // demand - budget where positive

	Parts [maxPlaces + 1]ContextPart `json:"-"` // where in the prompt the added text is

	Window      model.Window            `json:"window"`
	Calibration *model.CalibrationValue `json:"calibration,omitempty"` // the correction applied to the counts

	Background string `json:"background,omitempty"` // the rule by which the request is a background call

	Repeated *Repeated `json:"earlier_sources,omitempty"` // sources of earlier turns, given again; nil without any

	Results *CitedResults `json:"search_results,omitempty"` // sources that are search results; nil if they are text

	Filter *filter.Filter `json:"filters,omitempty"` // the policy's and the request's filter combined, with claims by name only

	Chunks     *chunks.Ledger   `json:"chunks,omitempty"`            // nil if the request brought none
	Assembled  *Assembly        `json:"context_assembled,omitempty"` // nil where nothing was added
	Components []ComponentEntry `json:"components"`
	// Sources are those that retrieval selected. Whole adds the excluded candidates from Excluded
	// and fills ChunkSources; this is done on demand because a search has dozens of candidates
	// and most ledgers are never read.
	Sources  []SourceEntry          `json:"sources"`
	Excluded retrieval.ExcludedList `json:"-"`
	Edits    []Edit                 `json:"edits"`
	Notes    []string               `json:"notes,omitempty"` // options that the policy did not allow
	AppTags  int                    `json:"app_tags"`        // tags of Sidenote's vocabulary in the application's own messages

	TotalChunksRetrieved   int            `json:"total_chunks_retrieved"`
	UniqueChunksAfterDedup int            `json:"unique_chunks_after_dedup"`
	ChunksSelected         int            `json:"chunks_selected"`
	EstimatedTokens        int            `json:"estimated_tokens"`
	ChunkSources           map[string]int `json:"chunk_sources"` // selected chunks by arm: bm25, vector, or given for a caller's sources without one

	*retrieval.Planned                     // result of planning; nil if the policy does not plan
	Reranked           *retrieval.Reranked `json:"rerank,omitempty"` // result of reranking; nil if the policy does not rerank
	Graded             *retrieval.Graded   `json:"grade,omitempty"`  // result of grading; nil if the policy does not grade

	EmbedFailure retrieval.EmbedReason `json:"embed,omitempty"` // why the question has no vector; "" if it has one
	Late         int                   `json:"late,omitempty"`  // plans, vectors, searches and scores that missed the deadline
}

// A ContextPart is a part of the added text and its position in the prompt, both estimated by bytes.
type ContextPart struct {
	Share  float64 // of the added text; 0 if there is no such part
	Before float64 // share of the application's own prompt that precedes it, as upstreams order prompts
}

// contextParts returns the parts of the added text in prompt order: that of the first place, the
// sources of earlier turns together, and that of the second place.
func (j *job) contextParts(f *fitResult) (parts [maxPlaces + 1]ContextPart) {
	size, again, at := 0, 0, 0
	for i := range f.insertions {
		size += f.insertions[i].Len()
	}
	for i := range j.repeats {
		n := j.repeats[i].Insert.Len()
		again, at = again+n, at+n*j.repeats[i].Offset
	}
	part := func(n, offset int) ContextPart {
		if n == 0 {
			return ContextPart{}
		}
		before, whole := j.req.PromptBefore(offset)
		return ContextPart{Share: float64(n) / float64(size+again), Before: float64(before) / float64(max(whole, 1))}
	}
	parts[0], parts[2] = part(f.insertions[0].Len(), j.places.at[0].Offset), part(f.insertions[1].Len(), j.places.at[1].Offset)
	if again > 0 {
		parts[1] = part(again, at/again)
	}
	if j.places.n == 1 && again > 0 { // the only place is behind the earlier messages
		parts[0], parts[1] = parts[1], parts[0]
	}
	return parts
}

func newEntry(s *retrieval.Source) SourceEntry {
	return SourceEntry{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Date: s.Date, Score: s.Score, Relevance: s.Relevance, Strength: s.Strength, Arm: s.Arm, ByArm: s.ByArm, Reranked: s.RerankScore, Grade: s.Grade, Graded: s.GradeScore}
}

// Grown returns the tokens by which the messages grew: Used, and those of the sources of earlier
// turns.
func (l *Ledger) Grown() int {
	if l.Repeated == nil {
		return l.Used
	}
	return l.Used + l.Repeated.Tokens
}

// LastID returns the largest id of the sources, 0 without any.
func (l *Ledger) LastID() (id int) {
	for i := range l.Sources {
		id = max(id, l.Sources[i].ID)
	}
	if l.Repeated != nil {
		for i := range l.Repeated.Sources {
			id = max(id, l.Repeated.Sources[i].ID)
		}
	}
	return id
}

// WithExcluded returns the ledger with the excluded candidates added to Sources and ChunkSources
// filled in.
func (l Ledger) WithExcluded() Ledger {
	if l.Sources != nil {
		l.ChunkSources = map[string]int{}
	}
	for i := range l.Sources {
		if s := &l.Sources[i]; s.Inclusion != Excluded {
			l.ChunkSources[string(cmp.Or(s.Arm, retrieval.ArmWords))]++ // no arm is named if only words are searched
		}
	}
	all := slices.Grow(slices.Clip(l.Sources), l.Excluded.Len())
	for x := range l.Excluded.All() {
		src := retrieval.ExcludedSource(&x)
		all = append(all, outEntry(&src, x.Reason, x.Why()))
	}
	l.Sources, l.Excluded = all, retrieval.ExcludedList{}
	return l
}

func outEntry(s *retrieval.Source, reason retrieval.ExcludeReason, detail string) SourceEntry {
	e := newEntry(s)
	e.Inclusion, e.Reason, e.Detail = Excluded, reason, detail
	return e
}

// account fills the ledger.
func (j *job) account(res *Result, f *fitResult) {
	l := &res.Ledger
	*l = Ledger{
		Model: j.req.Model, Encoding: j.model.Encoding, Exactness: j.exactness(f),
		Budget: max(j.budget(), 0), Window: j.window, Filter: j.policy.shownFilter(), Notes: j.policy.Notes, AppTags: appTags(j.req, &j.messages),
		TotalChunksRetrieved: res.Retrieval.Retrieved, UniqueChunksAfterDedup: res.Retrieval.Unique,
	}
	if j.model.Calibration != (model.CalibrationValue{}) {
		v := j.model.Calibration
		l.Calibration = &v
	}
	if j.policy.Moved {
		l.Moved = j.policy.Placement
	}
	if f == nil { // in JSON an empty list is [], not null
		l.Components, l.Sources = []ComponentEntry{}, []SourceEntry{}
	} else {
		l.Components, l.Sources, l.Excluded, l.Overflow = f.components, f.sources, f.excluded, f.overflow
		l.ChunksSelected = f.selected
		l.Used, l.EstimatedTokens = f.used, f.used
		// Counted alone, a part may have more tokens than it adds to the text before it.
		l.Text = min(f.text, l.Used)
		l.Rules = min(f.rules, l.Used-l.Text)
		l.Tags = l.Used - l.Rules - l.Text
	}
	if l.Planned = res.Retrieval.Planned; l.Planned == nil && j.policy.Planner.MaxQueries > 0 {
		l.Planned = &retrieval.Planned{Enabled: true, ModelID: cmp.Or(j.policy.Planner.Model, j.req.Model), Fallback: retrieval.PlanDisabled}
		if j.searched(&res.Retrieval) { // the search ran without a plan
			l.Planned.Queries, l.Planned.Count = []string{retrieval.Fold(j.query)}, 1
		}
	}
	if l.Reranked = res.Retrieval.Reranked; l.Reranked == nil {
		l.Reranked = j.policy.Rerank.SkippedReport(res.Retrieval.Cache == retrieval.CacheHit)
	}
	if l.Graded = res.Retrieval.Graded; l.Graded == nil {
		l.Graded = j.policy.Grade.SkippedReport()
	}
	l.EmbedFailure, l.Late = res.Retrieval.EmbedFailure, late(res.Retrieval.Late, l)
	if res.Outcome == Injected {
		l.Placement, l.CacheMark, l.Repeated, l.Assembled, l.Results, l.Parts = j.placement, j.mark.state, j.repeated, l.assembly(), j.results(f), j.contextParts(f)
		if j.req.History.Truncates {
			l.Truncation = "auto"
		}
	}
	if l.Edits = res.Edits; l.Edits == nil {
		l.Edits = []Edit{}
	}
}

// searched reports whether any base was searched, successfully or not.
func (j *job) searched(found *retrieval.Result) bool {
	switch found.Reason {
	case retrieval.ReasonNoQueryTerms, retrieval.ReasonNoKnowledge, retrieval.ReasonPlannerSkip:
		return false
	case retrieval.ReasonIndexing, retrieval.ReasonState:
		return found.Took > 0 // otherwise no base was ready
	}
	return j.asked.Text != ""
}

func (l *Ledger) assembly() *Assembly {
	a := &Assembly{TotalTokens: l.Used, Overflow: l.Overflow}
	for i := range l.Components {
		if l.Components[i].Inclusion != Excluded {
			a.Components++
		}
	}
	return a
}

// late adds planning, reranking and grading that missed the deadline to the count of searched.
func late(searched int, l *Ledger) int {
	if l.Planned != nil && l.Planned.Fallback == retrieval.PlanTimeout {
		searched++
	}
	if l.Reranked.Failed() == retrieval.RerankTimeout {
		searched++
	}
	if l.Graded.Failed() == retrieval.RerankTimeout {
		searched++
	}
	return searched
}

func (j *job) exactness(f *fitResult) Exactness {
	switch {
	case j.model.Estimated:
		return Estimated
	case (f == nil || f.exact) && (j.repeated == nil || j.repeated.Exact):
		return Exact
	}
	return Bound
}

// An element is a component together with the state of its fit.
type element struct {
	Component
	content
	place int // index into plan.insertions
	selection
	entry ComponentEntry // for the ledger
}

// A content is the content of an element: a named text, or the sources. Token counts of contents
// can be added up, because they are whole lines that start with '<' (see tokens.Sum). The plan
// counts the joins to the application's text.
type content interface {
	// weigh counts the tokens of all of it.
	weigh() int
	// whole selects all of it, after weigh.
	whole() selection
	// cut selects what fits into room tokens and leaves out the rest. It returns no parts if
	// nothing fits.
	cut(room int) selection
	// leaveOut records that nothing of it is added.
	leaveOut(reason retrieval.ExcludeReason, detail string)
}

// A taken is the part of an element that is added.
type selection struct {
	parts  []part // whole lines
	tokens int
	rules  int // of tokens: the fixed sentences
	text   int // of tokens: the texts of sources and components
}

// weighed resets the element's ledger entry and returns the tokens of all of it.
func (e *element) weighed() int {
	need := e.weigh()
	e.entry = ComponentEntry{Name: e.Name, Priority: e.Priority, Truncatable: e.Truncatable, Demand: need, TotalTokens: need}
	return need
}

// cutTo adds as much as fits into room of an element that does not fit whole.
func (e *element) cutTo(room int) {
	if t := e.cut(room); t.parts != nil {
		e.take(Cut, t)
		e.entry.Reason, e.entry.Detail = ExcludedBudget, detailCut
		return
	}
	e.take(Excluded, selection{})
	e.entry.Reason, e.entry.Detail = ExcludedBudget, lacking(e.entry.Demand, room)
}

// lacking returns the ledger's detail for an element that does not fit.
func lacking(need, room int) string { return fmt.Sprintf("needs %d tokens, %d left", need, room) }

func (e *element) take(fate Inclusion, t selection) {
	e.selection, e.entry.Inclusion, e.entry.Tokens = t, fate, t.tokens
}

func (e *element) leaveOut(reason retrieval.ExcludeReason, detail string) {
	e.take(Excluded, selection{})
	e.entry.Reason, e.entry.Detail = reason, detail
	e.content.leaveOut(reason, detail)
}

// A meter counts and cuts the texts of a plan.
type meter struct {
	policy   *Policy
	counter  retrieval.Counter
	allExact bool // all counts so far were exact
}

func (m *meter) count(text string) int {
	n, exact := m.counter.Count(text)
	m.allExact = m.allExact && exact
	return n
}

// A namedText is the content of a component of the policy or the request.
type namedText struct {
	*meter
	name, text string // text is neutralised
	all        part   // the rendered component, set by weigh
}

func (t *namedText) weigh() int {
	t.all = t.part(t.policy.Component(t.name, t.text))
	return t.all.tokens
}

func (t *namedText) whole() selection { return t.taken(t.all) }

func (t *namedText) taken(p part) selection {
	return selection{parts: []part{p}, tokens: p.tokens, text: max(0, p.tokens-t.count(t.policy.Component(t.name, "")))}
}

func (t *namedText) cut(room int) selection {
	var short part
	text, _ := t.shorten(t.text, room, func(text string) int {
		short = t.part(t.policy.Component(t.name, text))
		return short.tokens
	})
	if text == "" {
		return selection{}
	}
	return t.taken(short)
}

func (t *namedText) leaveOut(retrieval.ExcludeReason, string) {}

// cutMarker is appended to a text that was cut.
const cutMarker = " [… cut to fit]"

// shorten cuts text so that its cost is at most room, and appends cutMarker. It returns "" if
// less than the policy's MinTruncatedTokens would be left. A cut can turn code into what looks
// like a tag ("i<source.length" cut before the dot), so the result is neutralised again;
// EscapeAll needs no second pass.
func (m *meter) shorten(text string, room int, cost func(string) int) (string, int) {
	limit := room - cost(cutMarker)
	for limit >= m.policy.MinTruncatedTokens {
		short := strings.TrimRight(tokens.Cut(m.counter, text, limit), " \t\n")
		if short == "" {
			break
		}
		short, _ = m.policy.Template.Tags().Neutralise(short+cutMarker, false)
		n := cost(short)
		if n <= room {
			return short, n
		}
		limit -= n - room
	}
	return "", 0
}
