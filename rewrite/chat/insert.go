package chat

// A NewMessage is a message to be inserted.
type NewMessage struct{ Role, Text string }

// Append appends the message as JSON to dst.
func (m NewMessage) Append(dst []byte) []byte {
	dst = append(appendQuoted(append(dst, `{"role":"`...), m.Role), `","content":"`...)
	return append(appendQuoted(dst, m.Text), `"}`...)
}

// Insert returns the JSON that inserts list, which must not be empty, before message n, and its
// offset. If n is the number of messages, it is inserted after the last one.
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

// AfterSystem returns the index of the first message whose role is neither system nor
// developer, or the number of messages if there is none.
func AfterSystem(r *Request) int {
	for n := range r.Messages {
		if role := RoleOf(r, n); role != "system" && role != "developer" {
			return n
		}
	}
	return len(r.Messages)
}

// BeforeLastUser returns the index of the last user message. If that message is between a tool
// call and its result, it returns the index of the message with the call. Without a user message
// it returns AfterSystem.
func BeforeLastUser(r *Request) int {
	n := len(r.Messages) - 1
	for n >= 0 && RoleOf(r, n) != "user" {
		n--
	}
	if n < 0 {
		return AfterSystem(r)
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

// RoleOf returns the role of message n.
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

// ClipQuestion shortens a text as Question does.
func ClipQuestion(text string) string { return clip(text, maxQuery) }
