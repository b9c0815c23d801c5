package staged

import (
	"sidenote/rewrite/chat"
)

// A Reason says why a request cannot be answered in stages. It is a closed list.
type Reason string

// The reasons.
const (
	Tools       Reason = "client-tools" // the client has tools or functions
	Choices     Reason = "choices"      // it asks for several choices
	Audio       Reason = "audio"        // it asks for output other than text
	Logprobs    Reason = "logprobs"     // it asks for logprobs
	Attachments Reason = "attachments"  // its messages contain images, audio, files or search results
	NoQuestion  Reason = "no-question"  // its last message is not a user's text
	BadLimits   Reason = "limits"       // its limits are invalid
	Background  Reason = "background"   // its answer is not waited for
	Stored      Reason = "stored"       // the upstream holds earlier turns or the prompt
	Items       Reason = "reasoning"    // its items or messages contain reasoning
)

// Explained returns a human-readable explanation.
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
		return "its messages hold images, audio, files or search results"
	case Background:
		return "its answer is not waited for"
	case Stored:
		return "the upstream holds earlier turns of it, or its prompt"
	case Items:
		return "its messages contain reasoning"
	case NoQuestion:
		return "it does not end with a text of the user"
	}
	return "its max_tokens, n or another limit is invalid"
}

// Unfit returns the reason why a request, which must be valid JSON with a message, cannot be
// answered in stages; "" if it can.
func (r *Request) Unfit() Reason {
	switch {
	case r.Limits == nil:
		return BadLimits
	case r.Limits.Choices > 1:
		return Choices
	case r.Request.History.Continued():
		return Stored
	case r.Attachments > 0:
		return Attachments
	case chat.HasReasoning(r.Request):
		return Items
	}
	unfit := (*member).unfit
	if r.API == chat.Messages {
		unfit = (*member).unfitMessages
		if r.hasSearchResults() {
			return Attachments
		}
	}
	for i := range r.members {
		if why := unfit(&r.members[i]); why != "" {
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
		if m.kind != chat.KindNull && string(m.value) != "0" {
			return Logprobs
		}
	case "background":
		if string(m.value) == "true" {
			return Background
		}
	case "prompt":
		if m.kind == chat.KindObject {
			return Stored
		}
	}
	return ""
}

// empty reports whether the value is null or an empty list.
func (m *member) empty() bool {
	empty := m.kind == chat.KindNull || m.kind == chat.KindArray
	r := chat.NewReader(m.value)
	r.Array(func(int) {
		empty = false
		r.Value()
	})
	return empty
}

// onlyText reports whether the value is null, or a list of nothing but "text".
func (m *member) onlyText() bool {
	only := m.kind == chat.KindNull || m.kind == chat.KindArray
	r := chat.NewReader(m.value)
	r.Array(func(int) { only = r.Text() == "text" && only })
	return only
}
