package billing

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/rewrite/tokens"
)

// An API is a form of requests.
type API string

// The APIs.
const (
	Chat      API = "chat"      // POST /v1/chat/completions
	Responses API = "responses" // POST /v1/responses
	Messages  API = "messages"  // POST /v1/messages
)

// A prompt is a request as the model reads it: tools, system, messages.
type prompt struct {
	model     string
	segments  []segment
	explicit  bool     // no implicit breakpoint
	automatic *control // the mark of the whole request; nil for none
}

// A segment is a part of a prompt: a tool, a content part, or the head of a message.
type segment struct {
	text   string
	tokens int
	kind   kind
	place  string // such as messages.0.content.1
	end    bool   // it ends a tool, a content part or a message

	breakpoint bool     // has OpenAI's mark
	control    *control // Anthropic's mark; nil for none
}

// A kind says what a segment holds.
type kind byte

const (
	headKind     kind = iota // the role of a message
	textKind                 // text
	jsonKind                 // anything else, as its JSON
	thinkingKind             // reasoning that the model wrote, as its JSON
)

// A control is a cache_control.
type control struct {
	TTL string `json:"ttl"`
}

func (c *control) hour() bool { return c.TTL == "1h" }

func (c *control) lifetime() time.Duration {
	if c.hour() {
		return time.Hour
	}
	return 5 * time.Minute
}

func (p *prompt) tokens() int {
	n := 0
	for i := range p.segments {
		n += p.segments[i].tokens
	}
	return n
}

// A boundary is the end of a segment where a cached prefix may end.
type boundary struct {
	at     int    // index of the segment
	tokens int    // of the prefix
	digest digest // of the model and the prefix
}

type digest [sha256.Size]byte

// boundaries returns the boundaries of a prompt in order. The end of a content part and the end of
// a message with the same text before it have the same digest: a vendor's pages do not say so, but
// an app that repeats its messages without a proxy's additions can only hit if it is so.
func (p *prompt) boundaries() []boundary {
	var all []boundary
	h := sha256.New()
	write := func(k kind, text string) {
		_, _ = h.Write(binary.AppendUvarint([]byte{byte(k)}, uint64(len(text))))
		_, _ = h.Write([]byte(text))
	}
	write(headKind, p.model)
	n := 0
	for i := range p.segments {
		s := &p.segments[i]
		write(s.kind, s.text)
		if n += s.tokens; s.end {
			all = append(all, boundary{i, n, digest(h.Sum(nil))})
		}
	}
	return all
}

// parse reads the body of a request.
func parse(api API, body []byte, c tokens.Counter) (*prompt, error) {
	var r struct {
		Model        string
		Tools        []json.RawMessage
		System       json.RawMessage // Messages
		Instructions string          // Responses
		Messages     []json.RawMessage
		Input        json.RawMessage       // Responses
		CacheControl *control              `json:"cache_control"`
		CacheOptions struct{ Mode string } `json:"prompt_cache_options"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	p := reader{counter: c, prompt: prompt{model: r.Model, explicit: r.CacheOptions.Mode == "explicit", automatic: r.CacheControl}}
	for i, tool := range r.Tools {
		p.part(fmt.Sprintf("tools.%d", i), tool)
	}
	switch api {
	case Messages:
		if len(r.System) > 0 {
			p.head("system")
			p.content("system", r.System)
		}
	case Responses:
		if r.Instructions != "" {
			p.head("system")
			p.text("instructions", r.Instructions)
		}
		var text string
		if json.Unmarshal(r.Input, &text) == nil {
			p.head("user")
			p.text("input", text)
			break
		}
		if err := json.Unmarshal(r.Input, &r.Messages); err != nil {
			return nil, fmt.Errorf("read input: %w", err)
		}
	}
	for i, m := range r.Messages {
		if err := p.message(fmt.Sprintf("messages.%d", i), m); err != nil {
			return nil, err
		}
	}
	return &p.prompt, nil
}

// A reader adds segments to a prompt.
type reader struct {
	prompt
	counter tokens.Counter
}

// ignored lists the members of messages that no model reads or that are read before.
var ignored = []string{"role", "content", "output", "id", "status", "type"}

// message adds a message of any API or another item of a Responses request.
func (r *reader) message(place string, raw json.RawMessage) error {
	var m struct {
		Role, Type      string
		Content, Output json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("read %s: %w", place, err)
	}
	if m.Role == "" {
		m.Role = m.Type
	}
	r.head(m.Role)
	first := len(r.segments)
	r.content(place+".content", m.Content)
	for i := range r.segments[first:] {
		r.segments[first+i].breakpoint = r.segments[first+i].breakpoint && m.Role != "assistant" // which ignores it
	}
	r.content(place+".output", m.Output)
	if rest := compact(raw, ignored); rest != "{}" {
		r.add(segment{kind: jsonKind, text: rest, tokens: r.count(rest), place: place, end: true})
	}
	return nil
}

func (r *reader) head(role string) {
	r.add(segment{kind: headKind, text: role, tokens: tokens.MessageOverhead})
}

func (r *reader) text(place, text string) {
	r.add(segment{kind: textKind, text: text, tokens: r.count(text), place: place, end: true})
}

// content adds a string or a list of parts.
func (r *reader) content(place string, raw json.RawMessage) {
	var text *string
	var parts []json.RawMessage
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &text) == nil:
		if text != nil {
			r.text(place, *text)
		}
	case json.Unmarshal(raw, &parts) == nil:
		for i, part := range parts {
			r.part(fmt.Sprintf("%s.%d", place, i), part)
		}
	default:
		r.add(segment{kind: jsonKind, text: compact(raw, nil), tokens: r.count(string(raw)), place: place, end: true})
	}
}

// part adds a content part, a content block or a tool.
func (r *reader) part(place string, raw json.RawMessage) {
	var part struct {
		Type       string
		Text       *string
		Content    json.RawMessage
		Control    *control               `json:"cache_control"`
		Breakpoint *struct{ Mode string } `json:"prompt_cache_breakpoint"`
	}
	_ = json.Unmarshal(raw, &part) // what is no object has no marks
	s := segment{kind: jsonKind, place: place, end: true, control: part.Control, breakpoint: part.Breakpoint != nil && part.Breakpoint.Mode == "explicit"}
	switch {
	case strings.HasSuffix(part.Type, "text") && part.Text != nil:
		s.kind, s.text = textKind, *part.Text
	case part.Type == "tool_result":
		r.result(place, raw, part.Content)
	default:
		s.text = compact(raw, []string{"cache_control", "prompt_cache_breakpoint"})
	}
	switch part.Type {
	case "image", "image_url", "input_image":
		s.tokens = tokens.ImageReserve
	case "thinking", "redacted_thinking":
		s.kind = thinkingKind
		s.tokens = r.count(s.text)
	default:
		s.tokens = r.count(s.text)
	}
	r.add(s)
}

// result adds the inside of a tool_result. Of its parts, only marked ones are blocks of their own.
func (r *reader) result(place string, raw, content json.RawMessage) {
	r.head(compact(raw, []string{"content", "cache_control"}))
	first := len(r.segments)
	r.content(place+".content", content)
	for i := range r.segments[first:] {
		s := &r.segments[first+i]
		s.end = s.control != nil
	}
}

func (r *reader) add(s segment) { r.segments = append(r.segments, s) }

func (r *reader) count(text string) int {
	n, _ := r.counter.Count(text)
	return n
}

// compact returns JSON without white space and, of an object, without some members. The order of
// the members stays.
func compact(raw json.RawMessage, without []string) string {
	var out bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		if json.Compact(&out, raw) != nil {
			return string(raw)
		}
		return out.String()
	}
	out.WriteByte('{')
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return string(raw)
		}
		if slices.Contains(without, name.(string)) {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", name)
		if json.Compact(&out, value) != nil {
			return string(raw)
		}
	}
	out.WriteByte('}')
	return out.String()
}
