package chat

import (
	"bytes"
	"slices"
)

// A CacheMark is a member of a content part that marks the end of what an upstream caches of a
// prompt.
type CacheMark byte

// The marks.
const (
	// MarkBreakpoint is OpenAI's (developers.openai.com/api/docs/guides/prompt-caching).
	MarkBreakpoint CacheMark = iota
	// MarkControl and MarkHour are Anthropic's, for five minutes and for an hour
	// (platform.claude.com/docs, "Prompt caching").
	MarkControl
	MarkHour
)

// The names of the members.
const (
	breakpointMember = "prompt_cache_breakpoint"
	controlMember    = "cache_control"
)

// name returns the name of the member, with its quotes.
func (m CacheMark) name() string {
	if m == MarkBreakpoint {
		return `"` + breakpointMember + `"`
	}
	return `"` + controlMember + `"`
}

// IsCacheMark reports whether a member of a content part is a mark. Marks are no part of the prompt.
func IsCacheMark(member string) bool {
	return member == breakpointMember || member == controlMember
}

// MaxCacheMarks is the number of marks that both upstreams take in one request.
const MaxCacheMarks = 4

// JSON returns the member that is inserted before the brace that closes a content part.
func (m CacheMark) JSON() []byte {
	value := [...]string{`{"mode":"explicit"}`, `{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`}[m]
	return []byte("," + m.name() + ":" + value)
}

// CountIn returns the number of marks in a part of a body. It may count a string that is equal to the
// name of the member, but never misses a mark unless its name is escaped.
func (m CacheMark) CountIn(part []byte) int { return bytes.Count(part, []byte(m.name())) }

// ForHour reports whether a part of a body has a mark for an hour.
func ForHour(part []byte) bool {
	name := []byte(MarkHour.name())
	for {
		_, after, ok := bytes.Cut(part, name)
		if !ok {
			return false
		}
		if value := bytes.TrimLeft(after, ": \t\r\n"); len(value) > 0 && value[0] == '{' {
			mark, _, _ := bytes.Cut(value, []byte("}"))
			if bytes.Contains(mark, []byte(`"1h"`)) {
				return true
			}
		}
		part = after
	}
}

// WithoutCacheMarks returns a part of a body without the marks of either kind, which applications
// move from turn to turn.
func WithoutCacheMarks(part []byte) []byte {
	for _, m := range [...]CacheMark{MarkBreakpoint, MarkControl} {
		part = withoutMembers(part, []byte(m.name()))
	}
	return part
}

// withoutMembers returns JSON without the members of that name whose values are objects without
// objects.
func withoutMembers(text, name []byte) []byte {
	at := bytes.Index(text, name)
	if at < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for ; at >= 0; at = bytes.Index(text, name) {
		value := bytes.TrimLeft(text[at+len(name):], ": \t\r\n")
		end := bytes.IndexByte(value, '}')
		if end < 0 || value[0] != '{' {
			out, text = append(out, text[:at+len(name)]...), text[at+len(name):]
			continue
		}
		out = bytes.TrimRight(append(out, text[:at]...), " \t\r\n")
		text = bytes.TrimLeft(value[end+1:], " \t\r\n")
		if before, ok := bytes.CutSuffix(out, []byte(",")); ok {
			out = before
		} else {
			text = bytes.TrimPrefix(text, []byte(","))
		}
	}
	return append(out, text...)
}

// A MarkPlace is where a mark is inserted, at the end of what the application wrote in a message.
type MarkPlace struct {
	Offset int  // of the mark's JSON
	Text   Span // a string that becomes the text of the first part of a list; zero if the content is a list
	Marked bool // the application has marked its last part
}

// MarkAfter returns the place of a mark at the end of the content of the i-th message. It is false if
// there is none: the content is empty, its last part cannot be marked, or the API has only text there.
func (r *Request) MarkAfter(i int, mark CacheMark) (at MarkPlace, ok bool) {
	m := &r.kept[i]
	switch {
	case m.kind == KindString && m.content.End-m.content.Start > 2 && !r.onlyText(i):
		return MarkPlace{Offset: m.content.End, Text: m.content}, true
	case m.kind == KindArray && m.last > 0:
		last := r.lastPart(m)
		if !markable(last) {
			return at, false
		}
		return MarkPlace{Offset: m.last - 1, Marked: mark.CountIn(last) > 0}, true
	}
	return at, false
}

// onlyText reports whether the i-th message is instructions or an input that is a string, which the
// Responses API does not take as a list of parts.
func (r *Request) onlyText(i int) bool {
	return r.API == Responses && (r.InInstructions(r.kept[i].content) || r.kept[i].content == r.list)
}

// lastPart returns the last part of a message's list of parts.
func (r *Request) lastPart(m *message) (part []byte) {
	list := NewReader(r.Body[m.content.Start:m.content.End])
	list.Array(func(int) { part = list.Value() })
	return part
}

// markableParts are the types of the content parts that upstreams document to take marks.
var markableParts = []string{"text", "input_text", "image", "image_url", "input_image", "input_audio", "file", "input_file", "document", "search_result"}

// markable reports whether a content part is an object that can have a mark, and no empty text.
func markable(part []byte) bool {
	kind, empty := "", false
	r := NewReader(part)
	if r.Kind() != KindObject {
		return false
	}
	r.Object(func(name string) {
		switch {
		case name == "type" && r.Kind() == KindString:
			kind = r.Text()
		case name == "text" && r.Kind() == KindString:
			empty = r.Text() == ""
		default:
			r.Value()
		}
	})
	return !empty && slices.Contains(markableParts, kind)
}

// EndAsPart is like EndOf for a content that is a string: it returns the place of a part after the
// string, which becomes a part itself.
func (r *Request) EndAsPart(i int) Place {
	m, d := &r.kept[i], &dialects[r.API]
	return Place{Offset: m.content.End, Wrap: m.content, wrap: d.openList(), Frame: Frame{open: "}," + d.openPart, close: `"}]`, Before: r.tail(m)}}
}

// EndAsOnlyPart returns the end of the JSON that makes a string the only part of a list, whose
// beginning is what Place.Wrapping returns for EndAsPart.
const EndAsOnlyPart = "}]"

// openList opens a list whose first part has a string as its text.
func (d *dialect) openList() string { return "[" + d.openPart[:len(d.openPart)-1] }

// LastMessage reports whether no message follows the i-th.
func (r *Request) LastMessage(i int) bool { return int(r.kept[i].n) == len(r.Messages)-1 }

// After returns the part of the list of messages after the i-th one.
func (r *Request) After(i int) []byte {
	if r.InInstructions(r.kept[i].content) {
		return r.list.Of(r.Body)
	}
	return r.Body[r.Messages[r.kept[i].n].End:r.list.End]
}

// PromptCacheOptions returns the members of the body that say how its prompt is cached: the value of
// cache_control (Messages) or prompt_cache_options; nil if there is none.
func (r *Request) PromptCacheOptions() (options []byte) {
	name := "prompt_cache_options"
	if r.API == Messages {
		name = "cache_control"
	}
	if !bytes.Contains(r.Body, []byte(name)) { // the usual case
		return nil
	}
	body := NewReader(r.Body)
	body.Members(func(member []byte) {
		if value := body.Value(); string(member) == name {
			options = value
		}
	})
	return options
}
