package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
)

// A flight is a running call of a stage.
type flight struct {
	report.Stage
	call              *stageCall
	began             time.Time
	span              trace.Span      // of the stage
	within            context.Context // exchange.work outside of span
	key               string          // cache key of its answer; "" if it is not cached
	answer            *transport.Answer
	ctx               context.Context
	cancel            context.CancelCauseFunc
	timer             *time.Timer
	noBudgetForStages bool   // the budget has no room for stages
	wait              string // StageError.Wait
	err               error
}

// stopTimeout removes the time limit of a stage call.
func (f *flight) stopTimeout() {
	if f.timer != nil {
		f.timer.Stop()
	}
}

func (f *flight) end() {
	if f.cancel != nil {
		f.stopTimeout()
		f.cancel(nil)
	}
}

// errLowered is the error of callStage if the budget has room only for the request without
// stages, which is then reserved.
var errLowered = errors.New("there is no room for stages")

// A NotCalledError is the error of callStage for a call that must not be made.
type NotCalledError struct {
	Outcome report.StageOutcome
	Err     error
}

// Error returns the message of the cause.
func (e *NotCalledError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotCalledError) Unwrap() error { return e.Err }

// call sends the request of a stage and waits for the head of the answer.
func (r *stageRun) call(f *flight) report.StageOutcome {
	left := time.Until(r.deadline)
	if left <= 0 {
		return report.StageTimeout
	}
	f.ctx, f.cancel = context.WithCancelCause(r.x.life)
	f.timer = panics.AfterFunc(r.x.panicked, min(left, r.settings.StageTimeout), func() { f.cancel(context.DeadlineExceeded) })
	r.send(f)
	if f.call.Again = r.again(f); f.call.Again {
		r.send(f)
	}
	outcome := r.outcome(f)
	if outcome != report.StageOK {
		if f.answer != nil {
			f.wait = string(f.answer.Header(fasthttp.HeaderRetryAfter))
		}
		r.close(f)
	}
	return outcome
}

func (r *stageRun) send(f *flight) {
	f.Calls++
	f.answer, f.err = r.x.callStage(f.ctx, f.call)
}

// again reports whether to retry a request that did no work: it was not sent, it was too long and
// is shorter now, or it had a parameter that the model refuses and that is now removed.
func (r *stageRun) again(f *flight) bool {
	switch {
	case f.err != nil:
		return transport.Unsent(f.err) && f.ctx.Err() == nil
	case f.answer.Status() == fasthttp.StatusOK:
		return false
	}
	if sources, ok := r.x.fewerSources(f.answer); ok {
		f.answer.Close()
		f.call.Make(sources)
		return true
	}
	if !r.x.stageRefused(f.call, f.answer) {
		return false
	}
	f.answer.Close()
	r.x.adaptStage(f.call)
	r.make(f.call)
	return true
}

// outcome returns the outcome of a call by its error or by the head of its answer.
func (r *stageRun) outcome(f *flight) report.StageOutcome {
	if f.err != nil {
		return unanswered(f)
	}
	f.Status = f.answer.Status()
	switch status := f.Status; {
	case status == fasthttp.StatusTooManyRequests:
		return report.StageLimited
	case status/100 == 4:
		return report.StageRefused
	case status != fasthttp.StatusOK:
		return report.StageServer
	case !answer.PlainCoding(string(f.answer.Header(fasthttp.HeaderContentEncoding))):
		return report.StageInvalid // the request asked for an uncompressed answer
	}
	return report.StageOK
}

// unanswered returns the outcome of a call that failed with f.err.
func unanswered(f *flight) report.StageOutcome {
	if f.noBudgetForStages = errors.Is(f.err, errLowered); f.noBudgetForStages {
		return report.StageBudget
	}
	if unmade, ok := errors.AsType[*NotCalledError](f.err); ok {
		f.Calls--
		return unmade.Outcome
	}
	broken, ok := errors.AsType[*transport.Error](f.err)
	switch {
	case late(f):
		return report.StageTimeout
	case transport.Unsent(f.err):
		return report.StageConnect
	case ok && broken.Timeout():
		return report.StageTimeout
	}
	return report.StageBroken
}

// late reports whether a stage has exceeded its time limit.
func late(f *flight) bool {
	return f.ctx != nil && errors.Is(context.Cause(f.ctx), context.DeadlineExceeded)
}

// read reads the whole answer of a stage. For the last stage it returns the client's answer.
func (r *stageRun) read(f *flight) (answer []byte, outcome report.StageOutcome) {
	r.loop.Begin(f.call.Last)
	body, whole, err := readWhole(f.answer, r.x)
	switch {
	case err != nil:
		f.err = err
		return nil, report.StageNoMemory
	case late(f):
		return nil, report.StageTimeout
	case !whole:
		return nil, report.StageBroken
	}
	if !f.call.Last || r.streams {
		r.x.ReadPiece(body)
	}
	turn, ok := r.loop.EndWhole(body)
	if !ok {
		return body, report.StageInvalid // the body may say why
	}
	outcome = report.StageOK
	f.Output, f.Finish = turn.MessageText(), turn.Finish
	if !f.call.Last {
		f.Output = said(&turn)
	}
	if f.Output == "" {
		outcome = report.StageSilent
	}
	if f.call.Last {
		if turn.Refusal() != "" {
			outcome = report.StageOK
		}
		body, _ = r.loop.Whole(&turn, nil)
		return body, outcome
	}
	if err := r.loop.Continue(io.Discard); err != nil {
		panic("BUG: nothing is written of a stage: " + err.Error())
	}
	return body, outcome
}

// said returns the output of a stage for later stages, without the model's reasoning.
func said(turn *answer.LoopTurn) string {
	output := services.WithoutThinking(turn.MessageText())
	if strings.TrimSpace(output) == "" {
		return ""
	}
	return output
}

// A StageError reports that a stage failed and that no answer replaces it.
type StageError struct {
	Stage report.Stage
	Of    int    // number of stages
	Wait  string // header Retry-After of the upstream's answer; "" if absent
	Err   error
}

// Error names the stage and the cause.
func (e *StageError) Error() string {
	why := "failed: " + string(e.Stage.Outcome)
	switch e.Stage.Outcome {
	case report.StageConnect:
		why = "could not reach its upstream"
	case report.StageLimited, report.StageRefused, report.StageServer:
		why = fmt.Sprintf("was answered with status %d by its upstream", e.Stage.Status)
	case report.StageTimeout:
		why = "took too long"
	case report.StageBroken:
		why = "broke off"
	case report.StageInvalid:
		why = "got an answer from its upstream that is not a chat completion"
	case report.StageSilent:
		why = "got an answer without text"
	case report.StageNoMemory:
		why = "was short of memory for its answer"
	}
	return fmt.Sprintf("Stage %d of %d, %s, %s.", e.Stage.At, e.Of, e.Stage.Name, why)
}

// Unwrap returns the cause; nil if the cause is the upstream's answer.
func (e *StageError) Unwrap() error { return e.Err }
