package proxy

import (
	"bytes"
	"cmp"
	"context"

	"sidenote/cache"
	"sidenote/proxy/answer"
	"sidenote/proxy/experiment"
	"sidenote/proxy/panics"
	"sidenote/proxy/route"
	"sidenote/retrieval/followup"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/toolcalls"
)

// Chains remembers the turns of conversations that upstreams hold, as requests do not repeat them.
// Its methods must be safe for concurrent use and bound their own time.
type Chains interface {
	// Find returns the link of a response or conversation, if the tenant kept one with the same
	// access.
	Find(ctx context.Context, tenant, access, id string) (cache.Link, bool)
	// Keep stores a link.
	Keep(ctx context.Context, tenant, access, id string, l cache.Link)
}

// A chainTurn is a turn of a conversation that the upstream holds, until its response has an id.
type chainTurn struct {
	store        Chains // nil: the turn is kept for an experiment only
	access       string
	conversation string // "" in a chain of responses
	link         cache.Link
	id           answer.ResponseID
	kept         bool // under the id of the first response

	assigned bool           // to an arm of an experiment, which later turns find by the response
	unit     experiment.Key // as a part of which; 0 if that is not known
}

// followChain looks up the turns before a request that continues a response or a conversation, and
// prepares to keep this one.
func (x *exchange) followChain(a *attempt) {
	req, store := a.req, x.setup.chains
	if a.policy.Mode == rewrite.Off {
		store = nil
	}
	assigned, unit := x.assignedChain()
	if store == nil && !assigned || req.API != chat.Responses {
		return
	}
	h, q := &req.History, a.policy.Query(model.Model{})
	access := toolcalls.TurnOwnerOf(&q).Access
	var before cache.Link
	if store != nil && h.Continued() {
		before, _ = store.Find(x.life, x.policy.Tenant, access, h.Previous+h.Conversation) // one is empty
		a.asked.Earlier, a.asked.Given = before.Questions, before.Given
		x.continued = continueRounds(req, &before)
	}
	if x.target.Route != route.Responses || !h.Keeps() {
		return
	}
	link := cache.Link{Questions: before.Questions, Given: before.Given}
	if text, last := req.Question(); text != "" {
		link.Questions = []string{followup.Clip(text)}
		for earlier := range req.Earlier(last, followup.MaxBytes, nil) {
			link.Questions = append(link.Questions, earlier)
		}
		link.Questions = append(link.Questions, before.Questions...)
		link.Questions = link.Questions[:min(len(link.Questions), followup.MaxTurns+1)]
	}
	x.chain = &chainTurn{store: store, access: access, conversation: h.Conversation, link: link, id: answer.ResponseID{Stream: req.Stream}, assigned: assigned, unit: unit}
}

// continueRounds returns the edits for a request that continues a turn whose tool calls were
// answered in rounds: the id of its last response, and the results that the upstream waits for.
func continueRounds(req *chat.Request, before *cache.Link) (edits []rewrite.Edit) {
	if at := req.History.PreviousAt; before.Last != "" && at.End > 0 {
		id := append(chat.AppendEscaped([]byte{'"'}, before.Last), '"')
		edits = append(edits, rewrite.Edit{Name: toolcalls.EditMessages, Offset: at.Start, Delete: at.End - at.Start, Insert: rewrite.EditText{id}})
	}
	if len(before.Results) > 0 {
		for _, in := range chat.InsertJSON(req, 0, bytes.Join(toolcalls.Unraw(before.Results), []byte(","))) {
			edits = append(edits, rewrite.Edit{Name: toolcalls.EditMessages, Offset: in.Offset, Insert: rewrite.EditText{in.Text}})
		}
	}
	return edits
}

// keepChain keeps this turn as soon as piece, the next one of the answer, tells the response's id.
// The client has not got it yet, so the next turn finds this one.
func (a *account) keepChain(piece []byte) {
	c := a.chain
	if c.kept {
		return
	}
	defer panics.Recover(a.panicked, func() { a.chain = nil })
	id, done := c.id.Read(piece)
	if !done {
		return
	}
	c.kept = true
	if l := &a.report.Rewrite.Ledger; l.Placement != "" && l.Placement != rewrite.PlaceInstructions {
		c.link.Given = append(c.link.Given, givenBy(&a.report.Rewrite)...)
		c.link.Given = c.link.Given[max(0, len(c.link.Given)-maxGiven):]
	}
	a.keepLink(id, &c.link)
}

// beginStage makes keepChain read the answer to another request. Only the last stage's response is
// the client's.
func (a *account) beginStage(last bool) {
	if c := a.chain; c != nil {
		c.kept, c.id = !last, answer.ResponseID{Stream: c.id.Stream}
	}
}

// keepLink keeps this turn under its conversation or, without one, under the id of its response.
func (a *account) keepLink(id string, l *cache.Link) {
	c := a.chain
	if c.assigned && c.conversation == "" && id != "" {
		a.server.experiments.Conversations.Remember(a.server.base, a.report.Tenant, c.unit, responseKey(a.report.Tenant, id))
	}
	if c.store != nil && c.conversation+id != "" {
		c.store.Keep(a.server.base, a.report.Tenant, c.access, cmp.Or(c.conversation, id), *l)
	}
}

// keepRounds keeps this turn again if it had several rounds, or if the upstream waits for results
// that the client does not have.
func (a *account) keepRounds(r *Rounds) {
	if a.chain == nil || r.loop.Rounds() == 1 && len(r.pending) == 0 {
		return
	}
	defer panics.Recover(a.panicked, nil)
	link := a.chain.link
	client, last := r.loop.Responses()
	if last != client {
		link.Last = last
	}
	link.Results = r.pending
	a.chain.kept = true
	a.keepLink(client, &link)
}

// maxGiven is how many sources of earlier turns are remembered.
const maxGiven = 256

// givenBy returns rewrite.GivenText of the sources that were added.
func givenBy(res *rewrite.Result) (given []uint64) {
	for i := range res.Ledger.Sources {
		e := &res.Ledger.Sources[i]
		if e.ID == 0 {
			continue
		}
		for k := range res.Retrieval.Sources {
			if s := &res.Retrieval.Sources[k]; s.Knowledge == e.Knowledge && s.Doc == e.Doc && s.Chunk == e.Chunk {
				given = append(given, rewrite.GivenText(s.Text))
			}
		}
	}
	return given
}
