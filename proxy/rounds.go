package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval/tools"
)

// A RoundsHost makes the upstream calls of a request and accounts for them. An exchange is one.
type RoundsHost interface {
	transport.BodyMemory // for buffered streams
	// NextRound settles the previous round, whose answer was read, and sends the request again with
	// messages appended, and with Sidenote's tools unless it is the last round.
	NextRound(messages []json.RawMessage, last bool) (*transport.Answer, error)
	// KeepPending keeps what the upstream of a conversation waits for until the next round has ended.
	KeepPending()
	// EndAnswer notes that the answer of the current round has been read.
	EndAnswer()
	// RoundError returns the response body for an error of NextRound.
	RoundError(err error) []byte
	// ReadPiece reads the usage of an answer that is not relayed as it comes.
	ReadPiece(piece []byte)
	// CheckWhole returns the body that the client gets for a non-streamed answer.
	CheckWhole(body []byte) []byte
	// CloseRounds returns the comment at the end of a stream.
	CloseRounds() string
	// Panicked reports a panic.
	Panicked(value any, stack []byte)
}

// A RoundsSetup holds the inputs of NewRounds.
type RoundsSetup struct {
	Host   RoundsHost
	Policy *tools.Policy
	Offer  *Offering
	Box    *tools.Box
	Caller tools.Caller // FirstID is the first unused source id
	Room   int          // token budget of all results
	Life   context.Context
	Began  time.Time     // of the request
	Report *report.Tools // filled while the rounds run
}

// Rounds runs the rounds of one request. It is not safe for concurrent use.
type Rounds struct {
	RoundsSetup
	loop     answer.Loop
	deadline time.Time
	messages []json.RawMessage // messages of the rounds so far, which are sent again
	unseen   []answer.LoopPart // what the client does not get of messages
	pending  []json.RawMessage // results that the upstream waits for and the client does not get
	given    map[string]bool   // calls that were run, by name and arguments
	trace    []traced
	last     bool
	held     int // buffered bytes of streams
}

// NewRounds returns the Rounds of a request whose first round has been sent.
func NewRounds(s RoundsSetup) *Rounds {
	r := &Rounds{RoundsSetup: s, given: map[string]bool{}, deadline: s.Began.Add(s.Policy.Timeout)}
	rules := s.Offer.Rules()
	rules.Take = r.take
	r.loop = answer.NewLoop(rules)
	r.begin()
	return r
}

// take reserves n bytes for buffering a stream. A request may buffer MaxWhole bytes.
func (r *Rounds) take(n int) bool {
	r.held += n
	return r.held <= MaxWhole && r.Host.Take(n)
}

func (r *Rounds) begin() {
	r.loop.Begin(r.last)
	r.Report.Rounds++
}

// leastRoom is the smallest token budget for which a call is run.
const leastRoom = 64

// follow runs the model's calls of Sidenote's tools. goes reports whether another round follows;
// next can send it then.
func (r *Rounds) follow(t *answer.LoopTurn) (goes bool) {
	r.pending = nil
	switch goes = t.Continues() && !r.last; {
	case goes, t.Mixed() && !r.last:
	case r.Offer.asked.AnswersAll() && (t.Continues() || t.Mixed()):
		calls := notRun(t.OurCalls)
		if r.pending = r.Offer.results(calls); t.Mixed() {
			r.Offer.keep(r.Life, r, t, calls)
		}
		return false
	case len(t.ClientCalls) > 0 && len(r.messages) > 0:
		if !r.Policy.XML {
			t.LimitOurs(0)
		}
		r.Offer.keep(r.Life, r, t, nil)
		return false
	default:
		return false
	}
	t.LimitOurs(r.mostCalls())
	calls := r.answer(t.OurCalls)
	if !goes {
		r.pending = r.Offer.results(calls)
		r.Offer.keep(r.Life, r, t, calls)
		return false
	}
	r.last = r.loop.Rounds()+1 >= r.Policy.MaxRounds || r.Room < leastRoom || !time.Now().Before(r.deadline)
	results := r.Offer.results(calls)
	if r.Policy.XML {
		results = []json.RawMessage{inText(calls, r.last)}
		call := calling(t.OurCalls)
		if r.Offer.hidesText() {
			call = t.Messages()[0]
		}
		r.unseen = append(r.unseen, answer.LoopPart{JSON: call}, answer.LoopPart{JSON: inText(calls, false)})
	} else {
		r.unseen = append(r.unseen, t.Unseen()...)
		after := r.unseen[len(r.unseen)-1]
		for _, result := range results {
			after.JSON = result
			r.unseen = append(r.unseen, after)
		}
	}
	if r.Offer.req.History.Conversation != "" { // it has everything else already
		r.messages, r.pending = results, results
		r.Host.KeepPending()
		return true
	}
	r.messages = append(append(r.messages, t.Messages()...), results...)
	return true
}

// next sends the next round.
func (r *Rounds) next() (*transport.Answer, error) {
	if r.Life.Err() != nil {
		return nil, &transport.Error{Class: transport.ClientGone, Err: transport.ErrUnsent}
	}
	answer, err := r.Host.NextRound(r.messages, r.last)
	if err == nil {
		r.last = r.last || r.Offer.Withdrawn()
		r.begin()
	}
	return answer, err
}

// A traced is a tool call as shown in an answer under trace: on.
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
	return encodeRound(map[string]any{"tool_calls": r.trace})
}

// encodeRound encodes v as compact JSON without escaping HTML characters.
func encodeRound(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
