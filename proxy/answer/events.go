// Package answer reads and edits chat answers: the events of a stream, or a whole JSON answer as a
// single event. Each reader or editor takes the events one by one and passes on unchanged whatever
// it does not edit.
//
// CitationChecker checks citations and annotates them; Loop joins the rounds of a tool-call loop
// into one answer; UsageReader finds the token usage; AnswerText collects the text. DecodeCoding
// decodes HTTP content codings (RFC 9110 §8.4) within bounds of size and memory.
//
// The package makes no calls and knows no tenants, bases or policies.
package answer

import (
	"bytes"
	"io"
)

// MaxEvent is the size in bytes of the largest event that stages get. Larger ones bypass them
// unless Splitter.Hold is set.
const MaxEvent = 1 << 20

// An EventStage returns a writer whose Write takes one whole event, including the empty line that
// ends it in a stream. Before Write returns, it writes the event, changed or not, to next, unless
// the stage holds or removes it. It must not keep or change its argument. Its errors abort the
// answer.
type EventStage func(next io.Writer) io.Writer

// A Splitter splits an answer, written to it in pieces of any size, into events and passes each to
// the first stage once it is complete. If no stage changes an event, the output equals the input
// byte for byte. Call Reset before the first Write. A Splitter is not safe for concurrent use.
type Splitter struct {
	// Hold, if not nil, reserves memory for n more bytes of an event larger than MaxEvent, which
	// the stages then get too. Its errors abort the answer.
	Hold func(n int) error

	stream bool
	out    io.Writer
	first  io.Writer // the first stage
	held   []byte    // the beginning of an incomplete event
	large  bool      // the current event is larger than MaxEvent
	line   place     // where the last byte of the current event is
}

// A place is a position within a line of a stream.
type place int

const (
	inLine     place = iota // in a line, or at the start of an event, which an empty line does not end
	lineBegins              // at the start of a later line of the event
	emptyButLF              // a CR at the start of a line: if LF follows, the line is empty
)

// Reset prepares s for the next answer, an event stream or a single JSON event. out gets the output
// of the last stage.
func (s *Splitter) Reset(stream bool, out io.Writer, stages ...EventStage) {
	*s = Splitter{Hold: s.Hold, stream: stream, out: out, first: out, held: s.held[:0]}
	for i := len(stages) - 1; i >= 0; i-- {
		s.first = stages[i](s.first)
	}
}

// Write splits the next piece of the answer.
func (s *Splitter) Write(piece []byte) (int, error) {
	for rest := piece; len(rest) > 0; {
		n, ends := s.end(rest)
		if err := s.take(rest[:n], ends); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(piece), nil
}

// Close passes on the rest at the end of the answer: a whole JSON answer, or in a stream an
// incomplete event.
func (s *Splitter) Close() error { return s.take(nil, true) }

// end returns how many bytes of rest belong to the current event, and whether they complete it. An
// empty line ends an event. Lines end with LF or CRLF. A stream with CR alone, which no known
// server sends, counts as one event.
func (s *Splitter) end(rest []byte) (n int, ends bool) {
	for s.stream && n < len(rest) {
		switch c := rest[n]; {
		case c == '\n' && s.line != inLine:
			s.line = inLine
			return n + 1, true
		case c == '\r' && s.line == lineBegins:
			s.line = emptyButLF
			n++
			continue
		}
		i := bytes.IndexByte(rest[n:], '\n')
		if s.line = inLine; i < 0 {
			break
		}
		s.line = lineBegins
		n += i + 1
	}
	return len(rest), false
}

// take adds part to the current event and passes the event on when it is complete.
func (s *Splitter) take(part []byte, ends bool) error {
	to, event := s.first, part
	large := s.large || len(s.held)+len(part) > MaxEvent
	if large && s.Hold != nil {
		if err := s.Hold(len(part)); err != nil {
			return err
		}
		large = false
	}
	switch {
	case large:
		s.large, to = !ends, s.out
		if err := write(to, s.held); err != nil {
			return err
		}
	case !ends:
		s.held = append(s.held, part...)
		return nil
	case len(s.held) > 0:
		s.held = append(s.held, part...)
		event = s.held
	}
	if s.held = s.held[:0]; cap(s.held) > 2*MaxEvent {
		s.held = nil
	}
	return write(to, event)
}

// write writes b unless it is empty.
func write(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}
