// Package answer reads and edits the answers to chats: the events of a stream, or a whole JSON
// answer as a single event. Each reader or editor takes the events one after the other and passes
// on what it does not own, so that beside its own work no byte of the answer changes.
//
// CitationChecker checks citations and annotates them; Loop makes one answer of the rounds in which
// a model calls our tools; UsageReader finds the usage in tokens; AnswerText collects the text.
// DecodeCoding decodes HTTP's content codings (RFC 9110 §8.4) within bounds of size and memory.
//
// It makes no calls, and knows of no tenant, base or policy.
package answer

import (
	"bytes"
	"io"
)

// MaxEvent is the size of the largest event, in bytes, that is shown to stages. Larger
// ones pass them by, unless Splitter.Hold says otherwise.
const MaxEvent = 1 << 20

// An EventStage returns a writer of which each Write takes one whole event: in a stream, with
// the empty line that ends it. It writes to next what is to follow, which is the event
// as it came unless the stage owns it, before its own Write returns. It must not keep or
// change the event. Its errors end the answer.
type EventStage func(next io.Writer) io.Writer

// A Splitter cuts an answer, which is written to it in pieces of any size, into events,
// and hands each to the first stage as soon as its end has come. If all stages hand on
// all events as they came, what they write together is the answer, byte for byte.
// Only one goroutine may use a Splitter at a time; Reset comes first.
type Splitter struct {
	// Hold, if it is set, takes the memory for n more bytes of an event beyond MaxEvent, which is
	// shown to the stages then. Its errors end the answer.
	Hold func(n int) error

	stream bool
	out    io.Writer
	first  io.Writer // the first stage
	held   []byte    // the beginning of an event whose end has not come
	large  bool      // the current event is larger than MaxEvent
	line   place     // where what came of it ends
}

// A place is one within a line of a stream.
type place int

const (
	inLine     place = iota // or at the beginning of an event, whose first line does not end it
	lineBegins              // after a line of the event
	emptyButLF              // after that and CR: if LF follows the line is empty
)

// Reset prepares s for the next answer, which is a stream of events or a single one. What
// the last of the stages hands on goes to out.
func (s *Splitter) Reset(stream bool, out io.Writer, stages ...EventStage) {
	*s = Splitter{Hold: s.Hold, stream: stream, out: out, first: out, held: s.held[:0]}
	for i := len(stages) - 1; i >= 0; i-- {
		s.first = stages[i](s.first)
	}
}

// Write takes the next piece of the answer.
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

// Close hands on the rest at the end of the answer: a whole one, or in a stream an event
// that was cut or lacks its empty line.
func (s *Splitter) Close() error { return s.take(nil, true) }

// end returns how many bytes of rest belong to the current event, and whether it ends with
// them. The end of an event is an empty line. Lines end with LF or CRLF; if they end with
// CR, which no server is known to send, the stream is one event.
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

// take takes the next part of the current event, and hands the event on when it ends.
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

// write writes what there is to be written.
func write(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}
