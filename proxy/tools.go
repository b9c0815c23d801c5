package proxy

import (
	"encoding/json"
	"time"

	"sidenote/proxy/apierror"
	"sidenote/proxy/loop"
	"sidenote/proxy/report"
	"sidenote/proxy/rounds"
	"sidenote/proxy/spend"
	"sidenote/proxy/toolbox"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/metered"
	"sidenote/rewrite/offer"
)

// A tooling is what a chat has whose model is offered tools of ours.
type tooling struct {
	body     []byte
	req      *rewrite.Request
	policy   rewrite.Policy // of the caller, with all of its bases
	offer    offer.Request
	names    map[string]toolbox.Name // by the names under which they are offered
	tools    rewrite.Edit            // offers them
	edits    []rewrite.Edit          // of the rewrite
	messages []json.RawMessage       // of the rounds before, behind those of the request
	last     bool                    // nothing is offered any more
	call     transport.Call          // of the first round
}

// offerTools offers the model of a chat the tools of its policy, and returns the policy by which it
// is rewritten. If they cannot be offered the report says why.
func offerTools(x *exchange, body []byte, req *rewrite.Request, p rewrite.Policy) rewrite.Policy {
	of := &x.policy.Tools
	asked := offer.Read(req)
	if asked.Refusal == "" && (x.setup.tools == nil || of.MaxRounds < 2) {
		asked.Refusal = offer.Unavailable
	}
	if asked.Refusal != "" {
		x.report.Unoffered = string(asked.Refusal)
		return p
	}
	t := &tooling{body: body, req: req, policy: p, offer: asked, names: map[string]toolbox.Name{}}
	var tools []offer.Tool
	for _, d := range toolbox.Define(of.Offer, of.Bases) {
		name := asked.Rename(string(d.Name))
		t.names[name] = d.Name
		tools = append(tools, offer.Tool{Name: name, Description: d.Description, Parameters: d.Parameters})
	}
	t.tools = asked.Tools(tools)
	x.tools, x.report.Tools = t, new(report.Tools)
	if p.Empty() == rewrite.EmptyRefuse {
		p.OnEmpty = rewrite.EmptyPass // the model may find what this search does not
	}
	if !of.FirstSearch {
		p.Knowledge = nil
	}
	return p
}

// join adds the edits of a round to those of the rewrite.
func (t *tooling) join(edits []rewrite.Edit) []rewrite.Edit {
	t.edits = edits
	var mine []rewrite.Edit
	if len(t.messages) > 0 {
		mine = append(mine, t.offer.Messages(t.messages))
	}
	if !t.last {
		mine = append(mine, t.tools)
	}
	return metered.Merge(edits, mine)
}

// tokens is what the tools and the messages of rounds take, as text.
func (t *tooling) tokens(m rewrite.Model) (n int64) {
	count := func(text []byte) {
		k, _ := m.Counter.Count(string(text))
		n += int64(k)
	}
	if !t.last {
		count(t.tools.Insert)
	}
	for _, message := range t.messages {
		count(message)
	}
	return n
}

// converse answers a chat in rounds, of which the first was answered.
func converse(x *exchange, first *transport.Answer, call transport.Call) error {
	t, ledger := x.tools, &x.report.Rewrite.Ledger
	t.call = call
	m := x.report.Rewrite.Model
	caller := toolbox.NewCaller(&t.policy, m)
	caller.FirstID = x.report.Sources() + 1
	x.report.Tools.StartAt(caller.FirstID)
	room := x.policy.Tools.MaxTokens
	if w := &ledger.Window; w.Size > 0 && w.Request > 0 {
		room = max(0, min(room, w.Size-w.Request-ledger.Used-w.ReservedOutput))
	}
	r := rounds.New(rounds.Setup{
		Host: toolHost{x}, Policy: &x.policy.Tools, Names: t.names, Box: x.setup.tools, Caller: caller, Room: room,
		Loop: loop.Rules{HideText: x.policy.Tools.HidePreamble || !t.req.TextFormat || t.offer.Logprobs, Take: x.Take},
		Life: x.life, Began: x.report.Time, Report: x.report.Tools, Panicked: x.panicked,
		Tap: func(piece []byte) {
			if x.reader != nil {
				x.tap(piece)
			}
		},
		Closing: func() string {
			x.report.Tools.Ended = true
			return string(report.AppendClosing(nil, &x.report))
		},
	})
	if isStream(first) {
		how := x.how(first)
		how.Through = r.Through(how.Through)
		first.Relay(x.ctx, how)
		return nil
	}
	err := r.RelayWhole(x.ctx, first, func(answer *transport.Answer) transport.Relay {
		x.report.Tools.Ended = true
		return x.how(answer)
	})
	if transport.ClassOf(err) != "" {
		return x.server.transportError(err)
	}
	return err
}

// A toolHost is the rounds.Host of an exchange.
type toolHost struct{ *exchange }

// Next implements rounds.Host.
func (x toolHost) Next(messages []json.RawMessage, last bool) (*transport.Answer, error) {
	endRound(x.exchange)
	t := x.tools
	t.messages, t.last = messages, last
	if err := reserveRound(x.exchange); err != nil {
		return nil, err
	}
	x.outgoing = rewrite.Pieces(nil, t.body, allEdits(x.exchange, t.edits))
	x.keepBody(nil, x.outgoing)
	call := t.call
	call.Body, call.Whole, call.Same, call.Interim = x.outgoing, true, false, false
	answer, err := x.call(call, report.ToTools, time.Now())
	if err != nil {
		x.spending.Failed(err)
		return nil, err
	}
	x.readAlong(answer)
	return answer, nil
}

// Error implements rounds.Host.
func (x toolHost) Error(err error) []byte {
	if transport.ClassOf(err) != "" {
		err = x.server.transportError(err)
	}
	return apierror.As(err).JSON()
}

// Keep implements rounds.Host.
func (x toolHost) Keep(rounds.Mixed) {}

// endRound settles a round whose answer was read whole, as another follows.
func endRound(x *exchange) {
	if x.reader != nil {
		x.readUsage()
		x.countText()
	}
	if x.spending != nil {
		x.spending.Settle(&x.report)
		x.spending = nil
	}
	x.report.EndRound(&x.before)
}

// reserveRound reserves for a further round.
func reserveRound(x *exchange) error {
	if x.metered == nil || !x.policy.Budget.Limited() {
		return nil
	}
	of := demandOf(x, x.tools.policy, x.tools.req)
	of.Injected += int64(x.report.Tools.Tokens)
	r := spend.Request{Tenant: x.policy.Tenant, ID: x.report.ID, Round: x.report.Tools.Rounds, Route: x.target.Route, Body: x.metered, Row: x.row}
	s, _, err := spend.Reserve(x.life, x.server.budgets, &x.policy.Budget, r, of, asItIs)
	if err != nil {
		return budgetError(x.life, err)
	}
	x.spending = s
	return nil
}
