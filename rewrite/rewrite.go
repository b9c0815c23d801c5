// Package rewrite turns a chat request into the same request with sources in
// it: parse to byte offsets, fit what was retrieved into a token budget, edit.
// A rewrite is a short list of byte edits; outside them not one byte differs.
//
// It knows nothing of HTTP, tenants' keys or how sources are found.
package rewrite

import (
	"context"
	"time"

	"sidenote/retrieval"
)

// MaxDepth is how deeply a body may nest before it is left alone.
const MaxDepth = 64

// A BodyError says why a body is not rewritten. Under a strict policy it is a
// 400 (413 for ReasonTooLarge), otherwise the body is relayed as it came.
type BodyError struct {
	Reason  Reason // not-json, not-chat, ambiguous-body, too-deep
	Param   string // the field, "messages[2].content"; "" for the whole body
	Message string // for people, naming the value
}

func (e *BodyError) Error() string { return e.Message }

// A Rewriter decides what is added to a request. It is safe for concurrent use.
type Rewriter struct {
	Retriever retrieval.Retriever
	Models    Models
}

// Models resolves a model's name to how its tokens are counted.
type Models interface {
	Model(name string) Model
}

// A Model is what the rewrite needs to know of a model.
type Model struct {
	Row       string // matched row of the model table, "other" when none: the metric label
	Encoding  string // "o200k_base"
	Window    int    // tokens; 0 is unknown
	Estimated bool   // no public tokenizer: counts carry a margin
	Counter   retrieval.Counter
}

// A Result is everything that is known of one rewrite.
type Result struct {
	Outcome   Outcome // Injected, Untouched, Answered or Refused
	Reason    Reason  // why not Injected; of an Injected one, why it is not whole ("" when it is)
	Edits     []Edit  // apply them with Apply; also set when Untouched (strip-field, marker)
	Ledger    Ledger
	Model     Model
	Retrieval retrieval.Result

	RetrieveTook, FitTook, EditTook time.Duration
}

// Rewrite decides what is added to req under p, already narrowed by o.
//
// It does not fail: whatever goes wrong is in the Result, whose edits are valid
// in any case. Mode is not looked at; a caller that only watches applies
// StripEdits instead.
func (rw *Rewriter) Rewrite(ctx context.Context, p Policy, req *Request, o Options) Result {
	j := job{policy: p, req: req, model: rw.Models.Model(req.Model), exact: true}
	start := time.Now()
	var text, previous string
	text, previous, j.last = req.question()
	if o.Query != "" {
		text, previous = o.Query, ""
	}
	j.query = text
	res := Result{Model: j.model}
	res.Retrieval = rw.retrieve(ctx, &j, text, previous)
	res.RetrieveTook = time.Since(start)

	start = time.Now()
	j.decide(&res)
	res.FitTook = time.Since(start)

	start = time.Now()
	res.Edits = j.edits(res.Outcome)
	res.EditTook = time.Since(start)
	j.account(&res)
	return res
}

// retrieve asks for sources. Failing open is data: the reason is in the Result.
func (rw *Rewriter) retrieve(ctx context.Context, j *job, text, previous string) retrieval.Result {
	switch {
	case len(j.policy.Knowledge) == 0:
		return retrieval.Result{Reason: retrieval.ReasonNoKnowledge, Cache: retrieval.CacheOff}
	case text == "":
		return retrieval.Result{Reason: retrieval.Reason(ReasonNoQuery), Cache: retrieval.CacheOff}
	}
	bases := make([]retrieval.Ref, len(j.policy.Knowledge))
	for i, id := range j.policy.Knowledge {
		bases[i].Knowledge = id
	}
	found, err := rw.Retriever.Retrieve(ctx, retrieval.Query{
		Tenant: j.policy.Tenant, Bases: bases, Text: text, Previous: previous,
		Encoding: j.model.Encoding, Settings: j.policy.Search,
	})
	if err != nil && !found.Reason.Failed() {
		found.Reason = retrieval.ReasonError
	}
	return found
}

// decide turns what was found into an outcome and, if something goes in, fits it.
func (j *job) decide(res *Result) {
	found := res.Retrieval
	res.Reason = Reason(found.Reason)
	if found.Reason.Failed() && j.policy.RefuseOnFailure {
		res.Outcome = Refused
		return
	}
	sources, present := j.req.absent(found.Sources, j.last)
	j.present = present
	empty := len(found.Sources) == 0 && !found.Reason.Failed()
	if empty && j.policy.Empty() == EmptyRefuse {
		res.Outcome = Answered
		return
	}
	if len(sources) == 0 && len(present) > 0 && res.Reason == "" {
		res.Reason = ReasonPresent
	}
	res.Outcome = Untouched
	demand := j.prepare(sources, empty && j.policy.Empty() == EmptyNotice)
	if demand && j.assemble() {
		res.Outcome = Injected
	} else if demand && (res.Reason == "" || len(sources) > 0) {
		res.Reason = ReasonBudget
	}
}
