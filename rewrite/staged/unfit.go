package staged

import (
	"sidenote/rewrite/chat"
)

// A Reason says why a request cannot be answered in stages. It is of a closed list.
type Reason string

// The reasons.
const (
	Tools       Reason = "client-tools" // the client has tools or functions
	Choices     Reason = "choices"      // it asks for several answers
	Audio       Reason = "audio"        // it asks for something else than text
	Logprobs    Reason = "logprobs"     // it asks how likely the tokens of its answer are
	Attachments Reason = "attachments"  // its messages hold images, audio or files
	NoQuestion  Reason = "no-question"  // its last message is not a text of the user
	BadLimits   Reason = "limits"       // its limits are none that a server takes
)

// Explained returns the reason for people.
func (r Reason) Explained() string {
	switch r {
	case Tools:
		return "it has tools or functions"
	case Choices:
		return "it asks for several answers"
	case Audio:
		return "it asks for something else than text"
	case Logprobs:
		return "it asks for logprobs"
	case Attachments:
		return "its messages hold images, audio or files"
	case NoQuestion:
		return "it does not end with a text of the user"
	}
	return "its limits are none that a server takes"
}

// Unfit says what the request, which is sound JSON and has a message, holds that a chain cannot
// carry; "" if nothing.
func (r *Request) Unfit() Reason {
	switch {
	case r.Limits == nil:
		return BadLimits
	case r.Limits.Choices > 1:
		return Choices
	case r.Attachments > 0:
		return Attachments
	}
	for i := range r.members {
		if why := r.members[i].unfit(); why != "" {
			return why
		}
	}
	if r.Question == "" {
		return NoQuestion
	}
	return ""
}

func (m *member) unfit() Reason {
	switch m.name {
	case "tools", "functions":
		if !m.empty() {
			return Tools
		}
	case "audio":
		if m.kind != chat.KindNull {
			return Audio
		}
	case "modalities":
		if !m.onlyText() {
			return Audio
		}
	case "logprobs":
		if string(m.value) == "true" {
			return Logprobs
		}
	case "top_logprobs":
		if m.kind != chat.KindNull {
			return Logprobs
		}
	}
	return ""
}

// empty tells whether the value is null or an empty list.
func (m *member) empty() bool {
	empty := m.kind == chat.KindNull || m.kind == chat.KindArray
	r := chat.NewReader(m.value)
	r.Array(func(int) {
		empty = false
		r.Value()
	})
	return empty
}

// onlyText tells whether the value is null, or a list of nothing but "text".
func (m *member) onlyText() bool {
	only := m.kind == chat.KindNull || m.kind == chat.KindArray
	r := chat.NewReader(m.value)
	r.Array(func(int) { only = r.Text() == "text" && only })
	return only
}
