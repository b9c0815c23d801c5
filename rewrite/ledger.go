package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/calibration"
)

// Exactness says what a token count is worth.
type Exactness string

// A count is exact by the model's own encoding, a bound that the true count
// never exceeds, or an estimate for a model without a public tokenizer (with a
// margin). A bound is never called exact.
const (
	Exact     Exactness = "exact"
	Bound     Exactness = "bound"
	Estimated Exactness = "estimated"
)

// Outcome says what became of a request.
type Outcome string

// The outcomes of a rewrite.
const (
	Injected  Outcome = "injected"  // something of ours stands in the messages
	Untouched Outcome = "untouched" // nothing of ours does; Reason says why
	Shadowed  Outcome = "shadow"    // relayed at once; the rest happened beside it
	Answered  Outcome = "answered"  // on_empty: refuse; the policy's fixed answer, no upstream call
	Refused   Outcome = "refused"   // an error of ours
)

// Reason is why a request was left untouched, degraded or refused: one closed
// list, a metric label. The retrieval reasons are part of it under their own
// names.
type Reason string

// The reasons that are not retrieval's.
const (
	ReasonOff         Reason = "off"            // mode
	ReasonRoute       Reason = "route"          // a generation route that is not rewritten
	ReasonNotJSON     Reason = "not-json"       //
	ReasonNotChat     Reason = "not-chat"       // JSON, but no chat request: no messages, wrong types
	ReasonAmbiguous   Reason = "ambiguous-body" // two parsers could read it differently
	ReasonTooDeep     Reason = "too-deep"       // nested deeper than MaxDepth
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

	ReasonNoQueryTerms = Reason(retrieval.ReasonNoQueryTerms)
	ReasonNoKnowledge  = Reason(retrieval.ReasonNoKnowledge)
	ReasonNoMatch      = Reason(retrieval.ReasonNoMatch)
	ReasonIndexing     = Reason(retrieval.ReasonIndexing)
	ReasonTimeout      = Reason(retrieval.ReasonTimeout)
	ReasonError        = Reason(retrieval.ReasonError)
)

// Fate is what Fit did with a component or a source.
type Fate string

// The fates.
const (
	In  Fate = "in"
	Cut Fate = "cut"
	Out Fate = "out"
)

// A SourceEntry is a source's line in the ledger.
type SourceEntry struct {
	ID        int     `json:"id,omitempty"` // in the prompt, from 1; 0 when out
	Knowledge string  `json:"kb_id"`
	Doc       string  `json:"doc_id"`
	Chunk     int     `json:"chunk"`
	Name      string  `json:"name"`
	Section   string  `json:"section,omitempty"`
	Score     float64 `json:"score"`
	Fate      Fate    `json:"fate"`
	Tokens    int     `json:"tokens"`           // of its block as it stands in the prompt
	Demand    int     `json:"demand,omitempty"` // of its whole block; only where it was weighed
	Reason    string  `json:"reason,omitempty"` // why cut or out

	Neighbours int `json:"neighbours,omitempty"` // chunks next to it that its block holds too
}

// A ComponentEntry is a component's line in the ledger.
type ComponentEntry struct {
	Name     string `json:"name"`
	Priority int    `json:"priority"`
	Fate     Fate   `json:"fate"`
	Tokens   int    `json:"tokens"` // as it stands in the prompt
	Demand   int    `json:"demand"` // had there been room
	Reason   string `json:"reason,omitempty"`
}

// A Ledger is the account of one rewrite: what went in, what was cut, what
// stayed out, and why. Its lists may be shared with other ledgers: nobody changes
// them.
type Ledger struct {
	Model     string    `json:"model"`    // as the request names it
	Encoding  string    `json:"encoding"` // that counted
	Exactness Exactness `json:"exactness"`

	Placement Placement `json:"placement,omitempty"` // of what was added: the policy's, unless request or model has no place there

	Budget   int `json:"budget"`   // context_tokens in force
	Used     int `json:"used"`     // of them; the message's growth in tokens
	Rules    int `json:"rules"`    // of Used: the fixed sentences
	Tags     int `json:"tags"`     // of Used: tags, separators, message overhead
	Text     int `json:"text"`     // of Used: the texts of sources and components
	Overflow int `json:"overflow"` // demand - budget where positive

	Window      Window             `json:"window"`
	Calibration *calibration.Value `json:"calibration,omitempty"` // that corrects the counts

	Filter *retrieval.Filter `json:"filters,omitempty"` // that held: the policy's and the request's

	Components []ComponentEntry `json:"components"`
	Sources    []SourceEntry    `json:"sources"`
	Edits      []Edit           `json:"edits"`
	Notes      []string         `json:"notes,omitempty"` // options cut to the policy
	AppTags    int              `json:"app_tags"`        // tags of our vocabulary in the app's own messages

	TotalChunksRetrieved   int            `json:"total_chunks_retrieved"`
	UniqueChunksAfterDedup int            `json:"unique_chunks_after_dedup"`
	ChunksSelected         int            `json:"chunks_selected"`
	EstimatedTokens        int            `json:"estimated_tokens"`
	ChunkSources           map[string]int `json:"chunk_sources"` // base id -> chunks selected
}
