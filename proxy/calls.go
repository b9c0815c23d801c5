package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // see tracing.SchemaURL
	"go.opentelemetry.io/otel/trace"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tracing"
	"sidenote/rewrite/toolcalls"
)

// maxCalls is how many calls of one turn are run.
const maxCalls = 16

// The results of calls that are not run.
const (
	givenAbove   = `{"error":"This was already given above, for the same arguments."}`
	tooManyCalls = `{"error":"Too many calls in one turn; call again what is still needed."}`
	noRoom       = `{"error":"There is no room for more results; answer with what is there."}`
	unknownTool  = `{"error":"There is no tool of this name."}`
	timeIsUp     = `{"error":"The time for searches is up; answer with what is there."}`
	notMade      = `{}` // if there is no room for a reason; some upstreams refuse an empty result
)

// skippedShare: 1/skippedShare of the room is for the results of calls that are not run.
const skippedShare = 4

// A call is a call of one of Sidenote's tools.
type call struct {
	answer.LoopCall
	name   tools.ToolName
	result tools.CallResult
	took   time.Duration

	repeated bool // a call with the same arguments was run before
}

// answer runs calls concurrently and returns them with their results.
func (r *Rounds) answer(calls []answer.LoopCall) []call {
	r.Host.EndAnswer()
	ctx, cancel := context.WithDeadline(r.Life, r.deadline)
	defer cancel()
	ctx, span := tracing.Start(ctx, "tool round", strconv.Itoa(r.loop.Rounds()))
	defer span.End()
	all := make([]call, len(calls))
	var run []*call
	for i, c := range calls {
		all[i] = call{LoopCall: c, name: r.Offer.Names[c.Name]}
		key := string(all[i].name) + "\x00" + canonical(c.Arguments)
		switch {
		case all[i].name == "":
			all[i].result.Content = unknownTool
		case r.given[key]:
			all[i].result.Content, all[i].repeated = givenAbove, true
		case len(run) == maxCalls:
			all[i].result.Content = tooManyCalls
		case r.Room < leastRoom:
			all[i].result.Content = noRoom
		default:
			r.given[key] = true
			run = append(run, &all[i])
		}
	}
	skipped := 0
	for i := range all {
		if all[i].result.Content != "" {
			skipped += r.cost(&all[i])
		}
	}
	r.run(ctx, run, r.Room-min(skipped, r.Room/skippedShare))
	for i := range all {
		r.number(&all[i])
	}
	r.shorten(all)
	for i := range all {
		r.note(&all[i])
	}
	return all
}

// notRun returns calls of the last round, which are not run.
func notRun(calls []answer.LoopCall) []call {
	all := make([]call, len(calls))
	for i, c := range calls {
		all[i] = call{LoopCall: c, result: tools.CallResult{Content: noRoom}}
	}
	return all
}

// cost returns the tokens of a call's result.
func (r *Rounds) cost(c *call) int {
	text := c.result.Content
	if c.result.Data == nil && r.Policy.XML && text != "" {
		text = inElement(c)
	}
	tokens, _ := r.Caller.Counter.Count(text)
	return tokens
}

// least returns the tokens of the shortest result of a call that is not run. Under the XML
// protocol such a result is left out.
func (r *Rounds) least() int {
	if r.Policy.XML {
		return 0
	}
	tokens, _ := r.Caller.Counter.Count(notMade)
	return max(tokens, 1)
}

// mostCalls returns how many calls of one turn can get a result.
func (r *Rounds) mostCalls() int {
	switch {
	case r.Policy.XML:
		return math.MaxInt
	case r.Room < leastRoom: // none is run
		return max(1, r.Room/r.least())
	}
	return maxCalls + r.Room/skippedShare/r.least()
}

// shorten fits the results of calls without data, which failed or were not run, into the room that
// the others leave: with their reasons while these fit, then as short as possible.
func (r *Rounds) shorten(all []call) {
	left, least, waiting := r.Room, r.least(), 0
	for i := range all {
		if all[i].result.Data != nil {
			left -= r.cost(&all[i])
		} else {
			waiting++
		}
	}
	for i := range all {
		c := &all[i]
		if c.result.Data != nil {
			continue
		}
		waiting--
		if r.cost(c)+waiting*least > left {
			if c.result.Content = notMade; r.Policy.XML {
				c.result.Content = ""
			}
		}
		left -= r.cost(c)
	}
}

// results returns the messages or items with the results of calls, in the order of the calls.
func (o *Offering) results(calls []call) []json.RawMessage { return o.asked.Results(resultsOf(calls)) }

func resultsOf(calls []call) (list []toolcalls.Result) {
	for i := range calls {
		list = append(list, toolcalls.Result{ID: calls[i].ID, Content: calls[i].result.Content})
	}
	return list
}

// canonical returns JSON arguments in a form in which equal ones have equal text.
func canonical(arguments string) string {
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(arguments)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return arguments
	}
	return string(encodeRound(v))
}

// run runs calls concurrently, each with its share of room. The last one runs in this goroutine,
// which would only wait for the others.
func (r *Rounds) run(ctx context.Context, calls []*call, room int) {
	var all sync.WaitGroup
	for i, c := range calls {
		caller := r.Caller
		caller.MaxTokens = room / len(calls)
		one := func() {
			c.result.Content, c.result.Err = noRoom, errors.New("panic")
			began := time.Now()
			ctx, span := beginTool(ctx, c)
			defer func() { endTool(span, c) }()
			c.result = r.Box.Call(ctx, caller, c.name, []byte(c.Arguments))
			c.took = time.Since(began)
			if ctx.Err() != nil && c.result.Err != nil {
				c.result.Content = timeIsUp
			}
		}
		if i == len(calls)-1 {
			panics.Guard(r.Host.Panicked, one)
			continue
		}
		all.Add(1)
		panics.Go(r.Host.Panicked, one, all.Done)
	}
	all.Wait()
}

// beginTool begins the span of a call.
func beginTool(ctx context.Context, c *call) (context.Context, trace.Span) {
	ctx, span := tracing.Start(ctx, "execute_tool", string(c.name))
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(string(c.name)), semconv.GenAIToolType("function"), semconv.GenAIToolCallID(tracing.Clean(c.ID)))
	tracing.SetText(ctx, span, semconv.GenAIToolCallArgumentsKey, func() string { return c.Arguments })
	return ctx, span
}

// endTool ends the span of a call with its outcome.
func endTool(span trace.Span, c *call) {
	if !span.IsRecording() {
		return
	}
	outcome := roundOutcome(c)
	span.SetAttributes(keyOutcome.String(string(outcome)))
	if outcome == report.ToolFailed || outcome == report.ToolRefused {
		tracing.Fail(span, string(outcome))
	}
	span.End()
}

// number assigns ids to the sources of a result.
func (r *Rounds) number(c *call) {
	if first := r.Caller.FirstID; first > 1 {
		c.result.Number(first)
	}
	r.Caller.FirstID += len(c.result.Sources)
}

// note subtracts a result from the room and adds the call to the report.
func (r *Rounds) note(c *call) {
	tokens, _ := r.Caller.Counter.Count(c.result.Content)
	r.Room -= r.cost(c)
	one := report.ToolCall{
		Round: r.loop.Rounds(), Name: cmp.Or(string(c.name), "unknown"), Arguments: c.Arguments, Hits: c.result.Hits, Tokens: tokens, Took: c.took, Outcome: roundOutcome(c),
	}
	r.Report.Add(one, c.result.Sources)
	if r.Policy.Trace {
		r.trace = append(r.trace, traced{one.Round, c.ID, string(c.name), c.Arguments, c.result.Content})
	}
}

// roundOutcome returns the outcome of a call.
func roundOutcome(c *call) report.ToolOutcome {
	_, wrong := errors.AsType[*tools.ArgumentError](c.result.Err)
	switch {
	case c.repeated:
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
