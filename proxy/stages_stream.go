package proxy

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
)

// Stream runs the remaining stages after Start and writes the answer as a stream to a client whose
// response head was sent. usage reports whether the client asked for usage.
func (r *stageRun) Stream(to io.Writer, usage bool) error {
	s := &stageStream{stageRun: r, out: answerOut{To: to}, usage: usage}
	r.streams = true
	s.splitter.Hold = func(n int) error {
		if !r.take(n) {
			return answer.ErrNoLoopRoom
		}
		return nil
	}
	r.wait = s.alive
	err := s.run()
	if s.out.Broken != nil {
		return s.out.Broken
	}
	return err
}

// A stageStream writes the answer of Stages as events.
type stageStream struct {
	*stageRun
	usage    bool
	splitter answer.Splitter
	out      answerOut // events for the client
	said     bool      // the client has got some text of the answer
}

// soon is how long a comment waits for other data to be written with it.
const soon = 100 * time.Millisecond

// announce adds a comment with the next stage, to be written with the next event or soon.
func (s *stageStream) announce() {
	if s.settings.NoHeartbeat {
		return
	}
	text := fmt.Sprintf("sidenote stage %d/%d %s", s.at+1, len(s.chain.Stages), s.chain.Stages[s.at].Name)
	_ = answer.EventComment(&s.out.Notes, text) // a bytes.Buffer never fails
}

// alive runs do, which writes nothing, while comments keep the stream alive.
func (s *stageStream) alive(do func()) {
	if s.out.Broken != nil {
		return
	}
	comment, first := func() error {
		if s.out.Notes.Len() == 0 {
			s.announce()
		}
		_, err := s.out.Notes.WriteTo(s.out.To)
		return err
	}, Heartbeat
	if s.out.Notes.Len() > 0 {
		first = soon
	}
	if s.settings.NoHeartbeat {
		comment = nil
	}
	if err := WithHeartbeat(s.x.panicked, first, comment, do); err != nil {
		s.out.Broken = err
	}
}

// run runs the stages and writes the answer of the last one, or what replaces it.
func (s *stageStream) run() error {
	s.announce()
	for {
		if f := s.flight; s.last() && isStream(f.answer) {
			s.flight = nil
			return s.pass(f)
		}
		if end, over := s.finish(); over {
			return s.end(end)
		}
		for s.flight == nil {
			s.announce()
			if _, end, over := s.begin(); over {
				return s.end(end)
			}
			if s.out.Broken != nil {
				return s.out.Broken
			}
		}
	}
}

// pass relays the streamed answer of the last stage.
func (s *stageStream) pass(f *flight) error {
	ended, err := s.copy(f)
	s.close(f)
	switch {
	case s.out.Broken != nil || s.x.life.Err() != nil:
		f.Outcome = report.StageLeft
		s.note(f, f.Name)
		return s.end(endByNobody)
	case !s.said:
		f.Outcome = why(f, err, ended)
		s.out.Reset()
		s.loop.DiscardRound()
		return s.end(s.failed(f))
	case err != nil:
		f.Outcome = why(f, err, ended)
		s.note(f, f.Name)
		return err
	}
	if f.Outcome = report.StageOK; !ended { // the client gets what there is of an end
		f.Outcome = report.StageBroken
	}
	s.note(f, f.Name)
	return s.finishStream()
}

// copy relays the stream of a last call without its end; ended reports whether it had one. If the
// stream says nothing, nothing was sent to the client.
func (s *stageStream) copy(f *flight) (ended bool, err error) {
	s.loop.Begin(true)
	s.splitter.Reset(true, &s.out, s.loop.Stage)
	if err = s.readEvents(f); err == nil {
		err = s.splitter.Close()
	}
	turn, endErr := s.loop.EndStream(&s.out)
	if err == nil {
		err = endErr
	}
	f.Output, f.Finish = turn.MessageText(), turn.Finish
	if s.said = s.said || err == nil && s.loop.HasOutput(); s.said {
		if flushErr := s.out.Flush(); err == nil {
			err = flushErr
		}
	}
	return turn.Ended, err
}

// why returns the outcome of a stream that failed or said nothing.
func why(f *flight, err error, ended bool) report.StageOutcome {
	switch {
	case late(f):
		return report.StageTimeout
	case errors.Is(err, answer.ErrNoLoopRoom):
		return report.StageNoMemory
	case err == nil && ended:
		return report.StageSilent
	}
	f.err = err
	if broken, ok := errors.AsType[*transport.Error](err); ok && broken.Timeout() {
		return report.StageTimeout
	}
	return report.StageBroken
}

// readEvents reads the stream to its end. Until the stream says something its time is limited, and
// comments keep the client's stream alive.
func (s *stageStream) readEvents(f *flight) (err error) {
	piece := make([]byte, 16<<10)
	for more := true; more && err == nil; {
		one := func() { more, err = s.piece(f, piece) }
		if s.said {
			one()
			continue
		}
		s.alive(func() {
			for more && err == nil && !s.loop.HasOutput() {
				one()
			}
		})
		if s.out.Broken != nil {
			return s.out.Broken
		}
		if s.loop.HasOutput() && err == nil {
			s.said = true
			f.stopTimeout()
			err = s.out.Flush()
		}
	}
	return err
}

// piece reads the next piece of the stream.
func (s *stageStream) piece(f *flight, piece []byte) (more bool, err error) {
	n, err := f.answer.Read(piece)
	if n > 0 {
		s.x.ReadPiece(piece[:n])
		s.out.Grow(n + n/8) // its events are about as long
		if _, writeErr := s.splitter.Write(piece[:n]); writeErr != nil {
			return false, writeErr
		}
	}
	if s.said {
		if flushErr := s.out.Flush(); flushErr != nil {
			return false, flushErr
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

func (s *stageStream) finishStream() error {
	if err := s.loop.Finish(&s.out, nil, s.x.closeStages()); err != nil {
		return err
	}
	return s.out.Flush()
}

// end writes what replaces the last stage's stream.
func (s *stageStream) end(end stageEnd) error {
	if s.out.Broken != nil {
		return s.out.Broken
	}
	switch end {
	case endByNobody:
		return &transport.Error{Class: transport.ClientGone, Err: s.x.life.Err()}
	case endByError:
		return s.fail(s.x.stageErrorBody(s.Err), s.Err)
	case endByLast, endByBody:
		return s.whole(s.Body)
	}
	return s.instead(end == endByBare)
}

// whole writes a complete answer as events.
func (s *stageStream) whole(body []byte) error {
	s.out.Write(s.loop.Events(body, s.usage, s.x.closeStages()))
	return s.out.Flush()
}

// instead sends the request without stages and relays its answer.
func (s *stageStream) instead(bare bool) error {
	c := &stageCall{Bare: bare, Last: true}
	f := &flight{call: c, ctx: s.x.life}
	s.alive(func() { f.answer, f.err = s.x.callStage(s.x.life, c) })
	switch {
	case s.out.Broken != nil:
		return s.out.Broken
	case f.err != nil && s.x.life.Err() != nil:
		return s.end(endByNobody)
	case f.err != nil:
		return s.fail(s.x.stageErrorBody(f.err), f.err)
	}
	defer f.answer.Close()
	if s.outcome(f) != report.StageOK {
		body, _ := f.answer.Peek(64<<10, nil)
		return s.fail(body, errRefused)
	}
	if !isStream(f.answer) {
		var body []byte
		var outcome report.StageOutcome
		s.alive(func() { body, outcome = s.stageRun.read(f) })
		switch outcome {
		case report.StageOK, report.StageSilent:
			return s.whole(body)
		case report.StageNoMemory:
			return s.fail(s.x.stageErrorBody(f.err), f.err)
		}
		return s.fail(body, errRefused)
	}
	_, err := s.copy(f)
	switch {
	case s.out.Broken != nil:
		return s.out.Broken
	case err != nil && s.said:
		return err
	case err != nil:
		return s.fail(nil, err)
	}
	return s.finishStream() // even if it says nothing
}

// errRefused reports that an upstream refused the request that replaces the stages.
var errRefused = errors.New("the request was refused")

// fail ends a stream with an error, unless the client has left.
func (s *stageStream) fail(body []byte, err error) error {
	if s.x.life.Err() != nil {
		return s.end(endByNobody)
	}
	s.out.Reset()
	if writeErr := s.loop.Fail(&s.out, body); writeErr != nil {
		return writeErr
	}
	if flushErr := s.out.Flush(); flushErr != nil {
		return flushErr
	}
	if transport.ClassOf(err) == transport.NoRoom { // the upstream did nothing wrong
		return err
	}
	return &transport.Error{Class: transport.Truncated, Err: err}
}
