package proxy

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/transport"
)

// Through returns a transport.Relay.Through for the stream of the first round, which writes all
// rounds to the client. It passes them through then, which may be nil.
func (r *Rounds) Through(then func(io.Writer) io.WriteCloser) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		s := &roundStream{Rounds: r, out: answerOut{To: w}}
		if then != nil {
			s.then = then(w)
			s.out.To = s.then
		}
		s.splitter.Hold = func(n int) error {
			if !r.take(n) {
				return answer.ErrNoLoopRoom
			}
			return nil
		}
		s.splitter.Reset(true, &s.out, r.loop.Stage)
		return s
	}
}

// A roundStream writes the events of all rounds as one stream.
type roundStream struct {
	*Rounds
	then     io.WriteCloser // closed after the stream; may be nil
	splitter answer.Splitter
	out      answerOut // events for the client
	wrote    time.Time // when the client got something last; zero before the first piece
}

// Write processes the next piece of the first round.
func (s *roundStream) Write(piece []byte) (int, error) {
	if _, err := s.splitter.Write(piece); err != nil {
		return 0, s.full(err)
	}
	if now := time.Now(); s.out.Len() > 0 || s.wrote.IsZero() {
		s.wrote = now
	} else if !s.Policy.NoHeartbeat && now.Sub(s.wrote) >= Heartbeat { // events are held back
		s.wrote = now
		if err := answer.EventComment(&s.out, toolsComment); err != nil {
			return 0, err
		}
	}
	return len(piece), s.out.Flush()
}

// toolsComment keeps a stream alive.
const toolsComment = "sidenote tools"

// full ends a stream with err, because there is no memory to buffer it.
func (s *roundStream) full(err error) error {
	if s.out.Broken != nil {
		return s.out.Broken
	}
	broken := &transport.Error{Class: transport.NoRoom, Err: err}
	err = s.fail(s.Host.RoundError(broken), broken)
	if flushErr := s.out.Flush(); flushErr != nil {
		return flushErr
	}
	s.out.Broken = err
	return err
}

// Close ends the first round, runs the others, and ends the answer.
func (s *roundStream) Close() error {
	if s.out.Broken != nil {
		return s.out.Broken
	}
	err := s.rest()
	if flushErr := s.out.Flush(); err == nil {
		err = flushErr
	}
	if s.then != nil {
		if closeErr := s.then.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

func (s *roundStream) rest() error {
	for {
		if err := s.splitter.Close(); err != nil {
			return s.full(err)
		}
		turn, err := s.loop.EndStream(&s.out)
		if err != nil {
			return err
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
		goes := false
		if turn.Ended {
			if err := s.alive(func() { goes = s.follow(&turn) }); err != nil {
				return err
			}
		}
		if !goes {
			return s.loop.Finish(&s.out, s.vendor(), s.Host.CloseRounds())
		}
		if err := s.loop.Continue(&s.out); err != nil {
			return err
		}
		if err := s.round(); err != nil {
			return err
		}
	}
}

// round sends the next round and relays its answer.
func (s *roundStream) round() error {
	var answer *transport.Answer
	var err error = errLater // if the goroutine panics
	if waitErr := s.alive(func() { answer, err = s.Rounds.next() }); waitErr != nil {
		return waitErr
	}
	if transport.ClassOf(err) == transport.ClientGone {
		return err
	}
	if err != nil {
		return s.fail(s.Host.RoundError(err), &transport.Error{Class: transport.Truncated, Err: err})
	}
	defer answer.Close()
	if answer.Status() != fasthttp.StatusOK || !isStream(answer) {
		body, _ := answer.Peek(64<<10, nil)
		return s.fail(body, errLater)
	}
	s.splitter.Reset(true, &s.out, s.loop.Stage)
	piece := make([]byte, 16<<10)
	for {
		n, err := answer.Read(piece)
		if n > 0 {
			s.Host.ReadPiece(piece[:n])
			if _, err := s.Write(piece[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// alive runs do while comments keep the stream alive.
func (s *roundStream) alive(do func()) error {
	comment := func() error {
		if err := answer.EventComment(&s.out, toolsComment); err != nil {
			return err
		}
		return s.out.Flush()
	}
	if s.Policy.NoHeartbeat {
		comment = nil
	}
	return WithHeartbeat(s.Host.Panicked, Heartbeat, comment, do)
}

// errLater reports that a round after the first one failed.
var errLater = &transport.Error{Class: transport.Truncated, Err: errors.New("a further round was refused")}

// fail ends a stream that has begun with an error event: the error in body, if there is one.
func (s *roundStream) fail(body []byte, err error) error {
	if writeErr := s.loop.Fail(&s.out, body); writeErr != nil {
		return writeErr
	}
	return err
}
