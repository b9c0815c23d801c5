package answer

import "bytes"

// loopRounds counts the rounds of a Loop and adds up their usage.
type loopRounds struct {
	rules LoopRules
	round int
	last  bool   // last round: calls of ours are no longer answered
	usage []byte // sum of the previous rounds
}

// Rounds implements Loop.
func (l *loopRounds) Rounds() int { return l.round }

// begin starts a round after one with the given usage, which may be nil.
func (l *loopRounds) begin(last bool, usage []byte) {
	if usage != nil && !l.rules.LastUsage {
		l.usage = sum(l.usage, usage)
	}
	l.round++
	l.last = last
}

// hides reports whether the text of this round is held until it is known that no other round
// follows.
func (l *loopRounds) hides() bool { return l.rules.HideText && !l.last }

// take reserves memory.
func (l *loopRounds) take(n int) error {
	if l.rules.Take != nil && !l.rules.Take(n) {
		return ErrNoLoopRoom
	}
	return nil
}

// total returns the usage of the earlier rounds plus that of this one; either may be nil.
func (l *loopRounds) total(usage []byte) []byte {
	switch {
	case l.usage == nil:
		return usage
	case usage == nil:
		return l.usage
	}
	return sum(l.usage, usage)
}

// A loopEvent is an event of a stream.
type loopEvent struct {
	event    []byte
	data     object // nil if it has none, or anything but a JSON object
	from, to int    // where data is in event
}

func eventOf(event []byte) loopEvent {
	e := loopEvent{event: event}
	var data []byte
	data, e.from, e.to = dataOf(event)
	if o, ok := objectOf(data); ok {
		e.data = o
	}
	return e
}

// copied returns a copy of the event.
func (e *loopEvent) copied() loopEvent { return eventOf(clone(e.event)) }

// rewritten returns the event with its data as it is now.
func (e *loopEvent) rewritten() []byte { return splice(e.event, e.from, e.to, e.data.json()) }

// unmarked drops a byte order mark before the first event of a round, since the client may already
// have got events of earlier rounds.
func unmarked(event []byte, begun *bool) []byte {
	if !*begun {
		*begun = true
		event = bytes.TrimPrefix(event, []byte(MarkEvents))
	}
	return event
}
