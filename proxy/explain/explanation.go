package explain

import (
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// An Explanation is what is known of one request that has ended: its report.Report, for
// people and programs. It holds no key and no header.
type Explanation struct {
	Object     string          `json:"object"` // "explanation"
	ID         string          `json:"id"`     // the Sidenote-Id of the answer
	Time       time.Time       `json:"time"`   // when the head of the request had been read
	Tenant     string          `json:"tenant"` // "" if the caller was refused
	Policy     string          `json:"policy"`
	PolicyHash string          `json:"policy_hash"`
	Route      route.Kind      `json:"route"`
	Mode       string          `json:"mode,omitempty"`          // of a chat: the policy's, or less if the request asked for less
	Switched   string          `json:"switched_from,omitempty"` // the policy's mode, where the kill switch has lowered it
	Model      string          `json:"model"`                   // row of the model table; the ledger has the name in the request
	Stream     bool            `json:"stream"`
	Outcome    rewrite.Outcome `json:"outcome"`
	Reason     rewrite.Reason  `json:"reason,omitempty"` // why there are no sources, or not all, or no answer
	Detail     string          `json:"detail,omitempty"` // of the reason ambiguous-body: what two parsers could read differently
	Rung       string          `json:"ladder,omitempty"` // of the ladder, by which the request was made cheaper to fit its tenant's limits

	Status    int              `json:"status"`    // of the answer; 499: the client left before it
	Upstream  string           `json:"upstream"`  // name; "": none was chosen
	Calls     []Call           `json:"calls"`     // to the upstream, in their order
	Truncated bool             `json:"truncated"` // the upstream's answer ended before its end
	Client    report.ClientEnd `json:"client"`

	Cache     retrieval.CacheState   `json:"cache,omitempty"`
	Caches    []CacheUse             `json:"caches,omitempty"`   // what each of them said
	Partial   bool                   `json:"partial"`            // not all knowledge could be searched in time
	Degraded  retrieval.Stage        `json:"degraded,omitempty"` // the stage that the search did without
	Knowledge []Searched             `json:"knowledge,omitempty"`
	Ledger    *Ledger                `json:"ledger,omitempty"`        // nil if no rewrite was tried
	Usage     *Usage                 `json:"usage,omitempty"`         // nil if there was no answer that could tell it
	Citations *answer.CitationReport `json:"citations,omitempty"`     // nil where they were not checked
	Unoffered string                 `json:"unoffered,omitempty"`     // why no tools were offered though the policy does
	Refused   []string               `json:"refused_edits,omitempty"` // that the upstream refused, and that were left out when it was asked again
	LeftOut   []string               `json:"left_out,omitempty"`      // edits that the upstream had refused in an earlier request
	Tools     *Tools                 `json:"tools,omitempty"`         // nil where none were offered
	Unstaged  string                 `json:"unstaged,omitempty"`      // why the chat was not answered in stages though the policy wants it
	Stages    *Stages                `json:"stages,omitempty"`        // nil where it was not answered in any
	Timings   Timings                `json:"timings_ms"`

	// Of a chat, if bodies are kept. Received is as it came, or uncompressed; Sent as it
	// went upstream the last time, nil if it did not.
	Received *Body `json:"received,omitempty"`
	Sent     *Body `json:"sent,omitempty"`
	// Answer is what the model said: in its last round, or in the stage whose output is the answer.
	Answer *Answer `json:"answer,omitempty"`

	Line string `json:"-"` // the Sidenote-Status of the answer, with what was known at its end
}

// An Answer is what is kept of what the first choice of an answer said, before citations were removed
// from it.
type Answer struct {
	Bytes  int               `json:"bytes"` // of the text, as it was
	Text   string            `json:"text"`  // what is kept of it
	Finish string            `json:"finish,omitempty"`
	Unread answer.TextUnread `json:"unread,omitempty"` // why the text is not known
}

// A Call is one request to an upstream.
type Call struct {
	Upstream     string         `json:"upstream"`
	Purpose      report.Purpose `json:"purpose"`
	Status       int            `json:"status,omitempty"`        // of the answer; 0: there was none
	Took         float64        `json:"took_ms"`                 // to the head of the answer, or to the error
	PromptTokens int            `json:"prompt_tokens,omitempty"` // as the upstream told them; 0: it did not
}

// A Usage is what the answer used, in tokens, as it told it; with tools, the answers of all rounds
// together.
type Usage struct {
	Found        answer.UsageFinding `json:"found"` // "found", or why the numbers are 0
	Input        int64               `json:"input_tokens"`
	CachedInput  int64               `json:"cached_input_tokens"`             // part of Input
	CacheWrite   int64               `json:"cache_write_tokens,omitempty"`    // likewise: written into the upstream's cache
	CacheWrite1h int64               `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite
	Output       int64               `json:"output_tokens"`
	Reasoning    int64               `json:"reasoning_tokens"`       // part of Output
	Tier         string              `json:"service_tier,omitempty"` // by whose prices it was charged; "": by the usual ones
}

// A Searched is a base that was searched, with its generation.
type Searched struct {
	ID         string `json:"kb_id"`
	Generation string `json:"generation"`
}

// A Ledger is a rewrite.Ledger: its sources, each with base, document, title, score,
// tokens, and why it is in, cut or out, and its tokens. It has at most 100 sources, 16
// edits and 50 ids of chunks in each of their lists.
type Ledger struct {
	rewrite.Ledger
	Edits []Edit `json:"edits"`
}

// An Edit is a rewrite.Edit without the text that it inserted.
type Edit struct {
	Name     string `json:"name"`
	Offset   int    `json:"offset"`
	Deleted  int    `json:"deleted"`
	Inserted int    `json:"inserted"`
}

// Timings are in milliseconds. The first byte and the total count from the end of the
// request's head.
type Timings struct {
	Overhead  float64 `json:"overhead"` // from request read to request handed to the upstream
	Plan      float64 `json:"plan,omitempty"`
	Retrieve  float64 `json:"retrieve"`
	Rerank    float64 `json:"rerank,omitempty"` // part of Retrieve
	Grade     float64 `json:"grade,omitempty"`  // likewise
	Fit       float64 `json:"fit"`
	Edit      float64 `json:"edit"`
	FirstByte float64 `json:"first_byte"` // of the answer
	Total     float64 `json:"total"`
}

// A Body is a copy of a request's body.
type Body struct {
	Bytes int    `json:"bytes"` // as it was
	Text  string `json:"text"`  // what is kept of it
}

// newExplanation returns a value that shares nothing with r which is ever changed.
func newExplanation(r *entry) *Explanation {
	res := &r.Rewrite
	e := &Explanation{
		Object: "explanation", ID: r.ID, Time: r.Time, Tenant: r.Tenant, Policy: r.Policy, PolicyHash: r.PolicyHash,
		Route: r.Route, Mode: r.Mode, Switched: r.SwitchedFrom, Model: r.Model(), Stream: r.Stream, Outcome: r.Outcome, Reason: r.Reason, Rung: r.Budget.Rung,
		Status: r.Status, Upstream: r.Upstream, Truncated: r.Truncated, Client: r.Client,
		Unoffered: r.Unoffered, Tools: explainTools(r.Tools), Unstaged: r.Unstaged, Stages: explainStages(r.Stages, r.Upstream), Citations: r.Citations,
		Refused: r.Refused.Names(), LeftOut: r.LeftOut.Names(), Calls: []Call{}, Cache: res.Retrieval.Cache, Partial: res.Retrieval.Partial, Degraded: res.Retrieval.Degraded,
		Timings: Timings{
			Overhead: report.Milliseconds(r.Overhead), Retrieve: report.Milliseconds(res.RetrieveTook), Fit: report.Milliseconds(res.FitTook), Edit: report.Milliseconds(res.EditTook),
			FirstByte: report.Milliseconds(r.TTFB), Total: report.Milliseconds(r.Total),
		},
	}
	e.Line, e.Caches = r.line(), r.caches()
	for _, c := range r.Calls {
		e.Calls = append(e.Calls, Call{c.Upstream, c.Purpose, c.Status, report.Milliseconds(c.Took), c.PromptTokens})
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
		e.Usage = &Usage{r.UsageFound, u.Input, u.CachedInput, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, r.Budget.Tier}
	}
	if res.Ambiguity != nil {
		e.Detail = short(res.Ambiguity.Message)
	}
	for _, ref := range res.Retrieval.Bases {
		e.Knowledge = append(e.Knowledge, Searched{ref.Knowledge, ref.Generation})
	}
	if r.rewritten {
		l := res.Ledger
		e.Ledger = &Ledger{l.Whole(), r.edits}
	}
	return e
}
