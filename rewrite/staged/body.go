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
	b := builder{
		dialect: &dialects[r.API], req: r, call: &c,
		body: append(slices.Grow(dst, min(len(r.Request.Body), usualHead)+c.size()+256), '{'), start: len(dst),
	}
	for i := range r.members {
		b.member(&r.members[i])
	}
	if c.Stage.Model != "" && !b.hasModel {
		b.add("model", quoted(c.Stage.Model))
	}
	if t := b.temperature(); t != "" {
		b.add("temperature", []byte(t))
	}
	if e := b.lowEffort(); e != "" {
		b.add(b.effort, slices.Concat([]byte(b.openEffort), quoted(e), []byte(b.closeEffort)))
	}
	if name, n := b.maxTokens(); n > 0 {
		b.add(name, strconv.AppendInt(nil, int64(n), 10))
	}
	b.finish(&b)
	return append(b.body, '}')
}

// A builder writes the request of a stage.
type builder struct {
	*dialect
	req       *Request
	call      *Call
	body      []byte
	start     int // offset of the request in body
	hasModel  bool
	hasEffort bool
	hasSystem bool
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
	use := b.uses[m.name]
	if b.leavesOut(m.name) && use != list && use != modelName && use != config {
		return
	}
	switch use {
	case everyStage:
		b.add(m.name, m.value)
	case noStage:
	case lastStage:
		if b.call.Last {
			b.add(m.name, m.value)
		}
	case drafts:
		if b.answers() {
			b.add(m.name, m.value)
		}
	case list:
		b.name(m.name)
		b.body = b.messages(b, b.body)
	case system:
		b.system(b, m)
	case modelName:
		value := m.value
		if own := b.call.Stage.Model; own != "" {
			value = quoted(own)
		}
		b.hasModel = true
		b.add(m.name, value)
	case temperature:
		if b.temperature() == "" && !(b.fixedTemperature() && b.call.Stage.Model != "") {
			b.add(m.name, m.value)
		}
	case effort:
		if !b.otherReasons() {
			b.hasEffort = b.hasEffort || m.name == b.effort
			b.add(m.name, m.value)
		}
	case config:
		b.config(m)
	}
}

// leavesOut reports whether a member is omitted because the model refuses it.
func (b *builder) leavesOut(name string) bool { return slices.Contains(b.call.Without, name) }

// otherReasons reports whether what the request says on reasoning is meant for another model.
func (b *builder) otherReasons() bool {
	return b.call.Stage.Model != "" && b.call.Model.Reasoning == tokens.ReasoningNone
}

// fixedTemperature reports whether the model accepts only its own temperature, as do those that
// accept only max_completion_tokens.
func (b *builder) fixedTemperature() bool {
	return b.call.Model.CompletionCap || b.call.Model.FixedTemperature
}

// lowEffort returns the reasoning effort to add: low for stages that do not answer, if the model
// accepts it and the request does not set it; else "".
func (b *builder) lowEffort() string {
	if b.answers() || b.hasEffort || b.leavesOut(b.effort) {
		return ""
	}
	return b.call.Model.LowEffort()
}

// reasons reports whether the model is known to reason before it answers.
func (b *builder) reasons() bool {
	return b.call.Model.Reasoning == tokens.ReasoningFixed || b.call.Model.Reasoning == tokens.ReasoningEffort || b.thinks()
}

// temperature returns the stage's temperature; "" if it has none, so that the request's may
// apply, or if the model refuses it.
func (b *builder) temperature() string {
	t := b.call.Stage.Temperature
	if t == nil || b.fixedTemperature() || b.leavesOut(fieldTemperature) || b.thinks() {
		return ""
	}
	return strconv.FormatFloat(min(*t, b.hottest), 'g', -1, 64)
}

// answers reports whether the output can be the answer, so that the request's format applies.
func (b *builder) answers() bool { return b.call.Last || b.call.Stage.Draft }

// maxTokens returns the maximum length of the output and the name of its parameter; 0 is no limit.
// The request's own limit also bounds stages whose output can be the answer, and applies to
// stages without a limit. A stage's limit is for its text: reasoning models get more.
func (b *builder) maxTokens() (name string, n int) {
	l := b.limit(b)
	n = b.call.Stage.MaxTokens
	if n > 0 && b.reasons() {
		n += max(b.call.Model.ReasoningTokens(), b.thinkingBudget())
	}
	for _, theirs := range l.theirs {
		if theirs > 0 && (n == 0 || b.answers() && theirs < n) {
			n = theirs
		}
	}
	if b.leavesOut(l.name) && !l.required {
		n = 0
	}
	return l.name, n
}

// completionLimit is the limit of chat completions, which was renamed once.
func (b *builder) completionLimit() limit {
	old, renamed := b.req.Limits.MaxTokens.N, b.req.Limits.MaxCompletionTokens.N
	name := "max_tokens"
	if b.call.Model.CompletionCap || renamed > 0 && old == 0 && b.call.Stage.Model == "" {
		name = "max_completion_tokens"
	}
	return limit{name: name, theirs: [2]int{old, renamed}}
}

// prompts returns the stage's system prompt, empty if it has none, and the pieces of its user prompt,
// which begins with the system prompt if the model refuses system messages.
func (b *builder) prompts() (system []byte, user [][]byte) {
	system, user = b.call.System, b.call.User
	if len(system) > 0 && b.call.Model.NoSystem {
		return nil, append([][]byte{system, []byte(`\n\n`)}, user...)
	}
	return system, user
}

// listWithOperators appends the application's own system and developer messages and the stage's.
func (b *builder) listWithOperators(dst []byte) []byte {
	dst, role := append(dst, '['), "system"
	for i := range b.req.operators {
		own := &b.req.operators[i]
		dst, role = append(b.stripped(dst, own.Span), ','), own.role
	}
	system, user := b.prompts()
	if len(system) > 0 {
		dst = append(message(dst, role, system), ',')
	}
	return append(message(dst, "user", user...), ']')
}

// instructions writes the member with the application's system text as it is.
func (b *builder) instructions(m *member) {
	if b.req.system.End == 0 {
		b.add(m.name, m.value)
		return
	}
	b.name(m.name)
	b.body = b.stripped(b.body, b.req.system)
}

// message appends a message whose text is given in escaped pieces.
func message(list []byte, role string, pieces ...[]byte) []byte {
	list = append(append(append(list, `{"role":"`...), role...), `","content":"`...)
	for _, piece := range pieces {
		list = append(list, piece...)
	}
	return append(list, `"}`...)
}

// stripped appends a part of the request with the Strip edits applied.
func (b *builder) stripped(dst []byte, at chat.Span) []byte {
	var within []rewrite.Edit
	for _, e := range b.call.Strip {
		if e.Offset >= at.Start && e.Offset < at.End {
			e.Offset -= at.Start
			within = append(within, e)
		}
	}
	return rewrite.ApplyEdits(dst, at.Of(b.req.Request.Body), within)
}

// quoted returns text as a JSON string.
func quoted(text string) []byte { return append(chat.AppendEscaped([]byte{'"'}, text), '"') }
