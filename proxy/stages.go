package proxy

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// A stageCall is the request of a stage or, if Stage is nil, the request that replaces the chain.
type stageCall struct {
	At    int           // index of the stage in the chain
	Stage *staged.Stage // nil: the client's request as mode inject sends it
	Bare  bool          // the client's request without sources
	Again bool          // retry of the previous call, which did no work
	Body  []byte        // of the stage's request
	Model rewrite.Model // of the stage
	Last  bool          // of the chain's last stage

	Without []string // parameters that Model refuses
	// Make rebuilds Body with other sources, in the form of staged.Inputs.
	Make func(sources []byte)
}

// A StageHost makes the upstream calls of a request and accounts for them.
type StageHost interface {
	// Call settles the previous call, whose answer was read, and makes the next one. The error is
	// a *transport.Error, an *Unmade, errLowered, or an error to answer the client with.
	Call(ctx context.Context, c *stageCall) (*transport.Answer, error)
	// Shorter returns fewer sources, in the form of staged.Inputs, for a call that its answer
	// rejects as too long for the model. ok is false if it does not, or if fewer would not help.
	Shorter(answer *transport.Answer) (sources []byte, ok bool)
	// Adapt removes from a call the parameters that its model is known to refuse. Call it before
	// Body is made.
	Adapt(c *stageCall)
	// Refused reports whether an answer rejects an optional parameter of its call. Adapt removes
	// that parameter from later calls.
	Refused(c *stageCall, answer *transport.Answer) bool
}

// A StageOutputs caches the answers to stages.
type StageOutputs interface {
	Get(ctx context.Context, key string) (answer []byte, ok bool)
	Put(ctx context.Context, key string, answer []byte, ttl time.Duration)
}

// A StagesSetup holds the inputs of newStages.
type StagesSetup struct {
	Host    StageHost
	Policy  *staged.Policy
	Request *staged.Request // must not be Unfit
	Strip   []rewrite.Edit  // edits of Request
	Sources []byte          // in the form of staged.Inputs
	Models  func(name string) rewrite.Model
	Outputs StageOutputs // nil: nothing is cached
	// Key returns the cache key of the answer to body from the named upstream.
	Key    func(upstream string, body []byte) string
	Memory transport.Room // for answers
	Keep   bool           // put the stages' requests into the Report; otherwise all share Buffer
	Buffer []byte         // memory for the requests of stages
	Life   context.Context
	Report *report.Stages // filled while the stages run
	Tap    func([]byte)   // reads the usage of answers
	// Fixed returns the answer to send if a stage found nothing. If nil, the request is sent
	// without sources then.
	Fixed func() []byte
	// Error returns the response body for an error.
	Error func(err error) []byte
	// Closing returns the text of the comment at the end of a stream.
	Closing  func() string
	Panicked panics.Handler
}

// A stageEnd says which answer the client gets.
type stageEnd int

// The values of stageEnd.
const (
	ByLast     stageEnd = iota // the answer of the last stage
	ByBody                     // Stages.Body: a draft, or a fixed answer
	ByInjected                 // the request as mode inject sends it
	ByBare                     // the request without sources
	ByError                    // Stages.Err
	ByNobody                   // the client has left
)

// Stages runs the stages of one request. It is not safe for concurrent use.
type Stages struct {
	StagesSetup
	Answer *transport.Answer // of the current stage, with status 200; else nil

	// Body is the whole answer if no stage's answer is relayed; Err is the error of a failed stage.
	Body []byte
	Err  error

	chain    *staged.Chain
	prompts  *staged.Prompts
	loop     *answer.Loop
	deadline time.Time // of the whole chain
	at       int       // index of the current or next stage
	flight   *flight   // the running stage; nil for none
	streams  bool      // the client gets events
	held     int       // buffered bytes of streams
	draft    []byte    // answer of the latest draft stage
	drafted  string    // name of that stage
	wait     func(do func())
}

// newStages returns the stages of a request.
func newStages(s StagesSetup) *Stages {
	never := func(string) bool { return false }
	r := &Stages{StagesSetup: s, chain: s.Policy.Chain, deadline: time.Now().Add(s.Policy.Timeout), wait: func(do func()) { do() }}
	r.loop = answer.NewLoop(answer.LoopRules{Ours: never, Starts: never, HideText: true, LastUsage: s.Policy.LastUsage, Take: r.take})
	in := staged.Inputs{Question: s.Request.Question, Context: s.Sources}
	if r.chain.Uses(staged.PlaceHistory) {
		in.History = s.Request.History(s.Models(s.Request.Model).Counter)
	}
	r.prompts = r.chain.Prompts(in)
	s.Report.Of, s.Report.Called = len(r.chain.Stages), make([]report.Stage, 0, len(r.chain.Stages))
	return r
}

// take reserves n bytes for buffering a stream. A request may buffer MaxWhole bytes.
func (r *Stages) take(n int) bool {
	r.held += n
	return r.held <= MaxWhole && r.Memory.Take(n)
}

// Start runs stages until one is answered with status 200, which sets Answer, or until the chain
// ends, which over reports. Nothing was sent to the client then.
func (r *Stages) Start() (end stageEnd, over bool) {
	for {
		goes, end, over := r.begin()
		if goes || over {
			return end, over
		}
	}
}

// Rest runs the remaining stages and reads their answers.
func (r *Stages) Rest() stageEnd {
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

// Added reads the answer to the request that replaced the chain and adds the usage of the stages.
// ok is false if the answer is to be relayed unchanged.
func (r *Stages) Added(answer *transport.Answer) (body []byte, ok bool) {
	if r.loop.Rounds() == 0 || answer.Status() != fasthttp.StatusOK || isStream(answer) {
		return nil, false
	}
	body, whole, err := readWhole(answer, r.Memory)
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

// last reports whether the current stage is the last.
func (r *Stages) last() bool { return r.at == len(r.chain.Stages)-1 }

// begin starts a stage. goes reports that its call is running, over that the chain has ended; if
// both are false, its output came from the cache.
func (r *Stages) begin() (goes bool, end stageEnd, over bool) {
	s := &r.chain.Stages[r.at]
	c := &stageCall{At: r.at, Stage: s, Last: r.last(), Model: r.Models(r.modelOf(s))}
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

// asked records the request of a stage if Keep is set.
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

// make builds the body of a stage's request.
func (r *Stages) make(c *stageCall) {
	if r.Keep {
		r.Buffer = nil
	}
	r.Buffer = r.Request.Body(r.Buffer[:0], staged.Call{Stage: c.Stage, Prompt: r.prompts.Of(c.At, c.Model), Model: c.Model, Last: c.Last, Strip: r.Strip, Without: c.Without})
	c.Body = r.Buffer
}

// remembered returns the cached answer of a stage. An invalid entry counts as a miss.
func (r *Stages) remembered(c *stageCall, f *flight) (ans []byte, ok bool) {
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

// finish reads the answer of the running stage and reports whether the chain has ended.
func (r *Stages) finish() (end stageEnd, over bool) {
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
		f.patient() // Answer is relayed next; its context ends with Life
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

// judge decides whether the chain continues after a stage with the given answer.
func (r *Stages) judge(f *flight, answer []byte) (end stageEnd, over bool) {
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

// failed decides what replaces the chain after a stage has failed.
func (r *Stages) failed(f *flight) stageEnd {
	switch {
	case r.Life.Err() != nil:
		f.Outcome = report.StageLeft
		r.note(f, "")
		return ByNobody
	case f.lowered:
		return ByInjected
	case r.Policy.RefuseOnFailure:
		r.note(f, "")
		r.Err = &StageError{Stage: f.Stage, Of: len(r.chain.Stages), Wait: f.wait, Err: f.err}
		return ByError
	case r.draft != nil:
		r.note(f, r.drafted)
		r.Body = r.loop.Return(r.draft)
		return ByBody
	}
	r.note(f, "")
	return ByInjected
}

// note adds a stage to the Report. answer names the stage whose output is the answer, "" if
// unknown.
func (r *Stages) note(f *flight, answer string) {
	f.Took = time.Since(f.began)
	r.Report.Called, r.Report.Answer = append(r.Report.Called, f.Stage), answer
}

// close releases the answer of a stage.
func (r *Stages) close(f *flight) {
	f.end()
	if f.answer != nil {
		f.answer.Close()
		f.answer, r.Answer = nil, nil
	}
}
