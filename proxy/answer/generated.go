package answer

import (
	"encoding/json"
	"strings"
)

// A UsageCounter counts the tokens of a text. If exact is false, n is an upper bound.
type UsageCounter interface {
	Count(text string) (n int, exact bool)
}

// bytesPerToken is how many bytes of an answer count as one token if its text cannot be read. Text
// has about four bytes per token, and an answer is not all text.
const bytesPerToken = 4

// A CountedUsage is our token count of an answer's text in all choices: content, visible reasoning,
// refusals, and names and arguments of tool calls.
type CountedUsage struct {
	Output int64
	Exact  bool // all of the text was counted, with the model's own encoding
	Known  bool // false if the answer could not be read
}

// KeepText makes r keep the first limit bytes of the answer, so that Generated can count its text.
// Call it after Reset.
func (r *UsageReader) KeepText(limit int) { r.limit = limit }

// Generated counts the text of an answer that reported no usage. The part of the answer that was
// not kept is assumed to have as many tokens per byte as the part that was. Call it once, after
// Usage, and while no request waits, since it takes milliseconds.
func (r *UsageReader) Generated(c UsageCounter) CountedUsage {
	if r.undecodable || r.limit == 0 {
		return CountedUsage{}
	}
	n, sound, exact := int64(0), true, true
	for _, text := range r.texts(&sound) {
		tokens, sure := c.Count(text.String())
		n += int64(tokens)
		exact = exact && sure
	}
	kept := int64(len(r.keptText()))
	switch {
	case !sound: // a truncated JSON answer
		return CountedUsage{Output: (r.total + bytesPerToken - 1) / bytesPerToken, Known: true}
	case kept == r.total:
		return CountedUsage{Output: n, Exact: exact, Known: true}
	case n == 0:
		return CountedUsage{Output: (r.total - kept + bytesPerToken - 1) / bytesPerToken, Known: true}
	}
	return CountedUsage{Output: n + int64(float64(n)*float64(r.total-kept)/float64(kept)) + 1, Known: true}
}

// keptText returns the kept beginning of the answer. A short answer is in end only.
func (r *UsageReader) keptText() []byte {
	if r.cut {
		return r.text
	}
	return r.end[:min(len(r.end), r.limit)]
}

// texts returns the texts of the kept part. It sets sound to false if a JSON answer is truncated.
func (r *UsageReader) texts(sound *bool) texts {
	all, kept := texts{}, r.keptText()
	if !r.stream {
		var a usageAnswer
		if err := json.Unmarshal(kept, &a); len(kept) > 0 && !json.Valid(kept) {
			*sound = false
		} else if err == nil || len(a.Choices)+len(a.Output)+len(a.Content) > 0 {
			all.add(&a)
		}
		return all
	}
	for data := range All(kept) {
		var a usageAnswer
		_ = json.Unmarshal(data, &a) // skips [DONE], truncated events, and members of another type
		all.add(&a)
	}
	return all
}

// A usageAnswer holds the text of an answer, or of one of its events, on any of the routes of
// UsageReported.
type usageAnswer struct {
	Choices []choice `json:"choices"`

	Type   string    `json:"type"` // of an event on the responses route
	Item   int       `json:"output_index"`
	Part   int       `json:"content_index"`
	Delta  usageText `json:"delta"`
	Output []struct {
		Content   []spoken  `json:"content"`
		Summary   []spoken  `json:"summary"`
		Name      usageText `json:"name"`
		Arguments usageText `json:"arguments"`
		Input     usageText `json:"input"`
	} `json:"output"` // of a whole answer on that route

	// Messages route, where Delta is an object.
	Index   int    `json:"index"`
	Block   block  `json:"content_block"`
	Content blocks `json:"content"` // of a whole answer
}

// A block is a content block of a message, or the delta of one.
type block struct {
	Text     usageText `json:"text"`
	Thinking usageText `json:"thinking"`
	Name     usageText `json:"name"`
	Input    usageText `json:"input"`
	Partial  usageText `json:"partial_json"`
}

// blocks are the content of a message; nil if content is not a list of blocks.
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
	Text    usageText `json:"text"`
	Refusal usageText `json:"refusal"`
}

type choice struct {
	Index   int          `json:"index"`
	Text    usageText    `json:"text"`
	Delta   usageMessage `json:"delta"`
	Message usageMessage `json:"message"`
}

type usageMessage struct {
	Content          usageText `json:"content"`
	ReasoningContent usageText `json:"reasoning_content"`
	Reasoning        usageText `json:"reasoning"` // other name of the same member
	Refusal          usageText `json:"refusal"`
	FunctionCall     called    `json:"function_call"`
	ToolCalls        []struct {
		Index    int    `json:"index"`
		Function called `json:"function"`
		Custom   called `json:"custom"`
	} `json:"tool_calls"`
}

type called struct {
	Name      usageText `json:"name"`
	Arguments usageText `json:"arguments"`
	Input     usageText `json:"input"`
}

// A usageText is a string, or the JSON of any other value, since some servers write arguments as an
// object.
type usageText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *usageText) UnmarshalJSON(raw []byte) error {
	var s string
	switch {
	case string(raw) == "null":
	case json.Unmarshal(raw, &s) == nil:
		*t = usageText(s)
	default:
		*t = usageText(raw)
	}
	return nil
}

// A usagePlace identifies the text that a piece continues.
type usagePlace struct {
	choice, part int
	kind         string
}

// texts are the texts of an answer, each joined from its pieces, because tokens may span pieces.
type texts map[usagePlace]*strings.Builder

func (all texts) join(at usagePlace, piece usageText) {
	if piece == "" {
		return
	}
	if all[at] == nil {
		all[at] = new(strings.Builder)
	}
	all[at].WriteString(string(piece))
}

func (all texts) add(a *usageAnswer) {
	for i := range a.Choices {
		c := &a.Choices[i]
		all.join(usagePlace{c.Index, 0, "text"}, c.Text)
		all.message(c.Index, &c.Delta)
		all.message(c.Index, &c.Message)
	}
	if strings.HasSuffix(a.Type, ".delta") && !strings.HasSuffix(a.Type, "audio.delta") {
		all.join(usagePlace{a.Item, a.Part, a.Type}, a.Delta)
	}
	switch a.Type {
	case "content_block_delta":
		var b block
		if json.Unmarshal([]byte(a.Delta), &b) == nil {
			all.block(a.Index, &b)
		}
	case "content_block_start":
		a.Block.Input = "" // it follows in pieces
		all.block(a.Index, &a.Block)
	}
	for i := range a.Content {
		all.block(i, &a.Content[i])
	}
	for i := range a.Output {
		o := &a.Output[i]
		for j, s := range append(o.Content, o.Summary...) {
			all.join(usagePlace{i, j, "text"}, s.Text)
			all.join(usagePlace{i, j, "refusal"}, s.Refusal)
		}
		all.call(i, 0, &called{o.Name, o.Arguments, o.Input})
	}
}

func (all texts) block(n int, b *block) {
	all.join(usagePlace{n, 0, "content"}, b.Text)
	all.join(usagePlace{n, 0, "reasoning"}, b.Thinking)
	all.join(usagePlace{n, 0, "arguments"}, b.Partial)
	all.call(n, 0, &called{Name: b.Name, Input: b.Input})
}

func (all texts) message(choice int, m *usageMessage) {
	all.join(usagePlace{choice, 0, "content"}, m.Content)
	all.join(usagePlace{choice, 0, "refusal"}, m.Refusal)
	if m.ReasoningContent == "" {
		m.ReasoningContent = m.Reasoning
	}
	all.join(usagePlace{choice, 0, "reasoning"}, m.ReasoningContent)
	all.call(choice, -1, &m.FunctionCall)
	for i := range m.ToolCalls {
		t := &m.ToolCalls[i]
		at := t.Index
		if at == 0 {
			at = i // calls in a whole answer have no index
		}
		all.call(choice, at, &t.Function)
		all.call(choice, at, &t.Custom)
	}
}

func (all texts) call(choice, n int, c *called) {
	all.join(usagePlace{choice, n, "name"}, c.Name)
	all.join(usagePlace{choice, n, "arguments"}, c.Arguments)
	all.join(usagePlace{choice, n, "input"}, c.Input)
}
