// Package replay runs recorded requests through a policy again, without an upstream and without
// caches, and compares what they would be given with what they were given. It also writes recorded
// questions as a test set.
package replay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/explain"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// Errors of Replayer.Resolve. They wrap the name.
var (
	ErrTenant = errors.New("no such tenant")
	ErrPolicy = errors.New("no such policy")
)

// A Replayer replays records. It is safe for concurrent use.
type Replayer struct {
	Runner explain.DryRunner
	// Resolve returns the policy of a tenant's requests as if the tenant used the named policy. The
	// result is not changed.
	Resolve func(tenant, policy string) (*tenant.Policy, error)
	// Redact returns the function that redacts the texts of a policy's records.
	Redact func(policy string) func(text string) string

	Policy  string // replaces that of the records; "" keeps it
	Model   string // replaces that of the records; "" keeps it
	Helpers bool   // ask planners, rerankers and graders too
	Ask     *Asker // asks the model; nil: nobody is asked
}

// An Outcome is what became of one record.
type Outcome struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Tenant   string    `json:"tenant"`
	Question string    `json:"question"`
	Earlier  []string  `json:"earlier,omitempty"`

	Skipped      *Cause `json:"-"` // why it was not replayed; nil if it was
	Incomparable *Cause `json:"-"` // why a difference says nothing about the policy

	Change    float64  `json:"change"`    // see ChangeMeasure
	Identical bool     `json:"identical"` // the added text is the same, byte for byte
	SameInput bool     `json:"same_input"`
	Sources   []Source `json:"sources"`
	Before    Side     `json:"before"`
	Now       Side     `json:"now"`
	Answer    *Answer  `json:"answer,omitempty"` // if the model was asked

	changedBases map[string]bool // by id, whether the generation differs
	notAsked     []string        // helpers of the policy that were not asked
}

// A Side is a request as it was recorded, or as it would be now.
type Side struct {
	Policy    string          `json:"policy"`
	Model     string          `json:"model"`
	Row       string          `json:"row"`
	Outcome   rewrite.Outcome `json:"outcome"`
	Reason    rewrite.Reason  `json:"reason,omitempty"`
	Sources   int             `json:"sources"`
	Tokens    int             `json:"tokens"` // by which the prompt grew
	CostUSD   *float64        `json:"context_cost_usd,omitempty"`
	Retrieval float64         `json:"retrieval_ms"`
	Block     string          `json:"block"` // the added text
}

// A Cause says why a record is not replayed or not compared.
type Cause struct {
	Code  string   // from a closed list
	Names []string // what is concerned, such as a tenant
}

// The codes of causes for which a record is not replayed.
const (
	CauseTenant  = "unknown_tenant"
	CausePolicy  = "unknown_policy"
	CauseBases   = "not_searched" // the policy has none of the bases that were searched
	CauseClaims  = "claims"       // what may be seen depends on the caller's token, which is not recorded
	CauseUnread  = "unreadable"
	CauseRefused = "refused" // the policy refuses the request
)

// The codes of causes for which a record is not compared.
const (
	CauseThen     = "not_searched_then" // nothing was searched when it was recorded
	CauseDegraded = "degraded_then"     // the search failed in part or whole when it was recorded
	CauseFailing  = "failed_now"        // the search fails now
	CauseHelpers  = "helpers"           // planner, reranker or grader were not asked
	CauseRepeat   = "earlier_sources"   // sources of earlier turns were given again
	CauseTools    = "tools"             // the model called tools
	CausePresent  = "already_there"     // the messages, which are not recorded, held sources
	CauseRedacted = "redacted"          // the texts that were searched are redacted
	CauseTexts    = "other_texts"       // the block depends on parts of the request that are not recorded
)

// Replay replays a record.
func (r *Replayer) Replay(ctx context.Context, rec *record.Record) *Outcome {
	o := &Outcome{
		ID: rec.ID, Time: rec.Time, Tenant: rec.Tenant, Question: rec.Question, Earlier: rec.Earlier,
		Before: Side{
			Policy: rec.Policy, Model: rec.Model, Row: rec.Row, Outcome: rec.Outcome, Reason: rec.Reason, Sources: len(rec.Sources), Tokens: rec.Tokens,
			Retrieval: rec.RetrievalMS, Block: rec.Block,
		},
	}
	p, cause := r.policyOf(rec)
	if cause != nil {
		o.Skipped = cause
		return o
	}
	run := attempt{Replayer: r, rec: rec, policy: p}
	if o.Skipped = run.prepare(); o.Skipped != nil {
		return o
	}
	now, err := run.closest(ctx, o)
	if err != nil {
		o.Skipped = &Cause{CauseRefused, []string{refusal(err)}}
		return o
	}
	o.Before.CostUSD, o.Now.CostUSD = cost(p, o.Before.Tokens, rec.Model, rec.Row), cost(p, o.Now.Tokens, o.Now.Model, o.Now.Row)
	o.Incomparable = run.incomparable(o, now)
	if r.Ask != nil {
		o.Answer = r.Ask.ask(ctx, &run, now)
	}
	return o
}

// policyOf returns the policy under which a record is replayed, with the record's filter.
func (r *Replayer) policyOf(rec *record.Record) (*tenant.Policy, *Cause) {
	name := cmp.Or(r.Policy, rec.Policy)
	p, err := r.Resolve(rec.Tenant, name)
	switch {
	case errors.Is(err, ErrTenant):
		return nil, &Cause{CauseTenant, []string{rec.Tenant}}
	case err != nil:
		return nil, &Cause{CausePolicy, []string{name}}
	case p.WithoutClaims() != nil:
		return nil, &Cause{CauseClaims, []string{rec.Tenant}}
	}
	if bases := missing(rec, p.Rewrite.Knowledge); len(bases) > 0 {
		return nil, &Cause{CauseBases, bases}
	}
	if len(rec.Filter) == 0 {
		return p, nil
	}
	limit, err := filter.Parse(rec.Filter)
	if err != nil {
		return nil, &Cause{CauseUnread, []string{"filter: " + err.Error()}}
	}
	if limit.NamesClaims() {
		return nil, &Cause{CauseClaims, []string{rec.Tenant}}
	}
	return limited(p, limit), nil
}

// missing returns the bases of a record if the policy has none of them.
func missing(rec *record.Record, has []string) []string {
	ids := make([]string, len(rec.Bases))
	for i := range rec.Bases {
		ids[i] = rec.Bases[i].ID
	}
	if len(ids) == 0 && rec.Asked != nil {
		ids = rec.Asked.Knowledge
	}
	if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(has, id) }) {
		return nil
	}
	return ids
}

// limited returns a policy in which a filter holds, too.
func limited(p *tenant.Policy, by *filter.Filter) *tenant.Policy {
	out := *p
	out.Rewrite.Filter = filter.AllOf(p.Rewrite.Filter, by)
	out.Overrides = slices.Clone(p.Overrides)
	for i := range out.Overrides {
		out.Overrides[i].Policy = limited(out.Overrides[i].Policy, by)
	}
	return &out
}

// cost returns what tokens of a prompt cost, or nil if the model has no price.
func cost(p *tenant.Policy, tokens int, names ...string) *float64 {
	prices, ok := p.Budget.Prices.Find(names...)
	if !ok {
		return nil
	}
	amount, err := prices.Prices.Cost(budget.Tokens{Input: int64(tokens)})
	if err != nil {
		return nil
	}
	usd := float64(amount) / float64(budget.Dollar)
	return &usd
}

// refusal returns the reason of an error that a client would get.
func refusal(err error) string {
	if api, ok := errors.AsType[*tenant.APIError](err); ok {
		return cmp.Or(string(api.Reason), api.Message)
	}
	return err.Error()
}

// An attempt is the replay of one record under a policy.
type attempt struct {
	*Replayer
	rec    *record.Record
	policy *tenant.Policy
	run    explain.DryRunRequest
	whole  bool // the body is as received, and tells all that was asked
}

// prepare makes the request. It returns why it cannot.
func (a *attempt) prepare() *Cause {
	api, err := apiOf(a.rec.API)
	var options rewrite.Options
	if err == nil {
		options, err = optionsOf(a.rec.Asked)
	}
	var body []byte
	if err == nil {
		a.whole = isWhole(a.rec, api)
		body, err = a.body(api, surroundings{system: true})
	}
	if err != nil {
		return &Cause{CauseUnread, []string{err.Error()}}
	}
	if a.Ask != nil { // it asks once, without tools and stages
		inject := rewrite.Inject
		if options.Mode == nil || *options.Mode > inject {
			options.Mode = &inject
		}
	}
	if a.Ask != nil && a.whole { // answers are read whole
		if body, err = withMembers(body, map[string]any{"stream": nil, "stream_options": nil}); err != nil {
			return &Cause{CauseUnread, []string{err.Error()}}
		}
	}
	a.run = explain.DryRunRequest{Policy: a.policy, Body: body, API: &api, Options: options, SkipHelpers: !a.Helpers}
	return nil
}

// closest replays the request and sets o. Of a question alone it is not known what else was in the
// request. So if the policy and the bases are as they were, but the added text is not, the record's
// limit and other chats are tried.
func (a *attempt) closest(ctx context.Context, o *Outcome) (*explain.DryRunResult, error) {
	now, err := a.replay(ctx, o, a.run)
	if err != nil || !o.SameInput || o.Identical {
		return now, err
	}
	if limit := a.rec.Budget; limit > 0 && limit < now.Rewrite.Ledger.Budget {
		a.run.ContextTokens = limit
		if now, err = a.replay(ctx, o, a.run); err != nil || o.Identical {
			return now, err
		}
	}
	if a.whole {
		return now, nil
	}
	for _, around := range otherSurroundings {
		other, again := *o, a.run
		if again.Body, err = a.body(*again.API, around); err != nil {
			return nil, err
		}
		if as, err := a.replay(ctx, &other, again); err == nil && other.Identical {
			*o, a.run = other, again
			return as, nil
		}
	}
	return now, nil
}

// replay runs a request and sets what o has of it.
func (a *attempt) replay(ctx context.Context, o *Outcome, run explain.DryRunRequest) (*explain.DryRunResult, error) {
	now, err := a.Runner.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	res := &now.Rewrite
	given := givenBy(res)
	o.Sources = align(a.rec.Sources, given, now.Rules.Knowledge)
	o.Change = changeOf(o.Sources)
	block := insertedBy(res)
	if a.Redact != nil {
		block = a.Redact(cmp.Or(a.rec.By, a.rec.Policy))(block)
	}
	o.Now = Side{
		Policy: now.Policy, Model: cmp.Or(a.Model, a.rec.Model), Row: res.Model.Row, Outcome: now.Outcome, Reason: now.Reason, Sources: len(given),
		Tokens: res.Ledger.Grown(), Retrieval: report.Milliseconds(res.RetrieveTook), Block: block,
	}
	if o.Identical = block == a.rec.Block; o.Identical && o.Now.Row == a.rec.Row {
		o.Now.Tokens = a.rec.Tokens // the message that it was added to may differ
	}
	o.changedBases = changedBases(a.rec.Bases, res.Retrieval.Bases)
	o.SameInput = a.rec.Hash == now.PolicyHash && a.rec.Row == o.Now.Row && sameBases(a.rec.Bases, res.Retrieval.Bases)
	o.notAsked = nil
	if now.HelpersSkipped {
		o.notAsked = helpersOf(&a.policy.Rewrite)
	}
	return &now, nil
}

// insertedBy returns the text that a rewrite adds, as a record has it.
func insertedBy(res *rewrite.Result) string {
	switch {
	case res.Block != nil:
		return chat.Unescape(res.Block)
	case res.Outcome == rewrite.Injected:
		return rewrite.InsertedText(res.Edits)
	}
	return ""
}

// helpersOf names the services that a policy asks before and after the search.
func helpersOf(p *rewrite.Policy) (names []string) {
	for _, of := range []struct {
		name string
		used bool
	}{{"planner", p.Planner.MaxQueries > 0}, {"reranker", p.Rerank.Documents > 0}, {"grader", p.Grade.By != retrieval.GradeByNobody}} {
		if of.used {
			names = append(names, of.name)
		}
	}
	return names
}

// givenBy returns the sources in a prompt, in the order of their ids.
func givenBy(res *rewrite.Result) []record.Source {
	var given []record.Source
	for i := range res.Ledger.Sources {
		if s := &res.Ledger.Sources[i]; s.ID > 0 {
			given = append(given, record.Source{ID: s.ID, Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Relevance: s.Relevance, Tokens: s.Tokens})
		}
	}
	slices.SortStableFunc(given, func(a, b record.Source) int { return a.ID - b.ID })
	return given
}

// changedBases returns for each base that was and is searched whether its generation has changed.
func changedBases(before []record.Base, now []retrieval.Ref) map[string]bool {
	changed := make(map[string]bool, len(now))
	for _, ref := range now {
		if i := slices.IndexFunc(before, func(b record.Base) bool { return b.ID == ref.Knowledge }); i >= 0 {
			changed[ref.Knowledge] = before[i].Generation != ref.Generation
		}
	}
	return changed
}

// sameBases reports whether the same generations of the same bases were searched.
func sameBases(before []record.Base, now []retrieval.Ref) bool {
	return len(before) == len(now) && !slices.ContainsFunc(now, func(ref retrieval.Ref) bool {
		return !slices.Contains(before, record.Base{ID: ref.Knowledge, Generation: ref.Generation})
	})
}

// incomparable returns why a difference between then and now says nothing about the policy; nil if it
// does, or if there is none.
func (a *attempt) incomparable(o *Outcome, now *explain.DryRunResult) *Cause {
	rec := a.rec
	switch then, is := retrieval.Reason(rec.Reason), now.Rewrite.Retrieval.Reason; {
	case o.Identical && o.Change == 0:
		return nil
	case then.Failed():
		return &Cause{CauseDegraded, []string{string(then)}}
	case rec.Degraded != "":
		return &Cause{CauseDegraded, []string{rec.Degraded}}
	case is.Failed():
		return &Cause{CauseFailing, []string{string(is)}}
	case failed(now) != "":
		return &Cause{CauseFailing, []string{failed(now)}}
	case !searched(rec):
		return &Cause{CauseThen, []string{string(cmp.Or(rec.Reason, rewrite.Reason(rec.Outcome)))}}
	case len(o.notAsked) > 0:
		return &Cause{CauseHelpers, o.notAsked}
	case rec.Mode == rewrite.Tools.String() && len(rec.Sources) > 0:
		return &Cause{Code: CauseTools}
	case !a.whole && len(rec.Earlier) > 0 && now.Rules.Repeat == rewrite.RepeatKeep:
		return &Cause{Code: CauseRepeat}
	case !a.whole && rec.Reason == rewrite.ReasonPresent:
		return &Cause{Code: CausePresent}
	case redacted(rec):
		return &Cause{Code: CauseRedacted}
	case !a.whole && o.SameInput && (o.Change == 0 || len(rec.Earlier) > 0 || adds(o.Sources)):
		return &Cause{Code: CauseTexts}
	}
	return nil
}

// failed returns the helper, or the stage of the search, that failed in a replay; "" for none.
func failed(now *explain.DryRunResult) string {
	return cmp.Or(string(now.Rewrite.Retrieval.Degraded), string(now.PlanFailed()), string(now.RerankFailed()), string(now.GradeFailed()))
}

// adds reports whether all sources are still there, and more: some may have been left out, as the
// messages held them or there was less room.
func adds(sources []Source) bool {
	return !slices.ContainsFunc(sources, func(s Source) bool { return s.Now == 0 })
}

// redacted reports whether texts that were searched for are not recorded as they were.
func redacted(rec *record.Record) bool {
	asked := rec.Asked != nil && record.IsRedacted(rec.Asked.Query)
	return asked || record.IsRedacted(rec.Question) || record.IsRedacted(string(rec.Filter)) || slices.ContainsFunc(rec.Earlier, record.IsRedacted)
}

// searched reports whether the search for a record was complete.
func searched(rec *record.Record) bool {
	return len(rec.Sources) > 0 || len(rec.Bases) > 0 || retrieval.Reason(rec.Reason) == retrieval.ReasonNoQueryTerms ||
		rec.Reason != "" && retrieval.Reason(rec.Reason).Searched()
}
