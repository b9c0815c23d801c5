package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/toolcalls"
)

// A RoundsKit is what answers the calls of models, and keeps what their clients do not see of them.
type RoundsKit struct {
	Box   *tools.Box
	Turns *toolcalls.TurnStore // nil: nothing is kept
}

// Restore puts back what the client of a request has not seen of turns before, and returns how many
// turns these are. owner is whose they must be. take takes memory for them, in bytes; where there is
// none nothing is put back.
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
	if !take(2 * size) { // as it was found, and in the edits
		return 0
	}
	for _, in := range insertions {
		o.restored = append(o.restored, rewrite.Edit{Name: toolcalls.EditMessages, Offset: in.Offset, Insert: rewrite.EditText{in.Text}})
	}
	for _, turn := range restored {
		o.nextID = max(o.nextID, turn.NextID)
		o.Given = append(o.Given, turn.Sources)
	}
	return len(restored)
}

// Fitting returns a policy under which a rewrite leaves room in the window of a model for what was
// put back.
func (o *Offering) Fitting(p rewrite.Policy, m rewrite.Model) rewrite.Policy {
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

// FirstID returns the id of the first source that results may give, where a prompt has n.
func (o *Offering) FirstID(n int) int { return max(n+1, o.nextID) }

// keep keeps what the client does not see of a turn in which it gets calls of its own: the rounds
// before, and ours with their results. shown is the text that the client has.
func (o *Offering) keep(ctx context.Context, r *Rounds, t *answer.LoopTurn, ours []call) {
	if o.kept == nil {
		return
	}
	turn := toolcalls.Turn{NextID: r.Caller.FirstID, Sources: r.Report.Given()}
	if o.policy.XML {
		turn.Before = r.unseen
		if len(ours) > 0 { // a round of their own, as the client's message cannot hold their results
			turn.Before = append(slices.Clip(turn.Before), calling(t.Ours), inText(ours, false))
		}
	} else {
		turn.Before, turn.Results = r.messages, messages(ours)
		if !o.hidesText() {
			turn.Before = withoutText(r.messages) // the client has it, in one with the text of its own message
		}
		for i := range ours {
			turn.Calls = append(turn.Calls, toolcalls.HistoryCall{At: ours[i].At, JSON: ours[i].JSON})
		}
	}
	var theirs []toolcalls.AppCall
	for _, c := range t.Theirs {
		theirs = append(theirs, toolcalls.AppCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	switch err := o.kept.Keep(ctx, o.owner, o.history.KeyOfAnswer(r.loop.Shown(), theirs), &turn); {
	case err == nil:
	case errors.Is(err, toolcalls.ErrTooLarge):
		r.Report.Unkept = report.TurnTooLarge
	default:
		r.Report.Unkept = report.TurnUnsound
	}
}

// withoutText returns messages of which those of the assistant say nothing beside their calls.
func withoutText(messages []json.RawMessage) []json.RawMessage {
	all := slices.Clone(messages)
	for i, m := range all {
		var role string
		var content chat.Span
		r := chat.NewReader(m)
		r.Object(func(name string) {
			switch name {
			case "role":
				role = r.Text()
			case "content":
				content = r.Span()
			default:
				r.Value()
			}
		})
		if role == "assistant" {
			all[i] = slices.Concat(m[:content.Start], json.RawMessage("null"), m[content.End:])
		}
	}
	return all
}
