package usage

import (
	"encoding/json"
	"strings"

	"sidenote/proxy/events"
)

// A Counter counts the tokens of a text. If exact is false, n is an upper bound.
type Counter interface {
	Count(text string) (n int, exact bool)
}

// bytesPerToken is how many bytes of an answer count as a token where its text cannot be
// read. Texts have about four, and an answer is not all text.
const bytesPerToken = 4

// A Counted is what an answer's text comes to, of all choices: content, reasoning that is
// shown, refusals, names and arguments of tool calls.
type Counted struct {
	Output int64
	Exact  bool // all of the text was counted, and with the model's own encoding
	Known  bool // if not, the answer could not be read
}

// KeepText makes r keep the first bytes of the answer, up to limit, so that Generated can
// count its text. Call it after Reset.
func (r *Reader) KeepText(limit int) { r.limit = limit }

// Generated counts the text of what came of an answer whose usage is not told. It takes
// milliseconds, so call it where nobody waits, once, and after Usage. Beyond what was kept
// the text is taken to be as dense as in it.
func (r *Reader) Generated(c Counter) Counted {
	if r.undecodable || r.limit == 0 {
		return Counted{}
	}
	n, sound, exact := int64(0), true, true
	for _, text := range r.texts(&sound) {
		tokens, sure := c.Count(text.String())
		n += int64(tokens)
		exact = exact && sure
	}
	kept := int64(len(r.keptText()))
	switch {
	case !sound: // a JSON answer that was cut
		return Counted{Output: (r.total + bytesPerToken - 1) / bytesPerToken, Known: true}
	case kept == r.total:
		return Counted{Output: n, Exact: exact, Known: true}
	case n == 0:
		return Counted{Output: (r.total - kept + bytesPerToken - 1) / bytesPerToken, Known: true}
	}
	return Counted{Output: n + int64(float64(n)*float64(r.total-kept)/float64(kept)) + 1, Known: true}
}

// keptText is the beginning of the answer. One that ends soon is in end, and not kept twice.
func (r *Reader) keptText() []byte {
	if r.cut {
		return r.text
	}
	return r.end[:min(len(r.end), r.limit)]
}

// texts returns the texts of what was kept. sound becomes false if a JSON answer is cut.
func (r *Reader) texts(sound *bool) texts {
	all, kept := texts{}, r.keptText()
	if !r.stream {
		var a answer
		if err := json.Unmarshal(kept, &a); len(kept) > 0 && !json.Valid(kept) {
			*sound = false
		} else if err == nil || len(a.Choices)+len(a.Output)+len(a.Content) > 0 {
			all.add(&a)
		}
		return all
	}
	for data := range events.All(kept) {
		var a answer
		_ = json.Unmarshal(data, &a) // [DONE], an event that was cut, or a field of another type, which is skipped
		all.add(&a)
	}
	return all
}

// An answer is an answer or an event of one, on any listed route: what of it is text.
type answer struct {
	Choices []choice `json:"choices"`

	Type   string `json:"type"` // of an event on the route responses
	Item   int    `json:"output_index"`
	Part   int    `json:"content_index"`
	Delta  text   `json:"delta"`
	Output []struct {
		Content   []spoken `json:"content"`
		Summary   []spoken `json:"summary"`
		Name      text     `json:"name"`
		Arguments text     `json:"arguments"`
		Input     text     `json:"input"`
	} `json:"output"` // of a whole answer on that route

	// On the route messages Delta is an object.
	Index   int    `json:"index"`
	Block   block  `json:"content_block"`
	Content blocks `json:"content"` // of a whole answer
}

// A block is a part of a message, or what an event adds to it.
type block struct {
	Text     text `json:"text"`
	Thinking text `json:"thinking"`
	Name     text `json:"name"`
	Input    text `json:"input"`
	Partial  text `json:"partial_json"`
}

// blocks are the content of a message; none where content is something else.
type blocks []block

// UnmarshalJSON implements json.Unmarshaler.
func (b *blocks) UnmarshalJSON(raw []byte) error {
	var list []block
	if json.Unmarshal(raw, &list) == nil {
		*b = list
	}
	return nil
}

type spoken struct {
	Text    text `json:"text"`
	Refusal text `json:"refusal"`
}

type choice struct {
	Index   int     `json:"index"`
	Text    text    `json:"text"`
	Delta   message `json:"delta"`
	Message message `json:"message"`
}

type message struct {
	Content          text   `json:"content"`
	ReasoningContent text   `json:"reasoning_content"`
	Reasoning        text   `json:"reasoning"` // the same under another name
	Refusal          text   `json:"refusal"`
	FunctionCall     called `json:"function_call"`
	ToolCalls        []struct {
		Index    int    `json:"index"`
		Function called `json:"function"`
		Custom   called `json:"custom"`
	} `json:"tool_calls"`
}

type called struct {
	Name      text `json:"name"`
	Arguments text `json:"arguments"`
	Input     text `json:"input"`
}

// A text is a string; of any other value it is the JSON, as some servers write arguments
// as an object.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	var s string
	switch {
	case string(raw) == "null":
	case json.Unmarshal(raw, &s) == nil:
		*t = text(s)
	default:
		*t = text(raw)
	}
	return nil
}

// A place says which text of an answer a piece of one continues.
type place struct {
	choice, part int
	kind         string
}

// texts are the texts of an answer, each joined of its pieces: tokens do not end where
// pieces do.
type texts map[place]*strings.Builder

func (all texts) join(at place, piece text) {
	if piece == "" {
		return
	}
	if all[at] == nil {
		all[at] = new(strings.Builder)
	}
	all[at].WriteString(string(piece))
}

func (all texts) add(a *answer) {
	for i := range a.Choices {
		c := &a.Choices[i]
		all.join(place{c.Index, 0, "text"}, c.Text)
		all.message(c.Index, &c.Delta)
		all.message(c.Index, &c.Message)
	}
	if strings.HasSuffix(a.Type, ".delta") && !strings.HasSuffix(a.Type, "audio.delta") {
		all.join(place{a.Item, a.Part, a.Type}, a.Delta)
	}
	switch a.Type {
	case "content_block_delta":
		var b block
		if json.Unmarshal([]byte(a.Delta), &b) == nil {
			all.block(a.Index, &b)
		}
	case "content_block_start":
		a.Block.Input = "" // it comes in pieces
		all.block(a.Index, &a.Block)
	}
	for i := range a.Content {
		all.block(i, &a.Content[i])
	}
	for i := range a.Output {
		o := &a.Output[i]
		for j, s := range append(o.Content, o.Summary...) {
			all.join(place{i, j, "text"}, s.Text)
			all.join(place{i, j, "refusal"}, s.Refusal)
		}
		all.call(i, 0, &called{o.Name, o.Arguments, o.Input})
	}
}

func (all texts) block(n int, b *block) {
	all.join(place{n, 0, "content"}, b.Text)
	all.join(place{n, 0, "reasoning"}, b.Thinking)
	all.join(place{n, 0, "arguments"}, b.Partial)
	all.call(n, 0, &called{Name: b.Name, Input: b.Input})
}

func (all texts) message(choice int, m *message) {
	all.join(place{choice, 0, "content"}, m.Content)
	all.join(place{choice, 0, "refusal"}, m.Refusal)
	if m.ReasoningContent == "" {
		m.ReasoningContent = m.Reasoning
	}
	all.join(place{choice, 0, "reasoning"}, m.ReasoningContent)
	all.call(choice, -1, &m.FunctionCall)
	for i := range m.ToolCalls {
		t := &m.ToolCalls[i]
		at := t.Index
		if at == 0 {
			at = i // a whole answer has no index
		}
		all.call(choice, at, &t.Function)
		all.call(choice, at, &t.Custom)
	}
}

func (all texts) call(choice, n int, c *called) {
	all.join(place{choice, n, "name"}, c.Name)
	all.join(place{choice, n, "arguments"}, c.Arguments)
	all.join(place{choice, n, "input"}, c.Input)
}
