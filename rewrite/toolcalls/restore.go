package toolcalls

import "sidenote/rewrite/chat"

// An Insertion is a text to insert at an offset of the body.
type Insertion struct {
	Offset int
	Text   []byte
}

// Restore returns the insertions, sorted by offset, that restore turns in the body as the model
// produced them, and the turns that are restored. found are the turns for Keys, nil if missing.
//
// A turn that is invalid, or has an id that the client's message has too, is omitted as a whole.
// So if the rules on tool messages held before, they still do: the calls of a message have
// different ids, and each is answered once, right after that message.
func (h *History) Restore(found []*Turn) (insertions []Insertion, restored []*Turn) {
	for i, t := range found {
		at := &h.turns[i]
		if t == nil || t.API != h.api || t.check() != nil || !t.fits(at) {
			continue
		}
		insertions = append(insertions, t.insertions(at)...)
		restored = append(restored, t)
	}
	return insertions, restored
}

// fits reports whether the positions of a valid turn's calls exist among the client's calls, and
// whether their ids differ.
func (t *Turn) fits(at *toolCallMessage) bool {
	if t.API == chat.Responses {
		return t.fitsItems(at)
	}
	if n := len(t.Calls); n > 0 && t.Calls[n-1].At >= n+len(at.calls) {
		return false
	}
	theirs := make(map[string]bool, len(at.calls))
	for i := range at.calls {
		theirs[at.calls[i].id] = true
	}
	for _, c := range t.Calls {
		if ours, _ := readCall(c.JSON); theirs[ours.id] {
			return false
		}
	}
	return true
}

func (t *Turn) insertions(at *toolCallMessage) []Insertion {
	var list []Insertion
	insert := func(offset int, text []byte) {
		if n := len(list); n > 0 && list[n-1].Offset == offset {
			list[n-1].Text = append(list[n-1].Text, text...)
		} else {
			list = append(list, Insertion{offset, text})
		}
	}
	for _, m := range t.Before {
		insert(at.message.Start, elementBefore(m))
	}
	for ours, c := range t.Calls {
		if theirs := c.At - ours; theirs < len(at.calls) {
			insert(at.calls[theirs].at.Start, elementBefore(c.JSON))
		} else {
			insert(at.calls[len(at.calls)-1].at.End, elementBehind(c.JSON))
		}
	}
	for _, m := range t.Results {
		insert(at.message.End, elementBehind(m))
	}
	return list
}

// elementBefore and elementBehind return a value to insert before or after another one in a list.
func elementBefore(raw []byte) []byte {
	return append(append(make([]byte, 0, len(raw)+1), raw...), ',')
}
func elementBehind(raw []byte) []byte { return append([]byte{','}, raw...) }
