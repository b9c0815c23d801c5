package proxy

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval/tracing"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/staged"
)

// A stageCall is the request of a stage or, if Stage is nil, the request that replaces the chain.
type stageCall struct {
	At    int           // index of the stage in the chain
	Stage *staged.Stage // nil: the client's request as mode inject sends it
	Bare  bool          // the client's request without sources
	Again bool          // retry of the previous call, which did no work
	Body  []byte        // of the stage's request
	Model model.Model   // of the stage
	Last  bool          // of the chain's last stage

	Without []string // parameters that Model refuses
	// Make rebuilds Body with other sources, in the form of staged.Inputs.
	Make func(sources []byte)
}

// A StageOutputs caches the answers to stages.
type StageOutputs interface {
	Get(ctx context.Context, key string) (answer []byte, ok bool)
	Put(ctx context.Context, key string, answer []byte, ttl time.Duration)
}

// A stageEnd says which answer the client gets.
type stageEnd int

// The values of stageEnd.
const (
	endByLast     stageEnd = iota // the answer of the last stage
	endByBody                     // Stages.Body: a draft, or a fixed answer
	endByInjected                 // the request as mode inject sends it
	endByBare                     // the request without sources
	endByError                    // Stages.Err
	endByNobody                   // the client has left
)

// A stageRun runs the stages of one request. It is not safe for concurrent use.
type stageRun struct {
	x        *exchange
	settings *staged.Policy
	req      *staged.Request // is not Unfit
	strip    []rewrite.Edit  // edits of req
	chain    *staged.Chain
	prompts  *staged.Prompts
	loop     answer.Loop
	deadline time.Time // of the whole chain
	at       int       // index of the current or next stage
	flight   *flight   // the running stage; nil for none
	streams  bool      // the client gets events
	held     int       // buffered bytes of streams
	draft    []byte    // answer of the latest draft stage
	drafted  string    // name of that stage
	wait     func(do func())

	Answer *transport.Answer // of the current stage, with status 200; else nil
	Body   []byte            // the whole answer if no stage's answer is relayed
	Err    error             // of a failed stage
}

// newStageRun returns the stages of a chat that was rewritten. sources are in the form of
// staged.Inputs.
func (x *exchange) newStageRun(req *staged.Request, strip []rewrite.Edit, sources []byte) *stageRun {
	never := func(string) bool { return false }
	settings := &x.policy.Stages
	r := &stageRun{x: x, settings: settings, req: req, strip: strip, chain: settings.Chain, deadline: time.Now().Add(settings.Timeout), wait: func(do func()) { do() }}
	r.loop = answer.NewLoop(answer.LoopRules{API: req.API, Ours: never, MayStartOurs: never, HideText: true, LastUsage: settings.LastUsage, Take: r.take})
	in := staged.Inputs{Question: req.Question, Context: sources}
	if r.chain.Uses(staged.PlaceHistory) {
		in.History = req.History(x.setup.rewriter.Models.Model(req.Model).Counter)
	}
	r.prompts = r.chain.Prompts(in)
	x.report.Stages = &report.Stages{Total: len(r.chain.Stages), Called: make([]report.Stage, 0, len(r.chain.Stages))}
	return r
}

// take reserves n bytes for buffering a stream. A request may buffer MaxWhole bytes.
func (r *stageRun) take(n int) bool {
	r.held += n
	return r.held <= MaxWhole && r.x.Take(n)
}

// Start runs stages until one is answered with status 200, which sets Answer, or until the chain
// ends, which over reports. Nothing was sent to the client then.
func (r *stageRun) Start() (end stageEnd, over bool) {
	for {
		goes, end, over := r.begin()
		if goes || over {
			return end, over
		}
	}
}

// Rest runs the remaining stages and reads their answers.
func (r *stageRun) Rest() stageEnd {
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
func (r *stageRun) Added(answer *transport.Answer) (body []byte, ok bool) {
	if r.loop.Rounds() == 0 || answer.Status() != fasthttp.StatusOK || isStream(answer) {
		return nil, false
	}
	body, whole, err := readWhole(answer, r.x)
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
func (r *stageRun) last() bool { return r.at == len(r.chain.Stages)-1 }

// begin starts a stage. goes reports that its call is running, over that the chain has ended; if
// both are false, its output came from the cache.
func (r *stageRun) begin() (goes bool, end stageEnd, over bool) {
	s := &r.chain.Stages[r.at]
	c := &stageCall{At: r.at, Stage: s, Last: r.last(), Model: r.x.setup.rewriter.Models.Model(r.modelOf(s))}
	c.Make = func(sources []byte) {
		r.prompts.Replace(sources)
		r.make(c)
	}
	r.x.adaptStage(c)
	r.make(c)
	f := &flight{call: c, began: time.Now(), Stage: report.Stage{Name: s.Name, At: r.at + 1, Upstream: s.Upstream, Model: r.modelOf(s)}}
	f.within = r.x.work
	r.x.work, f.span = tracing.Start(r.x.work, "stage", s.Name)
	if answer, ok := r.remembered(c, f); ok {
		r.keepRequest(f)
		end, over = r.judge(f, answer)
		return false, end, over
	}
	r.wait(func() { f.Outcome = r.call(f) })
	r.keepRequest(f)
	if f.Outcome == report.StageOK {
		r.flight, r.Answer = f, f.answer
		return true, endByLast, false
	}
	return false, r.failed(f), true
}

// keepRequest puts the request of a stage into the Report if request bodies are shown.
func (r *stageRun) keepRequest(f *flight) {
	if r.x.server.bodies != nil {
		f.Request = f.call.Body
	}
}

func (r *stageRun) modelOf(s *staged.Stage) string {
	if s.Model != "" {
		return s.Model
	}
	return r.req.Model
}

// make builds the body of a stage's request.
func (r *stageRun) make(c *stageCall) {
	if r.x.server.bodies != nil {
		r.x.stageBody = nil
	}
	r.x.stageBody = r.req.Body(r.x.stageBody[:0], staged.Call{Stage: c.Stage, Prompt: r.prompts.Of(c.At, c.Model), Model: c.Model, Last: c.Last, Strip: r.strip, Without: c.Without})
	c.Body = r.x.stageBody
}

// remembered returns the cached answer of a stage. An invalid entry counts as a miss.
func (r *stageRun) remembered(c *stageCall, f *flight) (ans []byte, ok bool) {
	if r.settings.Cache == 0 || r.x.setup.outputs == nil || c.Last {
		return nil, false
	}
	f.key = r.x.stageOutputKey(c.Stage.Upstream, c.Body)
	r.wait(func() { ans, ok = r.x.setup.outputs.Get(r.x.life, f.key) })
	if !ok {
		return nil, false
	}
	turn, ok := answer.NewLoop(answer.LoopRules{API: r.req.API, Ours: func(string) bool { return false }}).EndWhole(ans)
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
func (r *stageRun) finish() (end stageEnd, over bool) {
	f := r.flight
	r.flight = nil
	var answer []byte
	r.wait(func() { answer, f.Outcome = r.read(f) })
	if f.Outcome != report.StageOK {
		r.close(f)
		r.loop.DiscardRound()
		return r.failed(f), true
	}
	if r.last() {
		f.stopTimeout() // Answer is relayed next; its context ends with Life
		r.Body = answer
		r.note(f, f.Name)
		return endByLast, true
	}
	r.close(f)
	if f.key != "" && f.Finish != "length" {
		r.wait(func() { r.x.setup.outputs.Put(r.x.life, f.key, answer, r.settings.Cache) })
	}
	return r.judge(f, answer)
}

// judge decides whether the chain continues after a stage with the given answer.
func (r *stageRun) judge(f *flight, answer []byte) (end stageEnd, over bool) {
	s := f.call.Stage
	switch {
	case s.Stops(f.Output):
		f.Outcome = report.StageStopped
		r.note(f, r.drafted)
		r.Body = r.loop.ReplayWhole(r.draft)
		return endByBody, true
	case s.FoundNothing(f.Output):
		f.Outcome = report.StageEmpty
		r.note(f, "")
		if !r.x.staging.refusesEmpty() {
			return endByBare, true
		}
		r.Body = r.loop.ReplayWhole(r.x.staging.emptyAnswer())
		return endByBody, true
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
func (r *stageRun) failed(f *flight) stageEnd {
	switch {
	case r.x.life.Err() != nil:
		f.Outcome = report.StageLeft
		r.note(f, "")
		return endByNobody
	case f.noBudgetForStages:
		r.endSpan(f)
		return endByInjected
	case r.settings.RefuseOnFailure:
		r.note(f, "")
		r.Err = &StageError{Stage: f.Stage, Of: len(r.chain.Stages), Wait: f.wait, Err: f.err}
		return endByError
	case r.draft != nil:
		r.note(f, r.drafted)
		r.Body = r.loop.ReplayWhole(r.draft)
		return endByBody
	}
	r.note(f, "")
	return endByInjected
}

// note adds a stage to the Report. answer names the stage whose output is the answer, "" if
// unknown.
func (r *stageRun) note(f *flight, answer string) {
	f.Took = time.Since(f.began)
	r.endSpan(f)
	if all := r.x.report.Stages; all != nil {
		all.Called, all.Answer = append(all.Called, f.Stage), answer
	}
}

// endSpan ends the span of a stage, whose answer has been read.
func (r *stageRun) endSpan(f *flight) {
	r.x.EndAnswer()
	r.x.work = f.within
	if !f.span.IsRecording() {
		return
	}
	f.span.SetAttributes(attribute.Int("sidenote.stage", f.At), keyOutcome.String(string(f.Outcome)))
	if f.Outcome.Failed() {
		tracing.Fail(f.span, string(f.Outcome))
	}
	f.span.End()
}

// close releases the answer of a stage.
func (r *stageRun) close(f *flight) {
	f.end()
	if f.answer != nil {
		f.answer.Close()
		f.answer, r.Answer = nil, nil
	}
}
