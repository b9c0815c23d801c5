package answer

// A usageField is a number of a usage object.
type usageField int

// The fields.
const (
	input usageField = iota
	output
	total
	cached
	written   // written into the cache, including the next two
	written5m // kept for five minutes
	written1h // kept for an hour
	reasoning
	fields
)

// A usagePart is a usage object or an object in it.
type usagePart int

// The parts.
const (
	top      usagePart = iota
	details            // details of the prompt or of the answer
	creation           // details of what was written into the cache
)

// numbers lists where vendors put the numbers of a usage object. Names with the same field mean the
// same number.
//
// The usage object is a member of the answer or of a stream's event, or of "response" (OpenAI's
// responses), "x_groq", "message" (Anthropic's event message_start; message_delta has the rest), or
// an element of "choices" (Kimi's streams). See inJSON.
var numbers = [...]struct {
	in   usagePart
	name string
	is   usageField
	by   string // vendors and gateways that use the name
}{
	{top, "prompt_tokens", input, "OpenAI and most others"},
	{top, "input_tokens", input, "OpenAI's responses; Anthropic, without those of its cache"},
	{top, "completion_tokens", output, "OpenAI and most others"},
	{top, "output_tokens", output, "OpenAI's responses, Anthropic"},
	{top, "total_tokens", total, "all but Anthropic; with reasoning that output does not have: xAI, Google"},

	{details, "cached_tokens", cached, "OpenAI and most others"},
	{top, "cached_tokens", cached, "Kimi"},
	{top, "prompt_cache_hit_tokens", cached, "DeepSeek"},
	{top, "cache_read_input_tokens", cached, "Anthropic, LiteLLM"},

	{details, "cache_write_tokens", written, "OpenAI, OpenRouter"},
	{details, "cache_creation_tokens", written, "LiteLLM"},
	{details, "cache_creation_input_tokens", written, "Qwen"},
	{top, "cache_creation_input_tokens", written, "Anthropic, LiteLLM"},
	{creation, "ephemeral_5m_input_tokens", written5m, "Anthropic, LiteLLM, Qwen"},
	{creation, "ephemeral_1h_input_tokens", written1h, "Anthropic, LiteLLM"},

	{details, "reasoning_tokens", reasoning, "OpenAI and most others"},
}

// parts lists the names of the objects in a usage object.
var parts = [...]struct {
	in   usagePart
	name string
	is   usagePart
}{
	{top, "prompt_tokens_details", details},
	{top, "completion_tokens_details", details},
	{top, "input_tokens_details", details},
	{top, "output_tokens_details", details},
	{top, "cache_creation", creation},                   // Anthropic
	{details, "cache_creation", creation},               // Qwen
	{details, "cache_creation_token_details", creation}, // LiteLLM
}

// numberOf returns the index of a name in numbers, or -1.
func numberOf(name []byte, in usagePart) int {
	for i := range numbers {
		if n := &numbers[i]; len(n.name) == len(name) && n.in == in && n.name == string(name) {
			return i
		}
	}
	return -1
}

// partOf returns the part of a usage object with that name, or top if there is none.
func partOf(name []byte, in usagePart) usagePart {
	for i := range parts {
		if p := &parts[i]; len(p.name) == len(name) && p.in == in && p.name == string(name) {
			return p.is
		}
	}
	return top
}
