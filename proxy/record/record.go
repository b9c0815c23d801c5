// Package record keeps questions of real traffic for those who own the knowledge bases: what was
// asked, what was given, what was cited and how it ended.
package record

import (
	"encoding/json"
	"iter"
	"time"

	"sidenote/rewrite"
)

// A Record is one recorded request. Its texts are redacted as the policy demands.
type Record struct {
	ID     string    `json:"id"` // of the request, as in Sidenote-Id
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant"`
	Policy string    `json:"policy"`                // that the request was served by
	By     string    `json:"-"`                     // policy that recorded it, set by a Reader: another one in an experiment
	Hash   string    `json:"policy_hash,omitempty"` // of the policy's settings
	API    string    `json:"api,omitempty"`         // "" for chat completions, as report.Report.API
	Model  string    `json:"model"`                 // as named in the request
	Row    string    `json:"row,omitempty"`         // of the model table
	Mode   string    `json:"mode"`
	Stream bool      `json:"stream,omitempty"`

	Question string          `json:"question"`
	Earlier  []string        `json:"earlier,omitempty"` // the user's earlier messages, first message first
	Filter   json.RawMessage `json:"filter,omitempty"`  // in force, as in the ledger
	Asked    *Asked          `json:"asked,omitempty"`   // what the request asked for; nil for nothing
	Bases    []Base          `json:"bases,omitempty"`   // that were searched

	Degraded string `json:"degraded,omitempty"` // what failed or was late in the search, so that it found other sources; "" for nothing

	Outcome rewrite.Outcome `json:"outcome"`
	Reason  rewrite.Reason  `json:"reason,omitempty"`
	Status  int             `json:"status"`
	Sources []Source        `json:"sources,omitempty"` // in the prompt, and in tool results, in order of ids
	Block   string          `json:"block,omitempty"`   // the text that was added to the prompt
	Tokens  int             `json:"tokens"`            // by which the prompt grew
	Budget  int             `json:"budget,omitempty"`  // context_tokens in force

	Checked bool `json:"checked,omitempty"`           // citations of the answer were read
	Unknown int  `json:"unknown_citations,omitempty"` // citations of sources that do not exist

	PromptTokens     int     `json:"prompt_tokens,omitempty"` // as billed
	CompletionTokens int     `json:"completion_tokens,omitempty"`
	Cost             float64 `json:"cost_usd,omitempty"`

	RetrievalMS float64 `json:"retrieval_ms"`
	OverheadMS  float64 `json:"overhead_ms"` // from request read to request handed to the upstream
	TotalMS     float64 `json:"total_ms"`

	Experiment string `json:"experiment,omitempty"` // of which the request was a part
	Arm        string `json:"arm,omitempty"`        // "a" or "b"

	Body      json.RawMessage `json:"body,omitempty"`       // the request as received, if bodies are recorded; nil if it is too long
	BodyBytes int             `json:"body_bytes,omitempty"` // of the request as received, decompressed

	Feedback *float64 `json:"feedback,omitempty"` // the application's score of the answer, -1 to 1; nil if it gave none
}

// Asked is what a request asked for by options of its own.
type Asked struct {
	Mode          string          `json:"mode,omitempty"`
	Knowledge     []string        `json:"knowledge,omitempty"`
	ContextTokens int             `json:"context_tokens,omitempty"`
	Query         string          `json:"query,omitempty"`
	Filters       json.RawMessage `json:"filters,omitempty"`
}

// SearchText returns the text that was searched for and the earlier messages to which it may refer. A
// request's own query refers to none.
func (r *Record) SearchText() (text string, earlier []string) {
	if r.Asked != nil && r.Asked.Query != "" {
		return r.Asked.Query, nil
	}
	return r.Question, r.Earlier
}

// A Base is a knowledge base in the state that was searched.
type Base struct {
	ID         string `json:"id"`
	Generation string `json:"generation"`
}

// A Source is a chunk that the model was given.
type Source struct {
	ID        int      `json:"id"` // in the prompt
	Knowledge string   `json:"kb_id"`
	Doc       string   `json:"doc_id"`
	Chunk     int      `json:"chunk"`
	Name      string   `json:"name,omitempty"`
	Section   string   `json:"section,omitempty"`
	Relevance float64  `json:"relevance"` // 0 to 1, as rewrite.SourceEntry
	Tokens    int      `json:"tokens"`
	Cited     int      `json:"cited,omitempty"`   // number of citations in the answer
	Support   *float64 `json:"support,omitempty"` // as rewrite.SourceEntry
}

// Cites reports whether the answer cites a source.
func (r *Record) Cites() bool {
	for i := range r.Sources {
		if r.Sources[i].Cited > 0 {
			return true
		}
	}
	return false
}

// A Query chooses records.
type Query struct {
	Since, Until time.Time // zero: no bound
	Policy       string    // that requests were served by; "" for all
	Tenant       string    // "" for all
}

// A Store reads recorded requests.
type Store interface {
	// All yields the records that q chooses, oldest first. It ends with the first error; damaged
	// parts that can be skipped are no error.
	All(q Query) iter.Seq2[*Record, error]
}
