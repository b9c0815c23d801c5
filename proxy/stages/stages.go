// Package stages answers a chat in stages: one call of a model after another, of which each reads
// what those before it said, and the client gets what the last one says. What a stage is asked is
// package rewrite/staged; this one calls, waits, and says what becomes of a stage that fails.
package stages

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/answers"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// A Call is the request of a stage, or, without a stage, the one that is sent in place of stages.
type Call struct {
	At    int           // of the stage in the chain, from 0
	Stage *staged.Stage // nil: the client's request as mode inject sends it
	Bare  bool          // that one without sources
	Again bool          // the call before was this one, and did no work
	Body  []byte        // of the stage's request
	Model rewrite.Model // of the stage
	Last  bool          // of the chain

	Without []string // parameters that Model refuses
	// Make makes Body again of other sources, as in staged.Inputs.
	Make func(sources []byte)
}

// A Host makes the calls of a request, and keeps its account.
type Host interface {
	// Call settles the call before, of which the answer was read, and makes the next. An error is a
	// *transport.Error, an *Unmade, or ErrLowered.
	Call(ctx context.Context, c *Call) (*transport.Answer, error)
	// Shorter returns fewer sources, as in staged.Inputs, for a call whose answer says that it
	// was too long for its model; false if the answer does not, or fewer do not help.
	Shorter(answer *transport.Answer) (sources []byte, ok bool)
	// Adapt leaves out of a call what its model is known to refuse, before its Body is made.
	Adapt(c *Call)
	// Refused reports whether an answer refuses a parameter of its call that can be left out, which
	// Adapt leaves out from then on.
	Refused(c *Call, answer *transport.Answer) bool
}

// An Outputs remembers what upstreams answered.
type Outputs interface {
	Get(ctx context.Context, key string) (answer []byte, ok bool)
	Put(ctx context.Context, key string, answer []byte, ttl time.Duration)
}

// A Setup is what stages are made with.
type Setup struct {
	Host    Host
	Policy  *staged.Policy
	Request *staged.Request // that is not Unfit
	Strip   []rewrite.Edit  // of it
	Sources []byte          // as in staged.Inputs
	Models  func(name string) rewrite.Model
	Outputs Outputs // nil: none are remembered
	// Key is the key of what a stage is answered by an upstream of that name.
	Key    func(upstream string, body []byte) string
	Memory transport.Room // for answers
	Keep   bool           // what stages are asked is in the Report; else Buffer is used for each
	Buffer []byte         // the memory for requests of stages
	Life   context.Context
	Report *report.Stages // is filled while stages go on
	Tap    func([]byte)   // reads what answers use
	// Fixed makes the answer to a question for which a stage found nothing; nil: the request is sent
	// without sources then.
	Fixed func() []byte
	// Error is the body of the answer that a client gets for an error.
	Error func(err error) []byte
	// Closing returns what a stream's comment at its end says.
	Closing  func() string
	Panicked panics.Handler
}

// An End says what a client is answered with.
type End int

// The ends.
const (
	ByLast     End = iota // the answer of the last stage
	ByBody                // Stages.Body: a draft, or a fixed answer
	ByInjected            // the request as mode inject sends it
	ByBare                // the request without sources
	ByError               // Stages.Err
	ByNobody              // the client has left
)

// Stages are those of one request. They are for one goroutine.
type Stages struct {
	Setup
	Answer *transport.Answer // of the stage that is called now, and its head is 200; else nil

	// Body is the whole answer where no stage's is relayed, and Err the error of one that failed.
	Body []byte
	Err  error

	chain    *staged.Chain
	prompts  *staged.Prompts
	loop     *answer.Loop
	deadline time.Time // of all
	at       int       // the stage that is next, or called
	flight   *flight   // the stage that is called; nil for none
	streams  bool      // the client gets events
	held     int       // bytes that are held up of streams
	draft    []byte    // the answer of the last stage that is a draft
	drafted  string    // its name
	wait     func(do func())
}

// New returns the stages of a request.
func New(s Setup) *Stages {
	never := func(string) bool { return false }
	r := &Stages{Setup: s, chain: s.Policy.Chain, deadline: time.Now().Add(s.Policy.Timeout), wait: func(do func()) { do() }}
	r.loop = answer.NewLoop(answer.LoopRules{Ours: never, Starts: never, HideText: true, LastUsage: s.Policy.LastUsage, Take: r.take})
	in := staged.Inputs{Question: s.Request.Question, Context: s.Sources}
	if r.chain.Uses(staged.PlaceHistory) {
		in.History = s.Request.History(s.Models(s.Request.Model).Counter)
	}
	r.prompts = r.chain.Prompts(in)
	s.Report.Of, s.Report.Called = len(r.chain.Stages), make([]report.Stage, 0, len(r.chain.Stages))
	return r
}

// take takes memory for what is held up of streams, of which one request has answers.MaxWhole at most.
func (r *Stages) take(n int) bool {
	r.held += n
	return r.held <= answers.MaxWhole && r.Memory.Take(n)
}

// Start calls the first stages, until the head of an Answer is known, which is 200, or the chain has
// ended: over is true then. Nothing was sent to the client.
func (r *Stages) Start() (end End, over bool) {
	for {
		goes, end, over := r.begin()
		if goes || over {
			return end, over
		}
	}
}

// Rest calls the others. It ends with the last one's answer, whole, in Answer, or without.
func (r *Stages) Rest() End {
	for {
		if r.flight == nil {
			if end, over := r.Start(); over {
				return end
			}
		}
		if end, over := r.finish(); over {
			return end
		}
	}
}

// Added returns the answer to what was sent in place of stages, whole, with what these used. ok is false
// if the client gets it as it came.
func (r *Stages) Added(answer *transport.Answer) (body []byte, ok bool) {
	if r.loop.Rounds() == 0 || answer.Status() != fasthttp.StatusOK || answers.Stream(answer) {
		return nil, false
	}
	body, whole, err := answers.ReadWhole(answer, r.Memory)
	if err != nil || !whole {
		return nil, false
	}
	r.loop.Begin(true)
	turn, ok := r.loop.EndWhole(body)
	if ok {
		body, _ = r.loop.Whole(&turn, nil)
	}
	return body, ok
}

// last tells whether no stage follows.
func (r *Stages) last() bool { return r.at == len(r.chain.Stages)-1 }

// begin begins a stage. goes tells whether it is called now, over whether the chain has ended; if
// neither, its output was remembered.
func (r *Stages) begin() (goes bool, end End, over bool) {
	s := &r.chain.Stages[r.at]
	c := &Call{At: r.at, Stage: s, Last: r.last(), Model: r.Models(r.modelOf(s))}
	c.Make = func(sources []byte) {
		r.prompts.Replace(sources)
		r.make(c)
	}
	r.Host.Adapt(c)
	r.make(c)
	f := &flight{call: c, began: time.Now(), Stage: report.Stage{Name: s.Name, At: r.at + 1, Upstream: s.Upstream, Model: r.modelOf(s)}}
	if answer, ok := r.remembered(c, f); ok {
		asked(r, f)
		end, over = r.judge(f, answer)
		return false, end, over
	}
	r.wait(func() { f.Outcome = r.call(f) })
	asked(r, f)
	if f.Outcome == report.StageOK {
		r.flight, r.Answer = f, f.answer
		return true, ByLast, false
	}
	return false, r.failed(f), true
}

// asked notes what a stage is asked, if that is kept.
func asked(r *Stages, f *flight) {
	if r.Keep {
		f.Request = f.call.Body
	}
}

func (r *Stages) modelOf(s *staged.Stage) string {
	if s.Model != "" {
		return s.Model
	}
	return r.Request.Model
}

// make makes the body of a stage's request.
func (r *Stages) make(c *Call) {
	if r.Keep {
		r.Buffer = nil
	}
	r.Buffer = r.Request.Body(r.Buffer[:0], staged.Call{Stage: c.Stage, Prompt: r.prompts.Of(c.At, c.Model), Model: c.Model, Last: c.Last, Strip: r.Strip, Without: c.Without})
	c.Body = r.Buffer
}

// remembered returns the answer that a stage got before. What is remembered and is none is left alone.
func (r *Stages) remembered(c *Call, f *flight) (ans []byte, ok bool) {
	if r.Policy.Cache == 0 || r.Outputs == nil || c.Last {
		return nil, false
	}
	f.key = r.Key(c.Stage.Upstream, c.Body)
	r.wait(func() { ans, ok = r.Outputs.Get(r.Life, f.key) })
	if !ok {
		return nil, false
	}
	turn, ok := answer.NewLoop(answer.LoopRules{Ours: func(string) bool { return false }}).EndWhole(ans)
	output := ""
	if ok {
		output = said(&turn)
	}
	if output == "" {
		return nil, false
	}
	f.Output, f.Finish = output, turn.Finish
	return ans, true
}

// finish reads the answer of the stage that is called, and tells whether the chain has ended.
func (r *Stages) finish() (end End, over bool) {
	f := r.flight
	r.flight = nil
	var answer []byte
	r.wait(func() { answer, f.Outcome = r.read(f) })
	if f.Outcome != report.StageOK {
		r.close(f)
		r.loop.Drop()
		return r.failed(f), true
	}
	if r.last() {
		f.patient() // it ends with Life
		r.Body = answer
		r.note(f, f.Name)
		return ByLast, true
	}
	r.close(f)
	if f.key != "" && f.Finish != "length" {
		r.wait(func() { r.Outputs.Put(r.Life, f.key, answer, r.Policy.Cache) })
	}
	return r.judge(f, answer)
}

// judge says whether the chain goes on behind a stage that has an answer.
func (r *Stages) judge(f *flight, answer []byte) (end End, over bool) {
	s := f.call.Stage
	switch {
	case s.Stops(f.Output):
		f.Outcome = report.StageStopped
		r.note(f, r.drafted)
		r.Body = r.loop.Return(r.draft)
		return ByBody, true
	case s.FoundNothing(f.Output):
		f.Outcome = report.StageEmpty
		r.note(f, "")
		if r.Fixed == nil {
			return ByBare, true
		}
		r.Body = r.loop.Return(r.Fixed())
		return ByBody, true
	}
	f.Outcome = report.StageOK
	if s.Draft {
		r.draft, r.drafted = answer, s.Name
	}
	r.note(f, "")
	r.prompts.Add(f.Output)
	r.at++
	return 0, false
}

// failed says what takes the place of the chain when a stage has failed.
func (r *Stages) failed(f *flight) End {
	switch {
	case r.Life.Err() != nil:
		f.Outcome = report.StageLeft
		r.note(f, "")
		return ByNobody
	case f.lowered:
		return ByInjected
	case r.Policy.RefuseOnFailure:
		r.note(f, "")
		r.Err = &Error{Stage: f.Stage, Of: len(r.chain.Stages), Wait: f.wait, Err: f.err}
		return ByError
	case r.draft != nil:
		r.note(f, r.drafted)
		r.Body = r.loop.Return(r.draft)
		return ByBody
	}
	r.note(f, "")
	return ByInjected
}

// note notes what became of a stage, and whose output is the answer, if that is known.
func (r *Stages) note(f *flight, answer string) {
	f.Took = time.Since(f.began)
	r.Report.Called, r.Report.Answer = append(r.Report.Called, f.Stage), answer
}

// close ends the use of a stage's answer.
func (r *Stages) close(f *flight) {
	f.end()
	if f.answer != nil {
		f.answer.Close()
		f.answer, r.Answer = nil, nil
	}
}
