// Package chat parses the body of a chat request into byte offsets of what a rewrite reads or
// changes, and finds the places where text can be added to its messages. It never decodes the
// whole body and never changes it. A chat request is one of an API: chat completions,
// Responses or Anthropic's Messages.
//
// It knows nothing of policies, sources or tokens.
package chat

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Request is a parsed chat request: the body and the offsets of the parts that a
// rewrite reads or changes. The body must outlive it and is never changed.
type Request struct {
	API         API
	Body        []byte
	Model       string // "" if the body names none
	Stream      bool
	ServiceTier string  // "" if the body names none
	TextFormat  bool    // no format of the answer is asked for, or its type is "text"
	Field       Field   // the last member "sidenote"; zero if there is none
	Empty       bool    // the only error is that the list of messages is empty
	History     History // of Responses

	// Used for counting only.
	Messages    []Span // all of them, or items; also, first, instructions or system; and an input that is a string
	Tools       []Span // the arrays tools and functions
	Format      Span   // response_format, text.format or output_config.format, if it has a schema
	Attachments int    // number of content parts that are not text, and of spoken answers
	MaxTokens   int    // limit of one answer: the larger of max_completion_tokens and max_tokens, or max_output_tokens; 0 if not given
	Choices     int    // n, or best_of if larger; 0 if not given

	seen      marks
	first     int       // offset after the opening brace
	list      Span      // the array of messages or items, or a string input
	operator  Member    // instructions or system
	kept      []message // the messages that a rewrite may need
	parts     []Span    // the text parts of all content arrays, in order, quotes included
	ambiguous bool      // two parsers could read something differently

	modelLists bool // the body may have lists of models; see Models
}

// A Field is the member "sidenote" of the body's top object.
type Field struct {
	Value         Span
	Remove        Span // what to delete to remove it: the member, one comma, and the white space up to the next member
	Twice         bool
	LoneSurrogate int // offset of its last escaped lone surrogate, -1 if none
}

// A Parser parses one request after another and reuses its memory. The zero value is ready to
// use. It is not safe for concurrent use.
type Parser struct {
	scanner
	r        Request
	shape    *Error // the first wrong type; reported only if the body is otherwise valid JSON
	keys     keySet
	describe bool    // describe the ambiguities in messages
	model    string  // model of the previous request, mostly the same again
	operator message // what is read of instructions or system
}

// Parse is like API.Parse, but the Request is valid only until the next call of Parse or Reset.
func (p *Parser) Parse(api API, body []byte) (*Request, error) {
	if p.b != nil {
		p.Reset()
	}
	p.scanner = scanner{b: body, loneSurrogate: -1}
	p.r.API, p.r.Body, p.r.TextFormat, p.r.History.Stored = api, body, true, true
	p.top()
	switch {
	case p.tooDeep && p.err != nil:
		return nil, tooDeep()
	case p.err != nil:
		return nil, p.err
	}
	p.r.seen, p.model = p.seen, p.r.Model
	p.r.ambiguous = p.r.ambiguous || p.loneSurrogate >= 0
	if err := p.verdict(); err != nil {
		return &p.r, err
	}
	return &p.r, nil
}

func tooDeep() *Error {
	return &Error{Reason: TooDeep, Message: fmt.Sprintf("body is nested deeper than %d levels", maxDepth)}
}

// maxKept is the largest capacity of a list (of messages, parts and so on) that a Parser keeps
// for the next request.
const maxKept = 512

// Reset drops the body, and lists that are larger than most requests need.
func (p *Parser) Reset() {
	r := &p.r
	if max(cap(r.kept), cap(r.Messages), cap(r.parts), cap(r.Tools), len(p.model)) > maxKept {
		*p = Parser{}
		return
	}
	kept, spans, parts, tools := r.kept, r.Messages, r.parts, r.Tools
	*r = Request{} // set first: with the kept lists in one literal the compiler makes a copy
	r.kept, r.Messages, r.parts, r.Tools = kept[:0], spans[:0], parts[:0], tools[:0]
	p.scanner, p.shape, p.keys = scanner{}, nil, keySet{}
}

// A path names a value of the body. It is formatted only for the first error, because a hostile
// body has an error in every third byte.
type path struct {
	message, part int // -1 if none
	field         string
}

// in returns the path in a body of that dialect.
func (at path) in(d *dialect) string {
	s := at.field
	switch {
	case at.message < 0 && at.part >= 0:
		if s = fmt.Sprintf("%s[%d]", d.operator, at.part); at.field != "" {
			s += "." + at.field
		}
	case at.message >= 0:
		list := d.list
		s = fmt.Sprintf("%s[%d]", list, at.message)
		if at.part >= 0 {
			s += fmt.Sprintf(".content[%d]", at.part)
		}
		if at.field != "" {
			s += "." + at.field
		}
	}
	return s
}

// notChat records that the body is JSON but not a supported chat request.
func (p *Parser) notChat(at path, format string, args ...any) {
	if p.shape == nil {
		where := at.in(p.dialect())
		p.shape = &Error{Reason: NotChat, Param: where, Message: where + ": " + fmt.Sprintf(format, args...)}
	}
}

func (p *Parser) dialect() *dialect { return &dialects[p.r.API] }

func (p *Parser) top() {
	if k := p.kind(); k != KindObject {
		p.value()
		p.end()
		p.fail(NotChat, "body is %s, not an object", k)
		return
	}
	last := -1 // where the previous member ended
	fieldKey := -1
	level, keys := p.keys.level(), p.dialect().keys
	p.r.first = p.i + 1
	p.object(func(key Span, escaped bool) {
		name, same := p.key(level, "", key, escaped, keys)
		if !same {
			name = ""
		}
		if name == "" && !p.r.modelLists {
			p.r.modelLists = namesModels(p.b[key.Start+1:key.End-1], escaped)
		}
		if fieldKey >= 0 { // a member follows the field: remove the comma between them
			p.r.Field.Remove = Span{fieldKey, key.Start}
			fieldKey = -1
		}
		start := p.i
		p.topValue(name)
		if name == "sidenote" {
			fieldKey = key.Start
			f := Field{Value: Span{start, p.i}, Remove: Span{fieldKey, p.i}, Twice: p.r.Field != (Field{}), LoneSurrogate: -1}
			if last >= 0 { // no member follows so far: remove the comma before it
				f.Remove.Start = last
			}
			if p.loneSurrogate >= start {
				f.LoneSurrogate = p.loneSurrogate
			}
			p.r.Field = f
		}
		last = p.i
	})
	p.end()
	if p.r.hasOperator() {
		p.insertOperator()
	}
}

// end checks that nothing follows the body's value.
func (p *Parser) end() {
	if p.peek(); p.i < len(p.b) {
		p.expected("the end of the body")
	}
}

// verdict returns the most important error of a JSON object, nil if it has none.
func (p *Parser) verdict() *Error {
	list := p.dialect().list
	switch {
	case p.tooDeep:
		return tooDeep()
	case p.keys.err != nil:
		return p.keys.err
	case p.shape != nil:
		return p.shape
	case p.r.History.Previous != "" && p.r.History.Conversation != "":
		return &Error{Reason: NotChat, Param: "conversation", Message: "conversation: given together with previous_response_id"}
	case p.r.list == Span{}:
		return &Error{Reason: NotChat, Param: list, Message: list + ": missing"}
	case len(p.r.items()) == 0:
		p.r.Empty = true
		return &Error{Reason: NotChat, Param: list, Message: list + ": empty"}
	}
	return nil
}

// The keys that are read, by level. A key that differs from one of them only in case is
// ambiguous: Go's encoding/json accepts it, a Python upstream does not.
var (
	messageKeys = []string{"role", "content", "audio"}
	partKeys    = []string{"type", "text"}
	formatKeys  = []string{"type"}
)

// key checks a key for duplicates and returns which of known it is; same is false if it differs
// from that in case. It returns "" for any other key.
func (p *Parser) key(level int, at string, key Span, escaped bool, known []string) (name string, same bool) {
	raw := key.Of(p.b)
	text := raw[1 : len(raw)-1]
	if escaped {
		text = []byte(Unquote(raw))
	}
	p.keys.add(level, at, text)
	if p.garbled(key) && p.keys.note() {
		p.keys.describe(at, text, "key %q is not Unicode", text)
	}
	for _, k := range known {
		if len(text) > 3*len(k) { // a letter that folds to an ASCII letter has at most three bytes
			continue
		}
		if string(text) == k {
			return k, true
		}
		if strings.EqualFold(string(text), k) {
			if p.keys.note() {
				p.keys.describe(at, text, "%q differs from %q in case alone", text, k)
			}
			return k, false
		}
	}
	return "", true
}

// garbled reports whether the string that was just read is not valid Unicode, which parsers
// replace in different ways.
func (p *Parser) garbled(text Span) bool {
	return p.loneSurrogate >= text.Start || p.seen&markWide != 0 && !utf8.Valid(text.Of(p.b))
}

func (p *Parser) topValue(name string) {
	k := p.kind()
	switch {
	case name == p.dialect().list && k == KindArray:
		most := min(4+len(p.b)/512, maxKept) // about the number of messages in a conversation of that length
		p.r.kept, p.r.Messages = slices.Grow(p.r.kept[:0], most), slices.Grow(p.r.Messages[:0], most)
		if p.r.API == Responses {
			p.r.list = p.array(p.item)
		} else {
			p.r.list = p.array(p.message)
		}
	case name == "response_format" && k == KindObject:
		p.format("response_format.")
	case name == "model" && k == KindString:
		v, escaped := p.str()
		if p.err == nil {
			if raw := v.Of(p.b); string(raw[1:len(raw)-1]) == p.model && !escaped {
				p.r.Model = p.model
			} else {
				p.r.Model = Unquote(raw)
			}
			if p.garbled(v) && p.keys.note() {
				p.keys.describe("model", nil, "model %q is not Unicode", p.r.Model)
			}
		}
	case name == "stream" && k == KindBool:
		p.r.Stream = p.b[p.i] == 't'
		p.value()
	case (name == "tools" || name == "functions") && k == KindArray:
		p.r.Tools = append(p.r.Tools, p.value())
	case name == "max_tokens" || name == "max_completion_tokens" || name == "max_output_tokens":
		p.r.MaxTokens = max(p.r.MaxTokens, wholeNumber(p.value().Of(p.b)))
	case name == "service_tier":
		p.r.ServiceTier = p.tier(k)
	case name == "n" || name == "best_of":
		p.r.Choices = max(p.r.Choices, wholeNumber(p.value().Of(p.b)))
	case p.r.API == Responses && p.ofResponses(name, k):
	case p.r.API == Messages && p.ofMessages(name, k):
	default:
		switch {
		case name == p.dialect().list:
			want := "an array"
			if p.r.API == Responses {
				want = "a string or an array"
			}
			p.notChat(path{-1, -1, name}, "%s, not %s", k, want)
		case (name == "model" || name == "stream" || name == "response_format" || name == "text") && k != KindNull:
			p.notChat(path{-1, -1, name}, "%s", k)
		}
		p.value()
	}
}

// tier reads a service_tier; it returns "" if that is not a string.
func (p *Parser) tier(k Kind) string {
	v := p.value()
	if k != KindString || p.err != nil {
		return ""
	}
	return Unquote(v.Of(p.b))
}

// format reads the format of the answer; at is its path with a dot.
func (p *Parser) format(at string) {
	level := p.keys.level()
	schema := false
	whole := p.object(func(key Span, escaped bool) {
		name, _ := p.key(level, at, key, escaped, formatKeys)
		k, v := p.kind(), p.value()
		if name == "type" && p.err == nil {
			p.r.TextFormat = k == KindString && Unquote(v.Of(p.b)) == "text"
		}
		schema = schema || k == KindObject
	})
	if schema {
		p.r.Format = whole
	}
	p.keys.leave(level)
}

// maxDepth is the deepest nesting allowed in a body that is rewritten.
const maxDepth = 64

// An Error says why a body is not rewritten.
type Error struct {
	Reason  Reason // NotJSON, NotChat, Ambiguous or TooDeep
	Param   string // the field, such as "messages[2].content"; "" for the whole body
	Message string // human-readable, with the value
}

func (e *Error) Error() string { return e.Message }

// Reason is one of a closed list of words, used as a metric label.
type Reason string

// The reasons why a body is not rewritten.
const (
	NotJSON   Reason = "not-json"
	NotChat   Reason = "not-chat"       // JSON, but not a chat request: no messages, or wrong types
	Ambiguous Reason = "ambiguous-body" // two parsers could read it differently
	TooDeep   Reason = "too-deep"       // nested deeper than maxDepth
)

// A Validity reports whether the texts of the n-th of Messages are valid UTF-8. read checks that;
// a Validity may cache the result for messages of the same bytes.
type Validity func(n int, read func() bool) bool

// Ambiguity returns what two parsers could read differently in the i-th message, nil if nothing.
// valid may be nil.
func (r *Request) Ambiguity(i int, valid Validity) *Error {
	m := &r.kept[i]
	n := int(m.n)
	if !m.ambiguous && r.validUTF8(n, m, valid) {
		return nil
	}
	d, index := &dialects[r.API], n-(len(r.Messages)-len(r.items()))
	param := path{index, -1, ""}.in(d)
	if r.Body[r.Messages[n].Start] == '"' {
		if param = d.list; index < 0 {
			param = d.operator
		}
		return &Error{Reason: Ambiguous, Param: param, Message: "text is not valid Unicode"}
	}
	p := Parser{scanner: scanner{b: r.Body[:r.Messages[n].End], i: r.Messages[n].Start, loneSurrogate: -1}, describe: true}
	switch p.r.API = r.API; {
	case index < 0:
		param = d.operator
		p.blocks()
	case r.API == Responses:
		p.item(index)
	default:
		p.message(index)
	}
	err := p.keys.err
	if err == nil && index < 0 {
		return &Error{Reason: Ambiguous, Param: param, Message: "text is not valid UTF-8"}
	}
	if err == nil {
		return &Error{Reason: Ambiguous, Param: param + ".content", Message: "text is not valid UTF-8"}
	}
	err.Param = strings.Replace(err.Param, d.list+"[]", param, 1)
	return err
}

// OperatorAmbiguity returns what two parsers could read differently in the first system or
// developer message or, with all, in any of them; nil if nothing.
func (r *Request) OperatorAmbiguity(all bool, valid Validity) *Error {
	for i := range r.kept {
		if !r.kept[i].operator() {
			continue
		}
		if err := r.Ambiguity(i, valid); err != nil || !all {
			return err
		}
	}
	return nil
}

// validUTF8 reports whether the text of m, the n-th of Messages, is valid UTF-8.
func (r *Request) validUTF8(n int, m *message, valid Validity) bool {
	if r.seen&markWide == 0 {
		return true
	}
	read := func() bool {
		for text := range r.texts(m) {
			if !utf8.Valid(text.Of(r.Body)) {
				return false
			}
		}
		return true
	}
	if valid == nil {
		return read()
	}
	return valid(n, read)
}

// ValidOutsideMessages reports whether all parsers read the body outside of Messages alike. It
// assumes that each of the Messages is valid UTF-8 and does not check them.
func (r *Request) ValidOutsideMessages() bool {
	if r.ambiguous || r.seen&markWide == 0 {
		return !r.ambiguous
	}
	at, spans := 0, r.Messages
	if len(spans) > 1 && spans[0].Start > spans[1].Start { // instructions after input
		spans = append(slices.Clone(spans[1:]), spans[0])
	}
	for _, m := range spans { // each begins and ends with a brace or a quote, so no character is split
		if !utf8.Valid(r.Body[at:m.Start]) {
			return false
		}
		at = m.End
	}
	return utf8.Valid(r.Body[at:])
}

// MaxQuery is the longest question to search with, in bytes. Of a longer one, the first and last
// MaxQuery/2 bytes are used, because questions tend to be at the ends of long texts.
const MaxQuery = 8 << 10

// reminder begins a text block that Claude Code adds to what its user says.
const reminder = "<system-reminder>"

// Question returns the text to search with and the index of the last user message (-1 if none).
// Later tool messages do not matter, so each round of a tool loop searches for the same.
func (r *Request) Question() (text string, last int) {
	if last = r.lastUser(len(r.kept)); last >= 0 {
		text = r.clipped(&r.kept[last], MaxQuery)
	}
	return text, last
}

// WholeQuestion is Question without any shortening.
func (r *Request) WholeQuestion() (text string, last int) {
	if last = r.lastUser(len(r.kept)); last >= 0 {
		text = strings.TrimSpace(r.text(&r.kept[last]))
	}
	return text, last
}

// Earlier yields the user's texts before message n, last first. Texts longer than most bytes are
// shortened to their two ends, and messages without text are skipped. It stops at a message that
// two parsers could read differently.
func (r *Request) Earlier(n, most int, valid Validity) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := r.lastUser(n); i >= 0 && r.Ambiguity(i, valid) == nil; i = r.lastUser(i) {
			if text := r.clipped(&r.kept[i], most); text != "" && !yield(text) {
				return
			}
		}
	}
}

// EarlierMessages yields the indices of the user's messages before message n, last first.
func (r *Request) EarlierMessages(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := r.lastUser(n); i >= 0 && yield(i); i = r.lastUser(i) {
		}
	}
}

// lastUser returns the index of the last user message before message n, -1 if there is none.
func (r *Request) lastUser(n int) int {
	for i := n - 1; i >= 0; i-- {
		if r.kept[i].role == roleUser {
			return i
		}
	}
	return -1
}

// text decodes what a message says: its string, or its text parts joined by line feeds, except
// reminders of the application beside them.
func (r *Request) text(m *message) string {
	if m.kind == KindString {
		return Unquote(m.content.Of(r.Body))
	}
	var texts []string
	reminders := 0
	for s := range r.texts(m) {
		text := Unquote(s.Of(r.Body))
		if r.API == Messages && strings.HasPrefix(text, reminder) {
			texts = slices.Insert(texts, reminders, text)
			reminders++
			continue
		}
		texts = append(texts, text)
	}
	if reminders < len(texts) {
		texts = texts[reminders:]
	}
	return strings.Join(texts, "\n")
}

// clipped returns the message's text shortened by clip. Users paste whole documents, so of a long
// string only the ends are decoded.
func (r *Request) clipped(m *message, most int) string {
	if m.kind != KindString || m.content.End-m.content.Start < 9*most {
		return clip(r.text(m), most)
	}
	raw := m.content.Of(r.Body)
	raw = raw[1 : len(raw)-1]
	// How many bytes of each end decode to half of most: first as many as the beginning of the
	// text suggests, then enough even if every byte is escaped.
	sample := raw[:boundary(raw, 512)]
	guess := most / 2 * len(sample) / len(decode(sample)) * 9 / 8
	for _, enough := range [...]int{min(guess, 3*most), 3 * most} {
		first, last := boundary(raw, enough), boundary(raw, len(raw)-enough)
		if first >= last {
			break
		}
		head, tail := strings.TrimSpace(decode(raw[:first])), strings.TrimSpace(decode(raw[last:]))
		if len(head) > most/2 && len(tail) > most/2 {
			return ends(head, tail, most)
		}
	}
	return clip(r.text(m), most)
}

// boundary returns the first offset from at on that is not inside an escape. It may be inside a
// UTF-8 character, which is far from the part that is kept.
func boundary(raw []byte, at int) int {
	const most = 5 // bytes of an escape after its backslash
	for at < len(raw) {
		slash := bytes.LastIndexByte(raw[at-most:at], '\\')
		if slash < 0 {
			return at
		}
		at += slash + 1
	}
	return len(raw)
}

// clip trims white space at both ends of text. If it is longer than most bytes, it keeps the
// first and the last most/2.
func clip(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	return ends(text, text, most)
}

// ends joins the first most/2 bytes of head and the last most/2 bytes of tail.
func ends(head, tail string, most int) string {
	first, last := most/2, len(tail)-most/2
	for !utf8.RuneStart(head[first]) {
		first--
	}
	for !utf8.RuneStart(tail[last]) {
		last++
	}
	return head[:first] + "\n" + tail[last:]
}
