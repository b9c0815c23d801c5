package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Request is a parsed chat request: the body and the offsets of what a
// rewrite touches or reads. The body is never changed and must outlive it.
type Request struct {
	Body   []byte
	Model  string // "" when the body names none
	Stream bool

	formatIsText bool // no response_format, or its type is "text"
	seen         marks
	list         span // the messages array
	messages     []message
	parts        []span // the texts of all content arrays, in order, quotes included
	field        member // "sidenote", the last of them; zero when absent
	fieldTwice   bool
	unclear      bool // something may be read in two ways, where only counting looks

	// What only counting looks at.
	spans       []span // of all messages
	tools       []span // the arrays tools and functions
	format      span   // response_format where the answer follows a schema
	attachments int    // content parts that are not text, and spoken answers
	answers     answers
}

// A member is one member of the body's top object, with what must go to remove
// it: itself, one comma, and the white space up to the next member.
type member struct {
	value  span
	remove span
}

// Parse reads body in one pass: every byte is checked, only what a rewrite
// needs is remembered. Every error is a *BodyError.
//
// With an error there may be a Request too, of a body that is a JSON object: it is good
// for Options and StripEdits.
//
// Ambiguous is what two parsers could read differently at a level that is read here: the
// body's own members, response_format, and who says each message. What a message says is
// looked at by the rewrite that searches or extends it. Of all else, an old turn or
// metadata, only tokens are counted, and there a text that stands twice counts twice.
func Parse(body []byte) (*Request, error) { return new(Parser).Parse(body) }

// A Parser parses one request after another in the same memory. The zero value is
// ready. It is not safe for concurrent use.
type Parser struct {
	scanner
	r     Request
	shape *BodyError // the first wrong type: reported only if the rest is sound JSON
	keys  keySet
	tell  bool   // what of messages is unclear
	model string // of the request before, which is mostly that of the next
}

// Parse is the function Parse; the Request is good until the next call, or Reset.
func (p *Parser) Parse(body []byte) (*Request, error) {
	if p.b != nil {
		p.Reset()
	}
	p.scanner = scanner{b: body, loneSurrogate: -1}
	p.r.Body, p.r.formatIsText = body, true
	p.top()
	switch {
	case p.tooDeep && p.err != nil:
		return nil, tooDeep()
	case p.err != nil:
		return nil, p.err
	}
	p.r.seen, p.model = p.seen, p.r.Model
	p.r.unclear = p.r.unclear || p.loneSurrogate >= 0
	if err := p.settle(); err != nil {
		return &p.r, err
	}
	return &p.r, nil
}

func tooDeep() *BodyError {
	return &BodyError{Reason: ReasonTooDeep, Message: fmt.Sprintf("body is nested deeper than %d levels", MaxDepth)}
}

// kept is how many messages, parts and so on a Parser keeps memory for: what few
// requests need is not held for the others.
const kept = 512

// Reset lets go of the body, and of memory that few requests need.
func (p *Parser) Reset() {
	r := &p.r
	if max(cap(r.messages), cap(r.spans), cap(r.parts), cap(r.tools), len(p.model)) > kept {
		*p = Parser{}
		return
	}
	messages, spans, parts, tools := r.messages, r.spans, r.parts, r.tools
	*r = Request{} // apart from what stays: in one literal they would go through a copy
	r.messages, r.spans, r.parts, r.tools = messages[:0], spans[:0], parts[:0], tools[:0]
	p.scanner, p.shape, p.keys = scanner{}, nil, keySet{}
}

// A path leads to a value of the body. It is spelled out for the first error
// only: a hostile body has one in every third byte.
type path struct {
	message, part int // -1: none
	field         string
}

func (at path) String() string {
	s := at.field
	if at.message >= 0 {
		s = fmt.Sprintf("messages[%d]", at.message)
		if at.part >= 0 {
			s += fmt.Sprintf(".content[%d]", at.part)
		}
		if at.field != "" {
			s += "." + at.field
		}
	}
	return s
}

// not notes that the body is JSON but no chat request we can read.
func (p *Parser) not(at path, format string, args ...any) {
	if p.shape == nil {
		p.shape = &BodyError{Reason: ReasonNotChat, Param: at.String(), Message: at.String() + ": " + fmt.Sprintf(format, args...)}
	}
}

func (p *Parser) top() {
	if k := p.kind(); k != kindObject {
		p.value()
		p.end()
		p.fail(ReasonNotChat, "body is %s, not an object", k)
		return
	}
	last := -1 // where the member before ended
	fieldKey := -1
	level := p.keys.level()
	p.object(func(key span, escaped bool) {
		name, same := p.key(level, "", key, escaped, topKeys)
		if !same {
			name = ""
		}
		if fieldKey >= 0 { // a member follows the field: the comma between them goes
			p.r.field.remove = span{fieldKey, key.start}
			fieldKey = -1
		}
		start := p.i
		p.topValue(name)
		if name == "sidenote" {
			fieldKey = key.start
			p.r.fieldTwice = p.r.field != (member{})
			p.r.field = member{value: span{start, p.i}, remove: span{fieldKey, p.i}}
			if last >= 0 { // the last member, so far: the comma before it goes
				p.r.field.remove.start = last
			}
		}
		last = p.i
	})
	p.end()
}

// end checks that nothing follows the body's value.
func (p *Parser) end() {
	if p.peek(); p.i < len(p.b) {
		p.bad("the end of the body")
	}
}

// settle weighs what the pass over a JSON object has found.
func (p *Parser) settle() *BodyError {
	switch {
	case p.tooDeep:
		return tooDeep()
	case p.keys.err != nil:
		return p.keys.err
	case p.shape != nil:
		return p.shape
	case p.r.list == span{}:
		return &BodyError{Reason: ReasonNotChat, Param: "messages", Message: "messages: missing"}
	case len(p.r.messages) == 0:
		return &BodyError{Reason: ReasonNotChat, Param: "messages", Message: "messages: empty"}
	}
	return nil
}

// The keys that are read, by level. A key that differs from one of them in case
// alone is ambiguous: encoding/json of Go would take it, a Python upstream not.
var (
	topKeys = []string{
		"messages", "model", "stream", "response_format", "sidenote",
		"tools", "functions", "max_tokens", "max_completion_tokens", "n", "best_of",
	}
	messageKeys = []string{"role", "content", "audio"}
	partKeys    = []string{"type", "text"}
	formatKeys  = []string{"type"}
)

// key checks a key against those seen at its level and returns the one of known
// that it is, or that it differs from in case alone; "" for any other.
func (p *Parser) key(level int, at string, key span, escaped bool, known []string) (name string, same bool) {
	raw := key.of(p.b)
	text := raw[1 : len(raw)-1]
	if escaped {
		text = []byte(unquote(raw))
	}
	p.keys.add(level, at, text)
	if p.garbled(key) && p.keys.note() {
		p.keys.tell(at, text, "key %q is not Unicode", text)
	}
	for _, k := range known {
		if len(text) > 3*len(k) { // a letter that folds to one of ASCII has three bytes at most
			continue
		}
		if string(text) == k {
			return k, true
		}
		if strings.EqualFold(string(text), k) {
			if p.keys.note() {
				p.keys.tell(at, text, "%q differs from %q in case alone", text, k)
			}
			return k, false
		}
	}
	return "", true
}

// garbled tells whether the string that was read last holds what is no Unicode: each
// parser makes something else of it.
func (p *Parser) garbled(text span) bool {
	return p.loneSurrogate >= text.start || p.seen&markWide != 0 && !utf8.Valid(text.of(p.b))
}

func (p *Parser) topValue(name string) {
	k := p.kind()
	switch {
	case name == "messages" && k == kindArray:
		most := min(4+len(p.b)/512, kept) // as many as a talk of that length mostly has
		p.r.messages, p.r.spans = slices.Grow(p.r.messages[:0], most), slices.Grow(p.r.spans[:0], most)
		p.r.list = p.array(p.message)
	case name == "response_format" && k == kindObject:
		p.format()
	case name == "model" && k == kindString:
		v, escaped := p.str()
		if p.err == nil {
			if raw := v.of(p.b); string(raw[1:len(raw)-1]) == p.model && !escaped {
				p.r.Model = p.model
			} else {
				p.r.Model = unquote(raw)
			}
			if p.garbled(v) && p.keys.note() {
				p.keys.tell("model", nil, "model %q is not Unicode", p.r.Model)
			}
		}
	case name == "stream" && k == kindBool:
		p.r.Stream = p.b[p.i] == 't'
		p.value()
	case (name == "tools" || name == "functions") && k == kindArray:
		p.r.tools = append(p.r.tools, p.value())
	case name == "max_tokens" || name == "max_completion_tokens":
		p.r.answers.tokens = max(p.r.answers.tokens, wholeNumber(p.value().of(p.b)))
	case name == "n" || name == "best_of":
		p.r.answers.choices = max(p.r.answers.choices, wholeNumber(p.value().of(p.b)))
	default:
		switch {
		case name == "messages":
			p.not(path{-1, -1, name}, "%s, not an array", k)
		case (name == "model" || name == "stream" || name == "response_format") && k != kindNull:
			p.not(path{-1, -1, name}, "%s", k)
		}
		p.value()
	}
}

func (p *Parser) format() {
	level := p.keys.level()
	schema := false
	whole := p.object(func(key span, escaped bool) {
		name, _ := p.key(level, "response_format.", key, escaped, formatKeys)
		k, v := p.kind(), p.value()
		if name == "type" && p.err == nil {
			p.r.formatIsText = k == kindString && unquote(v.of(p.b)) == "text"
		}
		schema = schema || k == kindObject
	})
	if schema {
		p.r.format = whole
	}
	p.keys.leave(level)
}
