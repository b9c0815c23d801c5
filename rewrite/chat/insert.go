package chat

// A NewMessage is a message to be inserted.
type NewMessage struct{ Role, Text string }

// Append appends the message as JSON to dst.
func (m NewMessage) Append(dst []byte) []byte {
	dst = append(appendQuoted(append(dst, `{"role":"`...), m.Role), `","content":"`...)
	return append(appendQuoted(dst, m.Text), `"}`...)
}

// An Insertion is JSON to be inserted at an offset of the body.
type Insertion struct {
	Offset int
	Text   []byte
}

// Insert returns the JSON that inserts list, which must not be empty, before element n of the list
// of messages. If n is their number, it is inserted after the last one. An input that is a string
// becomes a list.
func Insert(r *Request, n int, list []NewMessage) []Insertion {
	size := 0
	for i := range list {
		size += len(list[i].Text) + len(list[i].Text)/16 + 48
	}
	text := make([]byte, 0, size)
	for i := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = list[i].Append(text)
	}
	return InsertJSON(r, n, text)
}

// InsertJSON is like Insert for elements in JSON, separated by commas.
func InsertJSON(r *Request, n int, text []byte) []Insertion {
	all := r.items()
	switch {
	case r.Body[r.list.Start] == '"':
		const open, close = `{"role":"user","content":`, "}"
		before, after := "["+string(text)+","+open, close+"]"
		if n > 0 {
			before, after = "["+open, close+","+string(text)+"]"
		}
		return []Insertion{{r.list.Start, []byte(before)}, {r.list.End, []byte(after)}}
	case len(all) == 0:
		return []Insertion{{r.list.Start + 1, text}}
	case n == len(all):
		return []Insertion{{all[n-1].End, append([]byte{','}, text...)}}
	case n == 0:
		return []Insertion{{r.list.Start + 1, elementBefore(text)}}
	}
	return []Insertion{{all[n].Start, elementBefore(text)}}
}

// elementBefore returns elements to be inserted before another one.
func elementBefore(text []byte) []byte { return append(text[:len(text):len(text)], ',') }

// Append returns the JSON that appends elements, in JSON and separated by commas, to the list of
// messages.
func Append(r *Request, text []byte) []Insertion { return InsertJSON(r, len(r.items()), text) }

// List returns the span of the list of messages or, of Responses, of the input.
func (r *Request) List() Span { return r.list }

// AfterSystem returns the index of the first element of the list of messages whose role is neither
// system nor developer, or their number if there is none.
func AfterSystem(r *Request) int {
	all := r.items()
	for n := range all {
		if role := r.listed(all[n]); role != "system" && role != "developer" {
			return n
		}
	}
	return len(all)
}

// BeforeLastUser returns the index of the last user message in the list of messages. If that
// message is between a tool call and its result, or follows reasoning, it returns the index of the
// element with the call or the reasoning. Without a user message it returns AfterSystem.
func BeforeLastUser(r *Request) int {
	all := r.items()
	n := len(all) - 1
	for n >= 0 && r.listed(all[n]) != "user" {
		n--
	}
	if n < 0 {
		return AfterSystem(r)
	}
	between := n > 0 && r.listed(all[n-1]) == "reasoning"
	for after := n + 1; after < len(all) && !between; after++ {
		switch r.listed(all[after]) {
		case "assistant", "call", "reasoning":
			return n
		case "output":
			between = true
		}
	}
	if !between {
		return n
	}
	if r.API != Responses {
		for n > 0 && r.listed(all[n]) != "assistant" {
			n--
		}
		return n
	}
	for n > 0 {
		switch r.listed(all[n-1]) {
		case "call", "reasoning", "output":
			n--
			continue
		}
		return n
	}
	return n
}

// RoleOf returns the role of message n, "" if it has none.
func RoleOf(r *Request, n int) string {
	if n == 0 && r.hasOperator() {
		return "system"
	}
	role := ""
	m := NewReader(r.Messages[n].Of(r.Body))
	if m.Kind() == KindString {
		return "user"
	}
	m.Object(func(name string) {
		if name == "role" {
			role = m.Text()
		} else {
			m.Value()
		}
	})
	return role
}
