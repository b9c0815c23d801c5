package rewrite

import (
	"cmp"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/model"
)

// Exactness says how reliable a token count is.
type Exactness string

// An exact count is made with the model's own encoding. A bound is never exceeded by
// the true count, and is never called exact. An estimate, with a margin, is for models
// without a public tokenizer.
const (
	Exact     Exactness = "exact"
	Bound     Exactness = "bound"
	Estimated Exactness = "estimated"
)

// Outcome says what became of a request.
type Outcome string

// The outcomes of a rewrite.
const (
	Injected  Outcome = "injected"  // something was added to the messages
	Untouched Outcome = "untouched" // nothing was added; Reason says why
	Shadowed  Outcome = "shadow"    // relayed at once; the rewrite was made only for the record
	Answered  Outcome = "answered"  // on_empty: refuse; the policy's fixed answer, without calling the upstream
	Refused   Outcome = "refused"   // an error from Sidenote itself
)

// Reason says why a request was left untouched, degraded or refused. It is a closed
// list and a metric label; the reasons of the packages chat and retrieval are part of it
// under their own names.
type Reason = chat.Reason

// The reasons.
const (
	ReasonOff         Reason = "off"            // mode
	ReasonSwitchedOff Reason = "switched-off"   // mode, lowered by the kill switch
	ReasonRoute       Reason = "route"          // a generation route that is not rewritten
	ReasonTooLarge    Reason = "body-too-large" // beyond max_rewrite_bytes
	ReasonEncoded     Reason = "encoded-body"   // compressed
	ReasonNoQuery     Reason = "no-query"       // no text in the last user message
	ReasonBudget      Reason = "budget"         // nothing fits
	ReasonWindow      Reason = "window"         // nothing fits beside the request in the model's window
	ReasonPresent     Reason = "already-there"  // every source stands in the messages already
	ReasonNoPlace     Reason = "no-place"       // the model takes no system message, and there is no user message
	ReasonOverload    Reason = "overload"       // shadow work was shed
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

// Fate says whether a component or source went in whole, was cut or was left out.
type Fate string

// The fates.
const (
	In  Fate = "in"
	Cut Fate = "cut"
	Out Fate = "out"
)

// ExcludeReason says why a source or component was cut or left out. It is a closed list;
// what retrieval excluded is part of it.
type ExcludeReason = retrieval.ExcludeReason

// The reasons that are not retrieval's.
const (
	ExcludedBudget   ExcludeReason = "budget"    // it does not fit
	ExcludedBelowCut ExcludeReason = "below_cut" // something more important was cut
	ExcludedPresent  ExcludeReason = "present"   // the messages hold its text already
	ExcludedNoText   ExcludeReason = "no_text"   // nothing in it is visible
)

const detailCut = "cut to the budget"

// A SourceEntry is a source's entry in the ledger.
type SourceEntry struct {
	ID        int                 `json:"id,omitempty"` // its id in the prompt, from 1; 0 when out
	Knowledge string              `json:"kb_id"`
	Doc       string              `json:"doc_id"`
	Chunk     int                 `json:"chunk"`
	Name      string              `json:"name"`
	Section   string              `json:"section,omitempty"`
	Score     float64             `json:"score"`
	Relevance float64             `json:"relevance"`              // of Score among those of all bases, from 0 to 1; 0.5 is the calibrated least score
	Arm       retrieval.Arm       `json:"arm,omitempty"`          // that speaks most for it, where its base is searched by several
	ByArm     retrieval.ArmScores `json:"arm_scores,omitzero"`    // the scores of each of these
	Reranked  *float64            `json:"rerank_score,omitempty"` // that a reranker gave it; nil where none did
	Grade     retrieval.Grade     `json:"grade,omitempty"`        // where the policy grades
	Graded    *float64            `json:"grade_score,omitempty"`  // that a grader gave it; nil where none did
	Fate      Fate                `json:"fate"`
	Tokens    int                 `json:"tokens"`           // tokens of its block in the prompt
	Demand    int                 `json:"demand,omitempty"` // tokens of its whole block, if it was counted
	Detail    string              `json:"reason,omitempty"` // why cut or out, for people

	Neighbours int           `json:"neighbours,omitempty"` // neighbouring chunks that its block holds too
	Cited      int           `json:"cited,omitempty"`      // how often the answer cites it, where that is checked
	Support    *float64      `json:"support,omitempty"`    // the share that it has of the terms of statements which cite it; nil: not known
	Reason     ExcludeReason `json:"-"`                    // why cut or out
}

// A ComponentEntry is a component's entry in the ledger.
type ComponentEntry struct {
	Name        string `json:"name"`
	Priority    int    `json:"priority"`
	Truncatable bool   `json:"truncatable"` // it may be cut
	Fate        Fate   `json:"fate"`
	Tokens      int    `json:"tokens"`       // tokens in the prompt
	Demand      int    `json:"demand"`       // tokens if all of it had gone in
	TotalTokens int    `json:"total_tokens"` // the same, as other assemblers call it
	Detail      string `json:"reason,omitempty"`

	Reason ExcludeReason `json:"-"`
}

// An Assembly sums up what was assembled for a request that was rewritten.
type Assembly struct {
	TotalTokens int `json:"total_tokens"` // by which its messages grew
	Components  int `json:"components"`   // that went in, whole or cut; the sources are one
	Overflow    int `json:"overflow"`     // tokens that did not fit
}

// A Ledger is the account of one rewrite: what went in, what was cut, what was left
// out, and why. Its lists may be shared with other ledgers and are never changed.
type Ledger struct {
	Model     string    `json:"model"`    // as the request names it
	Encoding  string    `json:"encoding"` // the encoding that counted
	Exactness Exactness `json:"exactness"`

	Placement Placement `json:"placement,omitempty"` // where the block went: as the policy says, unless the request or the model has no such place

	Budget   int `json:"budget"`   // context_tokens in force
	Used     int `json:"used"`     // tokens that the messages grew by
	Rules    int `json:"rules"`    // of Used: the fixed sentences
	Tags     int `json:"tags"`     // of Used: tags, separators, message overhead
	Text     int `json:"text"`     // of Used: the texts of sources and components
	Overflow int `json:"overflow"` // demand - budget where positive

	Window      Window                  `json:"window"`
	Calibration *model.CalibrationValue `json:"calibration,omitempty"` // the correction applied to the counts

	Filter *filter.Filter `json:"filters,omitempty"` // the filter in force: the policy's and the request's together; claims of a token by name

	Chunks     *chunks.Ledger   `json:"chunks,omitempty"`            // nil if the request brought none
	Assembled  *Assembly        `json:"context_assembled,omitempty"` // nil where nothing was added
	Components []ComponentEntry `json:"components"`
	// Sources are what was selected; Whole adds the Fallen, candidates that were not, and
	// ChunkSources. Most ledgers are read by nobody, and a search has dozens of candidates.
	Sources []SourceEntry          `json:"sources"`
	Fallen  retrieval.ExcludedList `json:"-"`
	Edits   []Edit                 `json:"edits"`
	Notes   []string               `json:"notes,omitempty"` // options cut to the policy
	AppTags int                    `json:"app_tags"`        // tags of our vocabulary in the app's own messages

	TotalChunksRetrieved   int            `json:"total_chunks_retrieved"`
	UniqueChunksAfterDedup int            `json:"unique_chunks_after_dedup"`
	ChunksSelected         int            `json:"chunks_selected"`
	EstimatedTokens        int            `json:"estimated_tokens"`
	ChunkSources           map[string]int `json:"chunk_sources"` // chunks selected by arm: bm25, vector, or given for those of a caller who names none

	*retrieval.Planned                     // what came of planning; nil where the policy plans nothing
	Reranked           *retrieval.Reranked `json:"rerank,omitempty"` // what came of reranking, likewise
	Graded             *retrieval.Graded   `json:"grade,omitempty"`  // what came of grading, likewise

	Unembedded retrieval.EmbedReason `json:"embed,omitempty"` // why the question's vector is missing; "" if it is not
	Late       int                   `json:"late,omitempty"`  // plan, vectors, searches and scores that had not come in time
}

func newEntry(s *retrieval.Source) SourceEntry {
	return SourceEntry{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Score: s.Score, Relevance: s.Relevance, Arm: s.Arm, ByArm: s.ByArm, Reranked: s.RerankScore, Grade: s.Grade, Graded: s.GradeScore}
}

// Whole returns the ledger with all that was retrieved among its Sources, and with its ChunkSources.
func (l Ledger) Whole() Ledger {
	if l.Sources != nil {
		l.ChunkSources = map[string]int{}
	}
	for i := range l.Sources {
		if s := &l.Sources[i]; s.Fate != Out {
			l.ChunkSources[string(cmp.Or(s.Arm, retrieval.ArmWords))]++ // where words alone are searched no arm is named
		}
	}
	all := slices.Grow(slices.Clip(l.Sources), l.Fallen.Len())
	for x := range l.Fallen.All() {
		src := retrieval.ExcludedSource(&x)
		all = append(all, outEntry(&src, x.Reason, x.Why()))
	}
	l.Sources, l.Fallen = all, retrieval.ExcludedList{}
	return l
}

func outEntry(s *retrieval.Source, reason ExcludeReason, detail string) SourceEntry {
	e := newEntry(s)
	e.Fate, e.Reason, e.Detail = Out, reason, detail
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
	if f == nil { // in JSON an empty list is [], not null
		l.Components, l.Sources = []ComponentEntry{}, []SourceEntry{}
	} else {
		l.Components, l.Sources, l.Fallen, l.Overflow = f.components, f.sources, f.fallen, f.overflow
		l.ChunksSelected = f.selected
		l.Used, l.EstimatedTokens = f.used, f.used
		// By itself a part may take a token more than it adds to what stands before it.
		l.Text = min(f.text, l.Used)
		l.Rules = min(f.rules, l.Used-l.Text)
		l.Tags = l.Used - l.Rules - l.Text
	}
	if l.Planned = res.Retrieval.Planned; l.Planned == nil && j.policy.Planner.MaxQueries > 0 {
		l.Planned = &retrieval.Planned{Enabled: true, ModelID: cmp.Or(j.policy.Planner.Model, j.req.Model), Fallback: retrieval.PlanDisabled}
		if j.searched(&res.Retrieval) { // and no plan was wanted
			l.Planned.Queries, l.Planned.Count = []string{retrieval.Fold(j.query)}, 1
		}
	}
	if l.Reranked = res.Retrieval.Reranked; l.Reranked == nil {
		l.Reranked = j.policy.Rerank.Unasked(res.Retrieval.Cache == retrieval.CacheHit)
	}
	if l.Graded = res.Retrieval.Graded; l.Graded == nil {
		l.Graded = j.policy.Grade.Unasked()
	}
	l.Unembedded, l.Late = res.Retrieval.Unembedded, late(res.Retrieval.Late, l)
	if res.Outcome == Injected {
		l.Placement, l.Assembled = j.placement, l.assembly()
	}
	if l.Edits = res.Edits; l.Edits == nil {
		l.Edits = []Edit{}
	}
}

// searched tells whether a base was searched, whatever came of it.
func (j *job) searched(found *retrieval.Result) bool {
	switch found.Reason {
	case retrieval.ReasonNoQueryTerms, retrieval.ReasonNoKnowledge, retrieval.ReasonPlannerSkip:
		return false
	case retrieval.ReasonIndexing, retrieval.ReasonState:
		return found.Took > 0 // else no base was ready
	}
	return j.asked.Text != ""
}

func (l *Ledger) assembly() *Assembly {
	a := &Assembly{TotalTokens: l.Used, Overflow: l.Overflow}
	for i := range l.Components {
		if l.Components[i].Fate != Out {
			a.Components++
		}
	}
	return a
}

// late counts what had not come in time beside what a search knows of.
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
	case f == nil || f.exact:
		return Exact
	}
	return Bound
}
