package proxy

import (
	"context"

	"sidenote/cache"
	"sidenote/proxy/answer"
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
	store        Chains
	access       string
	conversation string // "" in a chain of responses
	link         cache.Link
	id           answer.ResponseID
}

// followChain looks up the turns before a request that continues a response or a conversation, and
// prepares to keep this one.
func (x *exchange) followChain(a *attempt) {
	req, store := a.req, x.setup.chains
	if store == nil || req.API != chat.Responses || a.policy.Mode == rewrite.Off {
		return
	}
	h, q := &req.History, a.policy.Query(model.Model{})
	access := toolcalls.TurnOwnerOf(&q).Access
	var before cache.Link
	if h.Continued() {
		before, _ = store.Find(x.life, x.policy.Tenant, access, h.Previous+h.Conversation) // one is empty
		a.asked.Earlier, a.asked.Given = before.Questions, before.Given
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
	x.chain = &chainTurn{store: store, access: access, conversation: h.Conversation, link: link, id: answer.ResponseID{Stream: req.Stream}}
}

// keepChain keeps this turn as soon as piece, the next one of the answer, tells the response's id.
// The client has not got it yet, so the next turn finds this one.
func (a *account) keepChain(piece []byte) {
	c := a.chain
	defer panics.Recover(a.panicked, func() { a.chain = nil })
	id, done := c.id.Read(piece)
	if !done {
		return
	}
	a.chain = nil
	if c.conversation != "" {
		id = c.conversation
	}
	if id == "" {
		return
	}
	if l := &a.report.Rewrite.Ledger; l.Placement != "" && l.Placement != rewrite.PlaceInstructions {
		c.link.Given = append(c.link.Given, givenBy(&a.report.Rewrite)...)
		c.link.Given = c.link.Given[max(0, len(c.link.Given)-maxGiven):]
	}
	c.store.Keep(a.server.base, a.report.Tenant, c.access, id, c.link)
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
