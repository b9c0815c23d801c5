package staged

import (
	"slices"
	"strconv"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// A Call holds the input for the request of one stage, besides the client's request.
type Call struct {
	Stage *Stage
	Prompt
	Model model.Model    // the stage's model
	Last  bool           // its answer is sent to the client
	Strip []rewrite.Edit // edits of the client's request: rewrite.StripEdits

	Without []string // parameters that the model refuses
}

// usualHead is the typical size of a request without its conversation, in bytes.
const usualHead = 4 << 10

// Body appends the request of a stage to dst. r must not be Unfit. The request has the
// application's system and developer messages, followed by the stage's prompts; see the table in
// the README for all other members.
func (r *Request) Body(dst []byte, c Call) []byte {
	b := builder{req: r, call: &c, body: append(slices.Grow(dst, min(len(r.Request.Body), usualHead)+c.size()+256), '{'), start: len(dst)}
	for i := range r.members {
		b.member(&r.members[i])
	}
	if c.Stage.Model != "" && !b.hasModel {
		b.add("model", quoted(c.Stage.Model))
	}
	if t := b.temperature(); t != "" {
		b.add("temperature", []byte(t))
	}
	if e := b.effort(); e != "" {
		if b.responses() {
			b.add("reasoning", append(append([]byte(`{"effort":`), quoted(e)...), '}'))
		} else {
			b.add(fieldEffort, quoted(e))
		}
	}
	if name, n := b.limit(); n > 0 {
		b.add(name, strconv.AppendInt(nil, int64(n), 10))
	}
	if b.responses() && !b.call.Last {
		b.add("store", []byte("false"))
	}
	return append(b.body, '}')
}

// A builder writes the request of a stage.
type builder struct {
	req       *Request
	call      *Call
	body      []byte
	start     int // offset of the request in body
	hasModel  bool
	hasEffort bool
}

func (b *builder) add(name string, value []byte) {
	b.name(name)
	b.body = append(b.body, value...)
}

// name begins a member.
func (b *builder) name(name string) {
	if len(b.body) > b.start+1 {
		b.body = append(b.body, ',')
	}
	b.body = append(chat.AppendEscaped(append(b.body, '"'), name), `":`...)
}

// member writes a member of the client's request as it is for this stage.
func (b *builder) member(m *member) {
	if b.leavesOut(m.name) {
		return
	}
	if b.ofOtherAPI(m.name) {
		b.add(m.name, m.value)
		return
	}
	switch m.name {
	case "messages", "input":
		b.name(m.name)
		b.body = b.messages(b.body)
	case "instructions":
		if b.req.instructions.End > 0 {
			b.name(m.name)
			b.body = b.stripped(b.body, b.req.instructions)
			break
		}
		b.add(m.name, m.value)
	case "model":
		value := m.value
		if own := b.call.Stage.Model; own != "" {
			value = quoted(own)
		}
		b.hasModel = true
		b.add(m.name, value)
	case "temperature":
		if b.temperature() == "" && !(b.fixedTemperature() && b.call.Stage.Model != "") {
			b.add(m.name, m.value)
		}
	case "stream", "stream_options", "prediction", "store", "include":
		if b.call.Last {
			b.add(m.name, m.value)
		}
	case "stop", "response_format", "verbosity", "text":
		if b.answers() {
			b.add(m.name, m.value)
		}
	case "max_tokens", "max_completion_tokens", "max_output_tokens": // see limit
	case "sidenote", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call":
	case fieldEffort, "reasoning":
		if b.call.Stage.Model == "" || b.call.Model.Reasoning != tokens.ReasoningNone { // otherwise it was meant for another model
			b.hasEffort = true
			b.add(m.name, m.value)
		}
	default:
		b.add(m.name, m.value)
	}
}

// ofOtherAPI reports whether a member has a meaning in the other API only.
func (b *builder) ofOtherAPI(name string) bool {
	switch name {
	case "input", "instructions", "text", "include", "max_output_tokens", "reasoning":
		return !b.responses()
	case "messages", fieldEffort:
		return b.responses()
	}
	return false
}

// EffortParam returns the member of a request with the reasoning effort.
func EffortParam(api chat.API) string {
	if api == chat.Responses {
		return "reasoning"
	}
	return fieldEffort
}

// responses reports whether the request is one of the Responses API.
func (b *builder) responses() bool { return b.req.API == chat.Responses }

// leavesOut reports whether a member is omitted because the model refuses it.
func (b *builder) leavesOut(name string) bool {
	return slices.Contains(b.call.Without, name) && name != "messages" && name != "input" && name != "model"
}

// fixedTemperature reports whether the model accepts only its own temperature, as do those that
// accept only max_completion_tokens.
func (b *builder) fixedTemperature() bool {
	return b.call.Model.CompletionCap || b.call.Model.FixedTemperature
}

// effort returns the reasoning effort to add: low for stages that do not answer, if the model
// accepts it and the request does not set it; else "".
func (b *builder) effort() string {
	if b.answers() || b.hasEffort || b.leavesOut(EffortParam(b.req.API)) {
		return ""
	}
	return b.call.Model.LowEffort()
}

// reasons reports whether the model is known to reason before it answers.
func (b *builder) reasons() bool {
	return b.call.Model.Reasoning == tokens.ReasoningFixed || b.call.Model.Reasoning == tokens.ReasoningEffort
}

// temperature returns the stage's temperature; "" if it has none, so that the request's may
// apply, or if the model refuses it.
func (b *builder) temperature() string {
	t := b.call.Stage.Temperature
	if t == nil || b.fixedTemperature() || b.leavesOut(fieldTemperature) {
		return ""
	}
	return strconv.FormatFloat(*t, 'g', -1, 64)
}

// answers reports whether the output can be the answer, so that the request's format applies.
func (b *builder) answers() bool { return b.call.Last || b.call.Stage.Draft }

// limit returns the maximum length of the output and the name of its parameter; 0 is no limit.
// The request's own limit also bounds stages whose output can be the answer, and applies to
// stages without a limit. A stage's limit is for its text: reasoning models get more.
func (b *builder) limit() (name string, n int) {
	name, n = "max_tokens", b.call.Stage.MaxTokens
	if n > 0 && b.reasons() {
		n += b.call.Model.ReasoningTokens()
	}
	old, renamed := b.req.Limits.MaxTokens.N, b.req.Limits.MaxCompletionTokens.N
	if b.call.Model.CompletionCap || renamed > 0 && old == 0 && b.call.Stage.Model == "" {
		name = "max_completion_tokens"
	}
	if b.responses() {
		name, old, renamed = "max_output_tokens", b.req.Limits.MaxOutputTokens.N, 0
	}
	for _, theirs := range [...]int{old, renamed} {
		if theirs > 0 && (n == 0 || b.answers() && theirs < n) {
			n = theirs
		}
	}
	if b.leavesOut(name) {
		n = 0
	}
	return name, n
}

// messages appends the application's own messages and the stage's.
func (b *builder) messages(list []byte) []byte {
	list, role := append(list, '['), "system"
	for i := range b.req.operators {
		own := &b.req.operators[i]
		list, role = append(b.stripped(list, own.Span), ','), own.role
	}
	system, user := b.call.System, b.call.User
	switch {
	case len(system) == 0:
	case b.call.Model.NoSystem:
		user = append([][]byte{system, []byte(`\n\n`)}, user...)
	default:
		list = append(message(list, role, system), ',')
	}
	return append(message(list, "user", user...), ']')
}

// message appends a message whose text is given in escaped pieces.
func message(list []byte, role string, pieces ...[]byte) []byte {
	list = append(append(append(list, `{"role":"`...), role...), `","content":"`...)
	for _, piece := range pieces {
		list = append(list, piece...)
	}
	return append(list, `"}`...)
}

// stripped appends a message of the request with the Strip edits applied.
func (b *builder) stripped(list []byte, at chat.Span) []byte {
	var within []rewrite.Edit
	for _, e := range b.call.Strip {
		if e.Offset >= at.Start && e.Offset < at.End {
			e.Offset -= at.Start
			within = append(within, e)
		}
	}
	return rewrite.ApplyEdits(list, at.Of(b.req.Request.Body), within)
}

// quoted returns text as a JSON string.
func quoted(text string) []byte { return append(chat.AppendEscaped([]byte{'"'}, text), '"') }
