package answer

// A usageField is a number of a usage object.
type usageField int

// The fields.
const (
	input usageField = iota
	output
	total
	cached
	written   // into the cache, those of the next two included
	written5m // to be kept for five minutes
	written1h // to be kept for an hour
	reasoning
	fields
)

// A usagePart is an object of a usage object, or that itself.
type usagePart int

// The parts.
const (
	top      usagePart = iota
	details            // of the prompt or of the answer
	creation           // of what was written into the cache
)

// numbers lists where vendors put the numbers of a usage object. One that stands under several names
// is the same.
//
// Usage itself is a member of the answer, or of an event of a stream; or of "response" (OpenAI's
// responses), of "x_groq", of "message" (the event message_start of Anthropic, whose message_delta has
// the rest), or of an element of "choices" (Kimi's streams). See inJSON.
var numbers = [...]struct {
	in   usagePart
	name string
	is   usageField
	by   string // vendors and gateways that write it
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

// numberOf returns the index of a name in numbers, -1 if it is not there.
func numberOf(name []byte, in usagePart) int {
	for i := range numbers {
		if n := &numbers[i]; len(n.name) == len(name) && n.in == in && n.name == string(name) {
			return i
		}
	}
	return -1
}

// partOf returns which part of a usage object stands under a name, top if none does.
func partOf(name []byte, in usagePart) usagePart {
	for i := range parts {
		if p := &parts[i]; len(p.name) == len(name) && p.in == in && p.name == string(name) {
			return p.is
		}
	}
	return top
}
