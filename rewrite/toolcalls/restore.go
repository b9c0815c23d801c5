package toolcalls

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
	f := formOf(h.api)
	for i, t := range found {
		at := &h.turns[i]
		if t == nil || t.API != h.api || f.check(t) != nil || !f.fits(t, at) {
			continue
		}
		insertions = append(insertions, f.insertions(t, at)...)
		restored = append(restored, t)
	}
	return insertions, restored
}

// ids returns the ids of the client's calls.
func (m *toolCallMessage) ids() map[string]bool {
	ids := make(map[string]bool, len(m.calls))
	for i := range m.calls {
		ids[m.calls[i].id] = true
	}
	return ids
}

// fits requires that the positions of the calls exist among the client's calls, and that their ids
// differ.
func (completionForm) fits(t *Turn, at *toolCallMessage) bool {
	if n := len(t.Calls); n > 0 && t.Calls[n-1].At >= n+len(at.calls) {
		return false
	}
	theirs := at.ids()
	for _, c := range t.Calls {
		if ours, _ := readCall(c.JSON); theirs[ours.id] {
			return false
		}
	}
	return true
}

func (completionForm) insertions(t *Turn, at *toolCallMessage) []Insertion {
	var list insertions
	for _, m := range t.Before {
		list.add(at.message.Start, elementBefore(m))
	}
	for ours, c := range t.Calls {
		if theirs := c.At - ours; theirs < len(at.calls) {
			list.add(at.calls[theirs].at.Start, elementBefore(c.JSON))
		} else {
			list.add(at.calls[len(at.calls)-1].at.End, elementBehind(c.JSON))
		}
	}
	for _, m := range t.Results {
		list.add(at.message.End, elementBehind(m))
	}
	return list
}

// elementBefore and elementBehind return a value to insert before or after another one in a list.
func elementBefore(raw []byte) []byte {
	return append(append(make([]byte, 0, len(raw)+1), raw...), ',')
}
func elementBehind(raw []byte) []byte { return append([]byte{','}, raw...) }
