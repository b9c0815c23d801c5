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
	// Each calls do with the sources of turns that the tenant kept with the same access, in the order of
	// turns, until do returns false.
	Each(ctx context.Context, tenant, access string, turns []string, do func(i int, s *rewrite.EarlierSources) bool)
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
	turns := chat.Turns(a.req)
	if len(turns) == 0 {
		return
	}
	q := a.policy.Query(model.Model{})
	access := toolcalls.TurnOwnerOf(&q).Access
	x.given = &givenTurn{store: store, access: access, turn: string(turns[0][:])}
	earlier := make([]string, 0, len(turns)-1)
	for _, turn := range turns[1:] {
		earlier = append(earlier, string(turn[:]))
	}
	a.asked.EarlierSources = make([]*rewrite.EarlierSources, len(earlier))
	store.Each(x.life, x.policy.Tenant, access, earlier, func(i int, s *rewrite.EarlierSources) bool {
		if !x.Take(2 * s.Size()) { // once as found, once in the edits
			return false
		}
		a.asked.EarlierSources[i] = s
		return true
	})
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
