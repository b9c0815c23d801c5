package proxy

import (
	"context"

	"sidenote/proxy/panics"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/toolcalls"
)

// GivenSources remembers the sources of turns for policies that repeat them. Its methods must be safe
// for concurrent use and bound their own time.
type GivenSources interface {
	// Find returns the sources of a turn, if the tenant kept them with the same access.
	Find(ctx context.Context, tenant, access, turn string) (*rewrite.EarlierSources, bool)
	// Keep stores the sources of a turn.
	Keep(ctx context.Context, tenant, access, turn string, s *rewrite.EarlierSources)
}

// A givenTurn is the turn whose sources are kept.
type givenTurn struct {
	store        GivenSources
	access, turn string
}

// findGiven looks up the sources of earlier turns if the policy repeats them, and prepares to keep
// those of this turn.
func (x *exchange) findGiven(a *attempt) {
	store := x.setup.given
	if store == nil || a.policy.Repeat != rewrite.RepeatKeep || a.req.API == chat.Responses && a.req.History.Continued() {
		return
	}
	turns := rewrite.Turns(a.req)
	if len(turns) == 0 {
		return
	}
	q := a.policy.Query(model.Model{})
	access := toolcalls.TurnOwnerOf(&q).Access
	x.given = &givenTurn{store: store, access: access, turn: string(turns[0][:])}
	for _, turn := range turns[1:] {
		found, _ := store.Find(x.life, x.policy.Tenant, access, string(turn[:]))
		a.asked.EarlierSources = append(a.asked.EarlierSources, found)
	}
}

// keepGiven keeps the sources of this turn, before the client gets its answer.
func (x *exchange) keepGiven(status int) {
	g, sources := x.given, x.report.Rewrite.Earlier
	if g == nil || sources == nil || status/100 != 2 {
		return
	}
	defer panics.Recover(x.panicked, nil)
	g.store.Keep(x.server.base, x.report.Tenant, g.access, g.turn, sources)
}
