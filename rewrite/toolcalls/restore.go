package toolcalls

// An Insertion is text that is inserted at an offset of the body.
type Insertion struct {
	Offset int
	Text   []byte
}

// Restore returns what is inserted in the body so that turns stand in it as the model said them,
// sorted by offset, and the turns that do. found are those of Keys, nil where there is none.
//
// A turn that does not fit is left out as a whole: one that is not sound in itself, or has an id
// that the client's message has too. So where the rules on tool messages held before, they hold
// afterwards: each call is answered once, right behind the message that calls, whose ids differ.
func (h *History) Restore(found []*Turn) (insertions []Insertion, restored []*Turn) {
	for i, t := range found {
		at := &h.turns[i]
		if t == nil || t.check() != nil || !t.fits(at) {
			continue
		}
		insertions = append(insertions, t.insertions(at)...)
		restored = append(restored, t)
	}
	return insertions, restored
}

// fits tells whether the calls of a sound turn have places among the client's, and ids of their own.
func (t *Turn) fits(at *calling) bool {
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

func (t *Turn) insertions(at *calling) []Insertion {
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

// elementBefore and elementBehind write a value before or behind another one of a list.
func elementBefore(raw []byte) []byte {
	return append(append(make([]byte, 0, len(raw)+1), raw...), ',')
}
func elementBehind(raw []byte) []byte { return append([]byte{','}, raw...) }
