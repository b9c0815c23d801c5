package explain

import (
	"slices"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// An Explanation says what is known about one finished request: its report.Report in a form for
// people and programs. It holds no keys and no headers.
type Explanation struct {
	Object string `json:"object"` // "explanation"
	ID     string `json:"id"`     // the Sidenote-Id of the answer
	report.IDs
	Time       time.Time       `json:"time"`   // when the request header had been read
	Tenant     string          `json:"tenant"` // "" if the caller was refused
	Policy     string          `json:"policy"`
	PolicyHash string          `json:"policy_hash"`
	Experiment *Experiment     `json:"experiment,omitempty"` // nil: it took part in none
	Route      route.Kind      `json:"route"`
	Mode       string          `json:"mode,omitempty"`          // of a chat: the policy's mode, or a lower one that the request asked for
	Switched   string          `json:"switched_from,omitempty"` // the policy's mode, if the kill switch lowered it
	Model      string          `json:"model"`                   // row of the model table; the ledger has the name in the request
	Stream     bool            `json:"stream"`
	Outcome    rewrite.Outcome `json:"outcome"`
	Reason     rewrite.Reason  `json:"reason,omitempty"` // why there are no or fewer sources, or no answer
	Detail     string          `json:"detail,omitempty"` // for the reason ambiguous-body: what two parsers could read differently
	Rule       string          `json:"rule,omitempty"`   // by which the request is a background call
	Rung       string          `json:"ladder,omitempty"` // rung of the ladder on which the request was reduced to fit its tenant's limits

	Status    int              `json:"status"`    // of the answer; 499 if the client left before it
	Upstream  string           `json:"upstream"`  // name; "" if none was chosen
	Calls     []Call           `json:"calls"`     // to the upstream, in order
	Truncated bool             `json:"truncated"` // the upstream's answer was incomplete
	Client    report.ClientEnd `json:"client"`

	Cache         retrieval.CacheState   `json:"cache,omitempty"`
	Caches        []CacheUse             `json:"caches,omitempty"`   // lookups in all caches
	Partial       bool                   `json:"partial"`            // not all knowledge could be searched in time
	Degraded      retrieval.Stage        `json:"degraded,omitempty"` // the stage that was skipped after a failure
	Knowledge     []Searched             `json:"knowledge,omitempty"`
	Ledger        *Ledger                `json:"ledger,omitempty"`          // nil if no rewrite was tried
	Usage         *Usage                 `json:"usage,omitempty"`           // nil if there was no answer that could report usage
	CacheMiss     *CacheMiss             `json:"cache_diagnosis,omitempty"` // nil if the upstream was not asked
	Citations     *answer.CitationReport `json:"citations,omitempty"`       // nil if citations were not checked
	ToolsSkipped  string                 `json:"unoffered,omitempty"`       // why no tools were offered though the policy has them
	Refused       []string               `json:"refused_edits,omitempty"`   // refused by the upstream, and left out of the retry
	LeftOut       []string               `json:"left_out,omitempty"`        // edits left out because the upstream refused them in an earlier request
	Tools         *Tools                 `json:"tools,omitempty"`           // nil if none were offered
	StagesSkipped string                 `json:"unstaged,omitempty"`        // why the chat was not answered in stages though the policy wants it
	Stages        *Stages                `json:"stages,omitempty"`          // nil if it was not answered in stages
	Timings       Timings                `json:"timings_ms"`

	// Bodies of a chat, if they are kept. Received is the body as received, uncompressed; Sent the
	// last one sent upstream, nil if none was.
	Received *Body `json:"received,omitempty"`
	Sent     *Body `json:"sent,omitempty"`
	// Answer is the model's text in its last round, or in the stage whose output is the answer.
	Answer *Answer `json:"answer,omitempty"`

	Line string `json:"-"` // Sidenote-Status of the answer, as known at its end
}

// HasTexts reports whether the explanation has bodies, or texts of stages.
func (e *Explanation) HasTexts() bool {
	spoke := func(s Stage) bool { return s.Request != nil || s.Output != nil }
	return e.Received != nil || e.Sent != nil || e.Answer != nil || e.Stages != nil && slices.ContainsFunc(e.Stages.Called, spoke)
}

// An Answer is the kept text of the first choice of an answer, before citations were removed from
// it.
type Answer struct {
	Bytes  int               `json:"bytes"` // of the complete text
	Text   string            `json:"text"`  // the part that is kept
	Finish string            `json:"finish,omitempty"`
	Unread answer.TextUnread `json:"unread,omitempty"` // why the text is unknown
}

// A Call is one request to an upstream.
type Call struct {
	Upstream     string         `json:"upstream"`
	Purpose      report.Purpose `json:"purpose"`
	Status       int            `json:"status,omitempty"`        // of the answer; 0 if there was none
	Took         float64        `json:"took_ms"`                 // to the head of the answer, or to the error
	PromptTokens int            `json:"prompt_tokens,omitempty"` // as reported by the upstream; 0 if not reported
	RequestID    string         `json:"request_id,omitempty"`    // the upstream's own id of the call; "" if unknown
}

// A Usage is the token usage that the answer reported; with tools, the sum over the answers of all
// rounds.
type Usage struct {
	Found        answer.UsageFinding `json:"found"` // "found", or why the numbers are 0
	Input        int64               `json:"input_tokens"`
	CachedInput  int64               `json:"cached_input_tokens"`             // part of Input
	CacheWrite   int64               `json:"cache_write_tokens,omitempty"`    // part of Input: written into the upstream's cache
	CacheWrite1h int64               `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite
	Output       int64               `json:"output_tokens"`
	Reasoning    int64               `json:"reasoning_tokens"`       // part of Output
	Tier         string              `json:"service_tier,omitempty"` // whose prices applied; "" for the standard ones
	Detail       string              `json:"detail,omitempty"`       // the numbers for which the usage was ignored
	Context      *ContextUsage       `json:"context,omitempty"`      // nil if nothing was added, or no usage was reported
}

// A ContextUsage is the part of a Usage that the added tokens have, estimated by their position in
// the prompt.
type ContextUsage struct {
	Input        int64    `json:"input_tokens"`
	CachedInput  int64    `json:"cached_input_tokens"`
	CacheWrite   int64    `json:"cache_write_tokens,omitempty"`
	CacheWrite1h int64    `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite
	USD          *float64 `json:"usd,omitempty"`                   // nil without prices
}

func contextUsage(c *report.ContextUsage) *ContextUsage {
	if c.Input == 0 {
		return nil
	}
	out := &ContextUsage{Input: c.Input, CachedInput: c.CachedInput, CacheWrite: c.CacheWrite, CacheWrite1h: c.CacheWrite1h}
	if c.Priced {
		usd := float64(c.Cost) / 1e12
		out.USD = &usd
	}
	return out
}

// A CacheMiss says why the upstream's prompt cache missed, as it says.
type CacheMiss struct {
	Reason answer.CacheMiss `json:"reason"`
	Tokens int64            `json:"missed_tokens,omitempty"` // that could have been read from the cache
}

// A Searched is a searched base and its generation.
type Searched struct {
	ID         string `json:"kb_id"`
	Generation string `json:"generation"`
}

// A Ledger is a rewrite.Ledger: its tokens, and its sources with base, document, title, score,
// tokens, and why each is in, cut or out. It has at most 100 sources, 16 edits and 50 chunk ids in
// each list.
type Ledger struct {
	rewrite.Ledger
	Edits []Edit `json:"edits"`
}

// An Edit is a rewrite.Edit without the inserted text.
type Edit struct {
	Name     string `json:"name"`
	Offset   int    `json:"offset"`
	Deleted  int    `json:"deleted"`
	Inserted int    `json:"inserted"`
}

// Timings are in milliseconds. FirstByte and Total start at the end of the request header.
type Timings struct {
	Overhead  float64 `json:"overhead"` // from request read to request handed to the upstream
	Plan      float64 `json:"plan,omitempty"`
	Retrieve  float64 `json:"retrieve"`
	Rerank    float64 `json:"rerank,omitempty"` // part of Retrieve
	Grade     float64 `json:"grade,omitempty"`  // part of Retrieve
	Fit       float64 `json:"fit"`
	Edit      float64 `json:"edit"`
	FirstByte float64 `json:"first_byte"` // of the answer
	Total     float64 `json:"total"`
}

// An Experiment is a comparison of policies in which a request took part.
type Experiment struct {
	Name    string `json:"name"`
	Arm     string `json:"arm"`     // "a" or "b", whose policy the request got
	Counted bool   `json:"counted"` // its outcomes count
}

// A Body is a copy of a request's body.
type Body struct {
	Bytes int    `json:"bytes"` // size of the complete body
	Text  string `json:"text"`  // the part that is kept
}

// newExplanation returns an Explanation that shares no mutable data with r.
func newExplanation(r *entry) *Explanation {
	res := &r.Rewrite
	e := &Explanation{
		Object: "explanation", ID: r.ID, IDs: r.IDs(), Time: r.Time, Tenant: r.Tenant, Policy: r.Policy, PolicyHash: r.PolicyHash,
		Route: r.Route, Mode: r.Mode, Switched: r.SwitchedFrom, Model: r.Model(), Stream: r.Stream, Outcome: r.Outcome, Reason: r.Reason, Rule: res.Ledger.Background, Rung: r.Budget.Rung,
		Status: r.Status, Upstream: r.Upstream, Truncated: r.Truncated, Client: r.Client,
		ToolsSkipped: r.ToolsSkipped, Tools: explainTools(r.Tools), StagesSkipped: r.StagesSkipped, Stages: explainStages(r.Stages, r.Upstream), Citations: r.Citations,
		Refused: r.Refused.Names(), LeftOut: r.LeftOut.Names(), Calls: []Call{}, Cache: res.Retrieval.Cache, Partial: res.Retrieval.Partial, Degraded: res.Retrieval.Degraded,
		Timings: Timings{
			Overhead: report.Milliseconds(r.Overhead), Retrieve: report.Milliseconds(res.RetrieveTook), Fit: report.Milliseconds(res.FitTook), Edit: report.Milliseconds(res.EditTook),
			FirstByte: report.Milliseconds(r.TTFB), Total: report.Milliseconds(r.Total),
		},
	}
	e.Line, e.Caches = r.line(), r.caches()
	if of := r.Experiment; of.Name != "" {
		e.Experiment = &Experiment{of.Name, of.Arm, of.Counted}
	}
	for _, c := range r.Calls {
		e.Calls = append(e.Calls, Call{c.Upstream, c.Purpose, c.Status, report.Milliseconds(c.Took), c.PromptTokens, c.RequestID})
	}
	if p := res.Ledger.Planned; p != nil {
		e.Timings.Plan = report.Milliseconds(p.Took)
	}
	if by := res.Ledger.Reranked; by != nil {
		e.Timings.Rerank = report.Milliseconds(by.Took)
	}
	if by := res.Ledger.Graded; by != nil {
		e.Timings.Grade = report.Milliseconds(by.Took)
	}
	if u := &r.Usage; r.UsageFound != "" {
		e.Usage = &Usage{r.UsageFound, u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, r.Budget.Tier, r.UsageDetail, contextUsage(&r.Context)}
	}
	if m := r.CacheMiss; m.Reason != "" {
		e.CacheMiss = &CacheMiss{m.Reason, m.Tokens}
	}
	if res.Ambiguity != nil {
		e.Detail = short(res.Ambiguity.Message)
	}
	for _, ref := range res.Retrieval.Bases {
		e.Knowledge = append(e.Knowledge, Searched{ref.Knowledge, ref.Generation})
	}
	if r.rewritten {
		l := res.Ledger
		e.Ledger = &Ledger{l.WithExcluded(), r.edits}
	}
	return e
}
