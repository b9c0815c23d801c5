// Package rewrite adds sources to a chat request. It parses the request into byte
// offsets, fits the retrieved sources into a token budget and returns a short list of
// byte edits. Outside the edits not one byte changes.
//
// It knows nothing of HTTP, tenants' keys or how sources are found.
package rewrite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/tracing"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/similar"
)

// A Rewriter decides what is added to a request. It is safe for concurrent use.
type Rewriter struct {
	Retriever   retrieval.Retriever
	Models      Models
	Calibration *model.Tracker // learns what upstreams bill; nil disables calibration

	memo    memo
	costs   model.CostCounter
	counts  sync.Map // token counts of chunks: encoding → *tokens.Cache
	samples atomic.Uint64
	jobs    sync.Pool // of *job
}

// Models looks up the properties of a model by name, such as how its tokens are counted.
type Models interface {
	Model(name string) model.Model
}

// A Result is the outcome of one rewrite.
type Result struct {
	Outcome   Outcome     // Injected, Untouched, Answered or Refused
	Reason    Reason      // why nothing was injected or, if Injected, what is missing ("" for nothing)
	Ambiguity *chat.Error // with ReasonAmbiguous: what two parsers could read differently
	Edits     []Edit      // to be applied with ApplyEdits; also set when Untouched (strip-field, marker)
	Ledger    Ledger
	Model     model.Model
	Retrieval retrieval.Result
	Earlier   *EarlierSources // what later turns repeat; nil if nothing
	Block     []byte          // in mode Staged: the inserted text as in a JSON string, without the line feeds around it

	RetrieveTook, FitTook, EditTook time.Duration
	FitCached                       bool // the fit was reused from an equal request
}

// Rewrite decides what to add to req under policy p, which the caller has already narrowed by o,
// and overwrites res with the outcome. It changes neither p nor o; they and res are large, hence
// the pointers.
//
// It does not fail: res reports what went wrong, and its edits are valid in any case. It ignores
// p.Mode except for Block; in shadow mode the caller applies StripEdits instead of res.Edits.
func (rw *Rewriter) Rewrite(ctx context.Context, p *Policy, req *chat.Request, o *Options, res *Result) {
	*res = Result{}
	j := rw.begin(p, req)
	j.taken, j.held, j.given = o.ChunkResult, o.Earlier, o.Given
	j.before, j.lastID = o.EarlierSources, o.LastID
	rw.rewrite(ctx, j, o.Query, res)
	o.ChunkResult.Record(&res.Ledger)
	rw.release(j)
}

func (rw *Rewriter) rewrite(ctx context.Context, j *job, asked string, res *Result) {
	p, req := j.policy, j.req
	start := time.Now()
	j.query, j.last = req.Question()
	if j.last < 0 && len(j.held) > 0 { // a round of a tool loop whose question the upstream holds
		j.query, j.held = j.held[0], j.held[1:]
	}
	if asked != "" {
		j.query = asked
	} else {
		rw.readEarlier(j)
	}
	j.wanted = j.wants()
	j.placement = placement(req, p, j.wanted, &j.model, j.last)
	if j.cites = j.canCite(); j.cites {
		j.placement = PlaceSplit
	}
	j.findMark()
	res.Model = j.model
	if res.Ambiguity = j.ambiguity(asked != ""); res.Ambiguity != nil {
		res.Outcome, res.Reason, res.Edits = Untouched, res.Ambiguity.Reason, StripEdits(req, p.Placement)
		if p.Strict() {
			res.Outcome = Refused
		}
		j.account(res, nil)
		return
	}
	rw.retrieve(ctx, j, &res.Retrieval)
	if planned := res.Retrieval.Planned; planned != nil {
		start = start.Add(planned.Took) // reported separately
	}
	res.RetrieveTook = time.Since(start)

	if j.window = (model.Window{Size: j.model.Window, Check: model.CheckNone}); p.CountWhole {
		j.measureWindow()
	}
	j.repeat(j.before)
	if p.Neighbours == NeighboursSection {
		j.readChunk = rw.besides(ctx, res.Retrieval.Bases, j.model.Encoding)
	}
	in := j.onlyRepeats(res, j.decide(res, &rw.memo))
	res.FitTook, res.FitCached = time.Since(start)-res.RetrieveTook, j.fitCached

	res.Edits = j.edits(res.Outcome, in)
	if p.Mode == Staged && res.Outcome == Injected {
		res.Block = j.block(in)
	}
	res.Earlier = j.toRepeat(res, in)
	j.account(res, in)
	res.EditTook = time.Since(start) - res.RetrieveTook - res.FitTook
	if debug {
		if err := rw.recount(j, res); err != nil {
			panic("BUG: " + err.Error())
		}
	}
}

// readEarlier reads the user's messages before the last one. It decodes nothing if the question
// stands alone and no planner is configured, which is the usual case.
func (rw *Rewriter) readEarlier(j *job) {
	if j.last <= 0 && len(j.held) == 0 {
		return
	}
	depends, n := followup.Depends(j.query), 0
	if j.policy.Planner.MaxQueries > 0 {
		n = j.policy.Planner.Turns
	}
	if depends {
		n = max(n, followup.MaxTurns)
	}
	if n == 0 {
		return
	}
	for text := range j.req.Earlier(max(j.last, 0), followup.MaxBytes, utf8In(&j.messages)) {
		if j.earlier = append(j.earlier, text); len(j.earlier) == n {
			break
		}
	}
	j.earlier = append(j.earlier, j.held[:min(len(j.held), n-len(j.earlier))]...)
	if !depends {
		return
	}
	for _, text := range j.earlier[:min(len(j.earlier), followup.MaxTurns)] {
		j.previous = append(j.previous, retrieval.Turn{Text: text})
	}
}

// ambiguity checks the messages that this rewrite searches or extends and returns what two
// parsers could read differently in them, nil if nothing. asked means that the request brought
// its own query, so the last user message is not searched.
func (j *job) ambiguity(asked bool) *chat.Error {
	p := j.policy
	if len(p.Knowledge) == 0 && len(p.Components) == 0 {
		return nil // no message is searched or extended
	}
	if j.last >= 0 && (!asked || j.placement == PlaceLastUser || j.placement == PlaceSplit) {
		if err := j.req.Ambiguity(j.last, utf8In(&j.messages)); err != nil {
			return err
		}
	}
	if j.placement == PlaceLastUser && p.Placement != PlaceMarker {
		return nil
	}
	return j.req.OperatorAmbiguity(p.Placement == PlaceMarker, utf8In(&j.messages)) // only PlaceMarker searches all of them
}

// retrieve searches for sources and stores the result in found. A failure is only recorded as
// found.Reason; the caller decides by the policy.
func (rw *Rewriter) retrieve(ctx context.Context, j *job, found *retrieval.Result) {
	none := retrieval.ReasonNone
	switch {
	case j.policy.SkipSearch:
		none = retrieval.ReasonIrrelevant
	case len(j.policy.Knowledge) == 0:
		none = retrieval.ReasonNoKnowledge
	case j.query == "":
		none = retrieval.Reason(ReasonNoQuery)
	}
	if none != retrieval.ReasonNone {
		found.Reason, found.Cache = none, retrieval.CacheOff
		return
	}
	bases := make([]retrieval.Ref, len(j.policy.Knowledge))
	for i, id := range j.policy.Knowledge {
		bases[i].Knowledge = id
	}
	j.asked = retrieval.Query{
		Tenant: j.policy.Tenant, Filter: j.policy.Filter, Bases: bases, Text: j.query, Previous: j.previous,
		Encoding: j.model.Encoding, Settings: j.policy.Search,
	}
	j.policy.AddStages(&j.asked, j.req.Model, j.earlier)
	ctx, span := tracing.Start(ctx, "retrieval", "")
	var err error
	*found, err = rw.Retriever.Retrieve(ctx, j.asked)
	if err != nil && !found.Reason.Failed() {
		found.Reason = retrieval.ReasonError
	}
	endSpan(ctx, span, j, found)
}

// decide turns the search result into an outcome and fits what can be added.
func (j *job) decide(res *Result, m *memo) *fitResult {
	found := &res.Retrieval
	res.Reason = Reason(found.Reason)
	sources, present := j.absent(m, found)
	none := len(sources) == 0 && present == 0
	if found.Reason.Failed() && (none && j.policy.RefuseOnFailure || !none && j.policy.RefuseOnPartial) {
		res.Outcome = Refused
		return nil
	}
	empty := none && found.Reason.Searched()
	if empty && res.Reason == "" {
		res.Reason = ReasonNoMatch
	}
	if empty && j.policy.Empty() == EmptyRefuse {
		res.Outcome = Answered
		return nil
	}
	if len(sources) == 0 && present > 0 && res.Reason == "" {
		res.Reason = ReasonPresent
	}
	if j.placement == "" {
		if len(sources) > 0 || len(j.policy.Components) > 0 {
			res.Reason = ReasonNoPlace
		}
		res.Outcome = Untouched
		return nil
	}
	notice := empty && j.policy.Empty() == EmptyNotice && j.repeated == nil // it says not to cite sources
	j.searchResults = j.cites && len(sources) > 0
	j.rulesInBlock = j.rulesGoInBlock(len(sources) > 0 || notice)
	j.dated = j.policy.shows("date") && slices.ContainsFunc(sources, func(s retrieval.Source) bool { return s.Date != "" })
	if len(sources) == 0 && !notice && !j.rulesInBlock && len(j.policy.Components) == 0 {
		res.Outcome = Untouched
		return j.leftOut(found, &fitResult{components: []ComponentEntry{}, sources: []SourceEntry{}, exact: true})
	}
	if j.window.Check == model.CheckNone {
		j.measureWindow()
	}
	in := j.fit(m, found, sources, notice)
	switch {
	case in.adds:
		res.Outcome = Injected
		if len(sources) > 0 && in.selected == 0 && res.Reason == "" { // other components took all the room
			res.Reason = j.noRoom()
		}
	case len(in.components) > 0 && (res.Reason == "" || len(sources) > 0):
		res.Outcome, res.Reason = Untouched, j.noRoom()
	default:
		res.Outcome = Untouched
	}
	return in
}

// rulesGoInBlock reports whether the rules are placed in the block rather than in a sources
// element; element says whether there will be one. Under PlaceSplit they are, on every turn, with
// or without sources, so that the text before the last question stays the same.
func (j *job) rulesGoInBlock(element bool) bool {
	if j.cites && len(j.policy.Knowledge) > 0 {
		return true
	}
	if j.wanted != PlaceSplit || len(j.policy.Knowledge) == 0 {
		return false
	}
	return j.placement == PlaceSplit || j.placement == PlaceSystem && !element // there is no user message yet
}

// safeQuery returns the neutralised question for the template; "" if the template has no
// placeholder for it.
func (j *job) safeQuery() string {
	if !j.policy.Template.HasQuery() {
		return ""
	}
	return j.policy.SafeText(j.query)
}

// block returns the inserted text of all places, joined by blank lines.
func (j *job) block(in *fitResult) (all []byte) {
	for i, text := range in.insertions {
		switch {
		case text == nil:
		case all == nil:
			all = slices.Clip(j.places.at[i].Text(text.Append(nil)))
		default:
			all = append(append(all, `\n\n`...), j.places.at[i].Text(text.Append(nil))...)
		}
	}
	return all
}

// edits returns the edits for the outcome, sorted.
func (j *job) edits(o Outcome, in *fitResult) []Edit {
	strip := StripEdits(j.req, j.policy.Placement)
	if o != Injected {
		return strip
	}
	edits := append(make([]Edit, 0, 1+len(strip)), j.markEdits(in)...) // usually there is one insertion
	edits = append(edits, j.repeats...)
	for i, text := range in.insertions {
		if text != nil {
			at := &j.places.at[i]
			edits = append(edits, Edit{Name: editInject, Offset: at.Offset, Delete: at.Remove, Insert: text})
		}
	}
	for i, text := range in.insertions {
		if open := j.places.at[i].Wrapping(); open != nil && text != nil {
			edits = append(edits, Edit{Name: editInject, Offset: j.places.at[i].Wrap.Start, Insert: EditText{open}})
		}
	}
	for _, e := range strip {
		if e.Name == editMarker && e.Offset == j.places.at[0].Offset && in.insertions[0] != nil {
			continue // the block replaces that marker
		}
		edits = append(edits, e)
	}
	return SortEdits(edits)
}

// A job is the state of one rewrite. Its memory is pooled, so nothing of it may be kept in a
// Result or a cache, except strings and slices allocated for that purpose.
type job struct {
	policy   *Policy
	req      *chat.Request
	model    model.Model
	messages model.MessageCosts
	window   model.Window
	query    string
	asked    retrieval.Query   // the query sent to the retriever
	earlier  []string          // the user's earlier messages, last first, as far as needed
	previous []retrieval.Turn  // the same, as far as the search uses them
	held     []string          // the user's messages that the upstream holds, last first
	given    []uint64          // Options.Given, and the sources of earlier turns
	before   []*EarlierSources // Options.EarlierSources
	repeated *Repeated         // of before, in this request; nil if nothing
	repeats  []Edit            // that insert repeated

	repeatedCount int // tokens of repeated, as counted
	firstID       int // number of the last source of an earlier turn
	lastID        int // Options.LastID
	last          int // index of the last user message, -1 without one

	taken        *ChunkResult                                              // chunks already inserted into the request; nil if none
	patterns     *PresentTexts                                             // buffer for the texts of sources that are not cached
	presence     presentMessages                                           // for finding texts in the messages
	skipped      []SourceEntry                                             // left out before the fit: without text, or already in the messages
	readChunk    func(src *retrieval.Source, n int) (text string, ok bool) // reads chunk n of src's document if it is in src's section
	wanted       Placement                                                 // the policy's; PlaceAuto is resolved
	placement    Placement                                                 // in force
	mark         cacheMark
	places       places
	plan         plan
	fitted       fitResult // result of plan
	fitCached    bool      // the result of an equal request was reused
	dated        bool      // sources show dates
	rulesInBlock bool      // the rules are placed in the block, not in the sources element

	cites         bool               // sources may be search results; see canCite
	searchResults bool               // they are
	theirs        chat.SearchResults // of the application, if cites
}

// begin returns a job for a rewrite. It must be released.
func (rw *Rewriter) begin(p *Policy, req *chat.Request) *job {
	j, ok := rw.jobs.Get().(*job)
	if !ok {
		j = &job{patterns: new(PresentTexts)}
	}
	j.policy, j.req, j.model = p, req, rw.model(p, req.Model)
	rw.costs.Read(&j.messages, req)
	return j
}

// release clears a job and returns it to the pool.
func (rw *Rewriter) release(j *job) {
	messages, elements, ordered := j.messages.Released(), emptied(j.plan.elements), emptied(j.plan.ordered)
	bare, blocks, parts := emptied(j.plan.sources.bare), emptied(j.plan.sources.blocks), emptied(j.plan.sources.parts)
	patterns := j.patterns
	patterns.Set(0, nil)
	var inserted [maxPlaces][]part
	for i := range inserted {
		inserted[i] = emptied(j.plan.insertions[i].parts)
	}
	*j = job{}
	j.messages, j.patterns, j.plan.elements, j.plan.ordered = messages, patterns, elements, ordered
	j.plan.sources.bare, j.plan.sources.blocks, j.plan.sources.parts = bare, blocks, parts
	for i := range inserted {
		j.plan.insertions[i].parts = inserted[i]
	}
	rw.jobs.Put(j)
}

// emptied clears a slice and returns it with length 0, to reuse its memory.
func emptied[T any](list []T) []T {
	if len(list) > 0 {
		clear(list[:cap(list)]) // earlier uses may have been longer
	}
	return list[:0]
}

// utf8In returns a chat.Validity that caches its results for the messages.
func utf8In(messages *model.MessageCosts) chat.Validity {
	return func(n int, read func() bool) bool {
		return messages.Remember(n, badUTF8, func() int {
			if read() {
				return 0
			}
			return 1
		}) == 0
	}
}

// NameBases sets the bases that a request asks for; param is the header or field that names them.
func NameBases(o *Options, param string, ids []string) {
	o.Knowledge, o.Named = ids, []NamedBases{{Param: param, IDs: ids}}
}

// MistypedBase returns an *OptionError if a request names a base that is not among has, the
// policy's bases, but is spelled almost like one of them. A base that the request also names
// exactly is never suggested: a client may send the names of several tenants' bases and gets
// those of its policy. Only the policy's own bases are suggested, so nothing is revealed about
// others.
func MistypedBase(o Options, has []string) error {
	for _, named := range o.Named {
		for _, id := range named.IDs {
			if slices.Contains(has, id) {
				continue
			}
			if meant := similar.Word(id, has); meant != "" && !slices.Contains(named.IDs, meant) {
				return wrong(named.Param, fmt.Sprintf("there is no knowledge base %q here; did you mean %s?", id, meant))
			}
		}
	}
	return nil
}

// MergeOptions combines the options in a request's headers with those in its body field. The
// narrower limit wins: the lower mode, fewer tokens, the bases that both name. Of two queries the
// body's wins, as it is closer to the question.
func MergeOptions(header, body Options) Options {
	o := body
	o.Mode = lower(header.Mode, body.Mode)
	o.ContextTokens = lower(header.ContextTokens, body.ContextTokens)
	o.Named = slices.Concat(header.Named, body.Named)
	switch {
	case o.Knowledge == nil:
		o.Knowledge = header.Knowledge
	case header.Knowledge != nil:
		both := make([]string, 0, len(o.Knowledge))
		for _, id := range o.Knowledge {
			if slices.Contains(header.Knowledge, id) {
				both = append(both, id)
			}
		}
		o.Knowledge = both
	}
	if o.Query == "" {
		o.Query = header.Query
	}
	return o
}

// lower returns the lower of two limits; nil means no limit.
func lower[T cmp.Ordered](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	least := min(*a, *b)
	return &least
}

// measureWindow computes how much of the window the request leaves.
func (j *job) measureWindow() {
	p := j.policy
	j.window = j.model.Measure(j.req, &j.messages, model.Limits{ContextTokens: p.ContextTokens, ReserveOutput: p.ReserveOutputTokens, CountWhole: p.CountWhole})
}

// budget returns how many tokens may be added.
func (j *job) budget() int {
	if j.window.Limits {
		return max(j.window.Room, 0)
	}
	return j.model.Allowed(j.policy.ContextTokens)
}

// noRoom returns the reason if nothing could be added.
func (j *job) noRoom() Reason {
	if j.window.Limits {
		return ReasonWindow
	}
	return ReasonBudget
}
