package rounds

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sidenote/proxy/loop"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/toolbox"
)

// maxCalls is how many calls of one turn are answered.
const maxCalls = 16

// What a model is told of calls that are not made.
const (
	givenAbove   = `{"error":"This was already given above, for the same arguments."}`
	tooManyCalls = `{"error":"Too many calls in one turn; call again what is still needed."}`
	noRoom       = `{"error":"There is no room for more results; answer with what is there."}`
	unknownTool  = `{"error":"There is no tool of this name."}`
	timeIsUp     = `{"error":"The time for searches is up; answer with what is there."}`
)

// A call is one of ours while it is answered.
type call struct {
	loop.Call
	name   toolbox.Name
	result toolbox.Result
	took   time.Duration
}

// answer answers calls, side by side.
func (r *Rounds) answer(calls []loop.Call) []call {
	ctx, cancel := context.WithDeadline(r.Life, r.deadline)
	defer cancel()
	all := make([]call, len(calls))
	var run []*call
	for i, c := range calls {
		all[i] = call{Call: c, name: r.Offer.Names[c.Name]}
		key := string(all[i].name) + "\x00" + canonical(c.Arguments)
		switch {
		case all[i].name == "":
			all[i].result.Content = unknownTool
		case r.given[key]:
			all[i].result.Content = givenAbove
		case len(run) == maxCalls:
			all[i].result.Content = tooManyCalls
		case r.Room < leastRoom:
			all[i].result.Content = noRoom
		default:
			r.given[key] = true
			run = append(run, &all[i])
		}
	}
	r.run(ctx, run)
	for i := range all {
		r.note(&all[i])
	}
	return all
}

// messages are those with the results of calls, in the order of the calls.
func messages(calls []call) []json.RawMessage {
	list := make([]json.RawMessage, len(calls))
	for i := range calls {
		list[i] = encode(struct {
			Role    string `json:"role"`
			ID      string `json:"tool_call_id"`
			Content string `json:"content"`
		}{"tool", calls[i].ID, calls[i].result.Content})
	}
	return list
}

// canonical returns arguments so that the same ones are the same text.
func canonical(arguments string) string {
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(arguments)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return arguments
	}
	return string(encode(v))
}

// run makes calls, each with its share of the room: the last one in this goroutine, which waits for
// the others anyway.
func (r *Rounds) run(ctx context.Context, calls []*call) {
	var all sync.WaitGroup
	for i, c := range calls {
		caller := r.Caller
		caller.Room = r.Room / len(calls)
		one := func() {
			c.result.Content, c.result.Err = noRoom, errors.New("panic")
			began := time.Now()
			c.result = r.Box.Call(ctx, caller, c.name, []byte(c.Arguments))
			c.took = time.Since(began)
			if ctx.Err() != nil && c.result.Err != nil {
				c.result.Content = timeIsUp
			}
		}
		if i == len(calls)-1 {
			panics.Guard(r.Panicked, one)
			continue
		}
		all.Add(1)
		panics.Go(r.Panicked, one, all.Done)
	}
	all.Wait()
}

// note numbers the sources of a result, counts it, and reports the call.
func (r *Rounds) note(c *call) {
	if first := r.Caller.FirstID; first > 1 {
		c.result.Number(first)
	}
	r.Caller.FirstID += len(c.result.Sources)
	tokens, _ := r.Caller.Counter.Count(c.result.Content)
	r.Room -= tokens
	one := report.ToolCall{
		Round: r.loop.Rounds(), Name: cmp.Or(string(c.name), "unknown"), Arguments: c.Arguments, Hits: c.result.Hits, Tokens: tokens, Took: c.took, Outcome: outcomeOf(c),
	}
	r.Report.Add(one, c.result.Sources)
	if r.Policy.Trace {
		r.trace = append(r.trace, traced{one.Round, c.ID, string(c.name), c.Arguments, c.result.Content})
	}
}

// outcomeOf says what became of a call, of a closed list.
func outcomeOf(c *call) report.ToolOutcome {
	_, wrong := errors.AsType[*toolbox.ArgumentError](c.result.Err)
	switch {
	case c.result.Content == givenAbove:
		return report.ToolRepeated
	case wrong, c.name == "":
		return report.ToolRefused
	case c.result.Err != nil:
		return report.ToolFailed
	case c.result.Data == nil:
		return report.ToolSkipped
	}
	return report.ToolOK
}
