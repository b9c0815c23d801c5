package proxy

import (
	"context"
	"errors"
	"slices"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/toolcalls"
)

// A RoundsKit runs the tool calls of models and stores the turns that their clients do not see.
type RoundsKit struct {
	Box   *tools.Box
	Turns *toolcalls.TurnStore // nil: nothing is stored
}

// Restore adds the hidden parts of earlier turns of the conversation, as far as the owner has them
// in kept, and returns the number of these turns. take reserves memory for them, in bytes; if it
// returns false nothing is restored.
func (o *Offering) Restore(ctx context.Context, kept *toolcalls.TurnStore, owner toolcalls.TurnOwner, take func(n int) bool) int {
	if kept == nil {
		return 0
	}
	o.kept, o.owner, o.history = kept, owner, toolcalls.ReadHistory(o.req)
	keys := o.history.Keys()
	if len(keys) == 0 {
		return 0
	}
	insertions, restored := o.history.Restore(kept.Find(ctx, owner, keys))
	size := 0
	for _, turn := range restored {
		size += turn.Size()
	}
	if !take(2 * size) { // once as found, once in the edits
		return 0
	}
	for _, in := range insertions {
		o.restored = append(o.restored, rewrite.Edit{Name: toolcalls.EditMessages, Offset: in.Offset, Insert: rewrite.EditText{in.Text}})
	}
	for _, turn := range restored {
		o.nextID = max(o.nextID, turn.NextID)
		o.GivenSources = append(o.GivenSources, turn.Sources)
	}
	return len(restored)
}

// WithRoomForRestored returns a policy under which a rewrite leaves room in the context window of
// model m for the restored turns.
func (o *Offering) WithRoomForRestored(p rewrite.Policy, m model.Model) rewrite.Policy {
	if len(o.restored) == 0 || m.Window == 0 && p.Window == 0 {
		return p
	}
	window := m.Window
	if p.Window > 0 && (window == 0 || p.Window < window) {
		window = p.Window
	}
	p.Window = max(1, window-int(count(m.Counter, o.restored)))
	return p
}

// FirstID returns the first source id that tool results may use, if the prompt has sources up to the
// id last.
func (o *Offering) FirstID(last int) int { return max(last+1, o.nextID) }

// keep stores the hidden part of a turn in which the client gets calls of its own tools: earlier
// rounds, and Sidenote's calls with their results.
func (o *Offering) keep(ctx context.Context, r *Rounds, t *answer.LoopTurn, ours []call) {
	if o.kept == nil {
		return
	}
	rounds := r.unseen
	var turn toolcalls.Turn
	if o.policy.XML {
		if len(ours) > 0 { // a round of their own, as the client's message cannot hold their results
			rounds = append(slices.Clip(rounds), answer.LoopPart{JSON: calling(t.OurCalls)}, answer.LoopPart{JSON: inText(ours, false)})
		}
		turn = o.asked.Turn(historyCalls(rounds), nil, nil)
	} else {
		turn = o.asked.Turn(historyCalls(rounds), historyCalls(t.Unseen()), resultsOf(ours))
	}
	turn.NextID, turn.Sources = r.Caller.FirstID, r.Report.MarshalSources()
	var theirs []toolcalls.AppCall
	for _, c := range t.ClientCalls {
		theirs = append(theirs, toolcalls.AppCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	switch err := o.kept.Keep(ctx, o.owner, o.history.KeyOfAnswer(r.loop.ClientText(), theirs), &turn); {
	case err == nil:
	case errors.Is(err, toolcalls.ErrTooLarge):
		r.Report.TurnLoss = report.TurnTooLarge
	default:
		r.Report.TurnLoss = report.TurnUnsound
	}
}

// historyCalls returns parts as they are stored.
func historyCalls(parts []answer.LoopPart) (list []toolcalls.HistoryCall) {
	for _, p := range parts {
		list = append(list, toolcalls.HistoryCall{At: p.At, AfterThinking: p.AfterThinking, JSON: p.JSON})
	}
	return list
}
