package answer

import (
	"bytes"
	"io"

	"sidenote/proxy/panics"
)

// A stream checks the citations in an event stream.
type stream struct {
	checker *CitationChecker
	next    io.Writer
	number  int         // number of the current event, always even; inserted events have odd numbers
	held    []heldEvent // events that may still be edited, and those after them
	size    int         // bytes in held
}

// A heldEvent is a copy of an event.
type heldEvent struct {
	number int
	bytes  []byte
}

// Limits for held events. Beyond them nothing is removed.
const (
	maxHeldEvents = 256
	maxHeldBytes  = 64 << 10
)

// Stage is an EventStage for a streamed answer, to be used once. Annotations are inserted in events
// of their own before the one that ends their text, and into later events that repeat the text. All
// other events are passed on unchanged unless markers are removed: then events are held while their
// text ends with the possible start of a marker to remove.
func (c *CitationChecker) Stage(next io.Writer) io.Writer {
	c.stream = &stream{checker: c, next: next}
	return c.stream
}

var _ EventStage = (*CitationChecker)(nil).Stage

// Flush passes on what Stage holds of a truncated stream.
func (c *CitationChecker) Flush() error {
	if c.stream == nil {
		return nil
	}
	for _, t := range c.texts {
		t.finish()
	}
	return c.stream.release(c.stream.number + 1)
}

// Write reads one event.
func (s *stream) Write(event []byte) (int, error) {
	c := s.checker
	s.number += 2
	inserted := s.read(event)
	if len(s.held) > 0 {
		if err := s.release(s.firstUndecided()); err != nil {
			return 0, err
		}
	}
	if err := s.insert(inserted); err != nil {
		return 0, err
	}
	if c.options.RemoveUnknown && (len(s.held) > 0 || s.firstUndecided() <= s.number) {
		s.held = append(s.held, heldEvent{s.number, bytes.Clone(event)})
		s.size += len(event)
		return len(event), nil
	}
	return len(event), s.pass(s.number, event)
}

// read reads an event, records edits of it, and returns events to insert before it.
func (s *stream) read(event []byte) (inserted [][]byte) {
	c := s.checker
	defer panics.Recover(c.options.Panicked, c.bug)
	inserted = c.format.event(s, event)
	if len(s.held) >= maxHeldEvents || s.size > maxHeldBytes {
		for _, t := range c.texts {
			t.keepMarker()
		}
	}
	return inserted
}

// firstUndecided returns the number of the first event that may still be edited; s.number+1 if
// there is none.
func (s *stream) firstUndecided() int {
	first := s.number + 1
	if s.checker.report.Unread != "" { // nothing is read any more
		return first
	}
	for _, t := range s.checker.texts {
		if event, ok := t.undecided(); ok {
			first = min(first, event)
		}
	}
	return first
}

// release passes on the held events before that number.
func (s *stream) release(before int) error {
	n := 0
	for ; n < len(s.held) && s.held[n].number < before; n++ {
		if err := s.pass(s.held[n].number, s.held[n].bytes); err != nil {
			return err
		}
		s.size -= len(s.held[n].bytes)
	}
	s.held = append(s.held[:0], s.held[n:]...)
	return nil
}

// pass passes on an event with its edits.
func (s *stream) pass(number int, event []byte) error {
	c := s.checker
	if len(c.edits) > 0 {
		var edits []edit
		kept := c.edits[:0]
		for _, e := range c.edits {
			if e.event == number {
				edits = append(edits, e)
			} else {
				kept = append(kept, e)
			}
		}
		c.edits, event = kept, apply(event, edits)
	}
	_, err := s.next.Write(event)
	return err
}

// insert writes events before the current one.
func (s *stream) insert(events [][]byte) error {
	for _, event := range events {
		if len(s.held) > 0 { // keep the order
			s.held = append(s.held, heldEvent{s.number - 1, event})
			s.size += len(event)
			continue
		}
		if _, err := s.next.Write(event); err != nil {
			return err
		}
	}
	return nil
}

// Filter returns a writer that passes a stream, written in pieces of any size, through Stage and
// on to w, with at most one Write for each piece.
func (c *CitationChecker) Filter(w io.Writer) io.WriteCloser {
	t := &through{checker: c, to: w}
	t.splitter.Reset(true, largeEvents{t}, func(io.Writer) io.Writer { return c.Stage(&t.out) })
	return t
}

// through is the writer returned by Filter.
type through struct {
	checker  *CitationChecker
	to       io.Writer
	splitter Splitter
	out      bytes.Buffer // output for the current piece
}

// maxIdleCitationBuffer is the capacity in bytes of the largest buffer that is kept between two
// writes.
const maxIdleCitationBuffer = 2 << 10

// Write reads a piece.
func (t *through) Write(piece []byte) (int, error) {
	if _, err := t.splitter.Write(piece); err != nil {
		return 0, err
	}
	return len(piece), t.flush()
}

// Close passes on the rest.
func (t *through) Close() error {
	if err := t.splitter.Close(); err != nil {
		return err
	}
	if err := t.checker.Flush(); err != nil {
		return err
	}
	return t.flush()
}

func (t *through) flush() error {
	if t.out.Len() == 0 {
		return nil
	}
	_, err := t.to.Write(t.out.Bytes())
	if t.out.Reset(); t.out.Cap() > maxIdleCitationBuffer {
		t.out = bytes.Buffer{}
	}
	return err
}

// largeEvents gets events that are too large for stages. Their text is unknown, so nothing after
// one is checked.
type largeEvents struct{ t *through }

// Write implements io.Writer.
func (l largeEvents) Write(part []byte) (int, error) {
	l.t.checker.Skip(UnreadTooLarge)
	if err := l.t.checker.Flush(); err != nil {
		return 0, err
	}
	return l.t.out.Write(part)
}
