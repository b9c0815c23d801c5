package chat

// A NewMessage is a message that is put among the others.
type NewMessage struct{ Role, Text string }

// Append appends the JSON of the message.
func (m NewMessage) Append(dst []byte) []byte {
	dst = append(appendQuoted(append(dst, `{"role":"`...), m.Role), `","content":"`...)
	return append(appendQuoted(dst, m.Text), `"}`...)
}

// Insert returns what is inserted so that a list, which is not empty, stands before the n-th
// message, or behind the last one if n is their number, and the offset of the place.
func Insert(r *Request, n int, list []NewMessage) (offset int, text []byte) {
	size := 0
	for i := range list {
		size += len(list[i].Text) + len(list[i].Text)/16 + 48
	}
	text = make([]byte, 0, size)
	behind := n == len(r.Messages)
	switch {
	case n == 0:
		offset = r.list.Start + 1
	case behind:
		offset = r.Messages[n-1].End
	default:
		offset = r.Messages[n].Start
	}
	for i := range list {
		if i > 0 || behind && n > 0 {
			text = append(text, ',')
		}
		text = list[i].Append(text)
	}
	if !behind {
		text = append(text, ',')
	}
	return offset, text
}

// BehindOperator returns the index of the first message that is not of the application: of the
// role system or developer. It is their number if all are.
func BehindOperator(r *Request) int {
	for n := range r.Messages {
		if role := RoleOf(r, n); role != "system" && role != "developer" {
			return n
		}
	}
	return len(r.Messages)
}

// BeforeLastUser returns the index of the last user message or, where that stands between calls
// of tools and their answers, of the message that calls. Without a user message it is
// BehindOperator.
func BeforeLastUser(r *Request) int {
	n := len(r.Messages) - 1
	for n >= 0 && RoleOf(r, n) != "user" {
		n--
	}
	if n < 0 {
		return BehindOperator(r)
	}
	for answers := n + 1; answers < len(r.Messages); answers++ {
		switch RoleOf(r, answers) {
		case "assistant":
			return n
		case "tool", "function":
			for n > 0 && RoleOf(r, n) != "assistant" {
				n--
			}
			return n
		}
	}
	return n
}

// RoleOf reads the role of the n-th of r.Messages.
func RoleOf(r *Request, n int) (role string) {
	m := NewReader(r.Messages[n].Of(r.Body))
	m.Object(func(name string) {
		if name == "role" {
			role = m.Text()
		} else {
			m.Value()
		}
	})
	return role
}

// ClipQuestion returns a text as Question would return it.
func ClipQuestion(text string) string { return clip(text, maxQuery) }
