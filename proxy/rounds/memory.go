package rounds

import (
	"context"

	"sidenote/cache/turns"
	"sidenote/proxy/loop"
	"sidenote/proxy/toolbox"
	"sidenote/rewrite/edit"
	"sidenote/rewrite/offer"
	"sidenote/rewrite/toolhistory"
)

// A Kit is what answers the calls of models, and keeps what their clients do not see of them.
type Kit struct {
	Box   *toolbox.Box
	Turns *turns.Store // nil: nothing is kept
}

// Restore puts back what the client of a request has not seen of turns before, and returns how many
// turns these are. owner is whose they must be.
func (o *Offering) Restore(ctx context.Context, kept *turns.Store, owner turns.Owner) int {
	if kept == nil || o.policy.XML {
		return 0
	}
	o.kept, o.owner, o.history = kept, owner, toolhistory.Read(o.req)
	keys := o.history.Keys()
	if len(keys) == 0 {
		return 0
	}
	insertions, restored := o.history.Restore(kept.Find(ctx, owner, keys))
	for _, in := range insertions {
		o.restored = append(o.restored, edit.Edit{Name: offer.EditMessages, Offset: in.Offset, Insert: in.Text})
	}
	for _, turn := range restored {
		o.nextID = max(o.nextID, turn.NextID)
	}
	return len(restored)
}

// FirstID returns the id of the first source that results may give, where a prompt has n.
func (o *Offering) FirstID(n int) int { return max(n+1, o.nextID) }

// keep keeps what the client does not see of a turn in which it gets calls of its own: the rounds
// before, and ours with their results. shown is the text that the client has.
func (o *Offering) keep(ctx context.Context, r *Rounds, t *loop.Turn, ours []call) {
	if o.kept == nil || o.policy.XML {
		return
	}
	turn := toolhistory.Turn{Before: r.messages, Results: messages(ours), NextID: r.Caller.FirstID}
	for i := range ours {
		turn.Calls = append(turn.Calls, toolhistory.Call{At: ours[i].At, JSON: ours[i].JSON})
	}
	var theirs []toolhistory.AppCall
	for _, c := range t.Theirs {
		theirs = append(theirs, toolhistory.AppCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	// What is too large is not kept: the model may ask again.
	_ = o.kept.Keep(ctx, o.owner, o.history.KeyOfAnswer(r.loop.Shown(), theirs), &turn)
}
