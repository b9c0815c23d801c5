// Package rounds answers a chat in several rounds: the model calls tools of ours, they are answered
// here, and the request goes up again with calls and results behind its messages, until the model
// answers or a limit is reached. What makes one answer of several is package loop; this one calls,
// waits and writes.
package rounds

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/answers"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval/tools"
)

// A Host makes the calls of a request, and keeps its account.
type Host interface {
	// Next settles the round before, of which the answer was read, and sends the request again with
	// messages behind its own, and with our tools unless it is the last round.
	Next(messages []json.RawMessage, last bool) (*transport.Answer, error)
	// Error returns the body of the answer that a client gets for an error of Next.
	Error(err error) []byte
}

// A Setup is what rounds are made with.
type Setup struct {
	Host   Host
	Policy *tools.Policy
	Offer  *Offering
	Box    *tools.Box
	Caller tools.Caller   // FirstID is the first id that no source has
	Room   int            // tokens that all results may have
	Memory transport.Room // for what is held up
	Life   context.Context
	Began  time.Time     // of the request
	Report *report.Tools // is filled while rounds go on
	Tap    func([]byte)  // reads what answers use
	// Check returns an answer that is no stream as the client is to get it; nil: as it is.
	Check func(body []byte) []byte
	// Closing returns what a stream's comment at its end says.
	Closing  func() string
	Panicked panics.Handler
}

// Rounds are those of one request. They are for one goroutine.
type Rounds struct {
	Setup
	loop     *answer.Loop
	deadline time.Time
	messages []json.RawMessage // of the rounds so far, as they go up again
	unseen   []json.RawMessage // of them, what the client does not see, under the XML protocol
	given    map[string]bool   // calls that were answered
	trace    []traced
	last     bool
	held     int // bytes that are held up of streams
}

// New returns the rounds of a request, of which the first has been sent.
func New(s Setup) *Rounds {
	r := &Rounds{Setup: s, given: map[string]bool{}, deadline: s.Began.Add(s.Policy.Timeout)}
	rules := s.Offer.Rules()
	rules.Take = r.take
	r.loop = answer.NewLoop(rules)
	r.begin()
	return r
}

// take takes memory for what is held up of streams, of which one request has answers.MaxWhole at most.
func (r *Rounds) take(n int) bool {
	r.held += n
	return r.held <= answers.MaxWhole && r.Memory.Take(n)
}

func (r *Rounds) begin() {
	r.loop.Begin(r.last)
	r.Report.Rounds++
}

// leastRoom is the least number of tokens into which a result fits.
const leastRoom = 64

// follow answers what the model has called. goes tells whether another round follows, for which all
// is ready then.
func (r *Rounds) follow(t *answer.LoopTurn) (goes bool) {
	switch goes = t.Continues() && !r.last; {
	case goes, t.Mixed() && !r.last:
	case len(t.Theirs) > 0 && len(r.messages) > 0:
		r.Offer.keep(r.Life, r, t, nil)
		return false
	default:
		return false
	}
	t.LimitOurs(r.mostCalls())
	calls := r.answer(t.Ours)
	if !goes {
		r.Offer.keep(r.Life, r, t, calls)
		return false
	}
	r.last = r.loop.Rounds()+1 >= r.Policy.MaxRounds || r.Room < leastRoom || !time.Now().Before(r.deadline)
	results := messages(calls)
	if r.Policy.XML {
		results = []json.RawMessage{inText(calls, r.last)}
		call := calling(t.Ours)
		if r.Offer.hidesText() {
			call = t.Message()
		}
		r.unseen = append(r.unseen, call, inText(calls, false))
	}
	r.messages = append(append(r.messages, t.Message()), results...)
	return true
}

// next sends the next round.
func (r *Rounds) next() (*transport.Answer, error) {
	if r.Life.Err() != nil {
		return nil, &transport.Error{Class: transport.ClientGone, Err: transport.ErrUnsent}
	}
	answer, err := r.Host.Next(r.messages, r.last)
	if err == nil {
		r.last = r.last || r.Offer.Withdrawn()
		r.begin()
	}
	return answer, err
}

// A traced is a call as an answer tells it under trace: on.
type traced struct {
	Round     int    `json:"round"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   string `json:"content"`
}

// vendor returns the vendor field of an answer, nil if there is none.
func (r *Rounds) vendor() json.RawMessage {
	if !r.Policy.Trace || len(r.trace) == 0 {
		return nil
	}
	return encode(map[string]any{"tool_calls": r.trace})
}

// encode writes JSON compactly, with < and & as they are.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
