package chat

import "bytes"

// An API is a protocol in which applications ask models for answers.
type API byte

// The APIs whose requests are read.
const (
	Completions API = iota // chat completions
	Responses              // OpenAI's Responses API
	Messages               // Anthropic's Messages API
)

// String returns the name that logs, metrics and pages use.
func (a API) String() string { return [...]string{"chat", "responses", "messages"}[a] }

// A dialect holds what the requests of an API are made of.
type dialect struct {
	list     string   // the member of the body with the messages
	keys     []string // the members of the body that are read
	element  string   // the path of an element of list
	part     string   // the path of a part of an element's content
	openPart string   // opens a part with text
	operator string   // the member of the body that is the first system message; "" if the API has none
}

// dialects has one element for each API. It is never changed.
var dialects = [...]dialect{
	Completions: {
		list: "messages",
		keys: []string{
			"messages", "model", "stream", "response_format", "sidenote",
			"tools", "functions", "max_tokens", "max_completion_tokens", "n", "best_of", "service_tier",
		},
		element: "messages[].", part: "messages[].content[].",
		openPart: `{"type":"text","text":"`,
	},
	Responses: {
		list: "input",
		keys: []string{
			"input", "model", "stream", "instructions", "text", "sidenote",
			"tools", "max_output_tokens", "service_tier",
			"previous_response_id", "conversation", "store", "truncation",
		},
		element: "input[].", part: "input[].content[].",
		openPart: `{"type":"input_text","text":"`,
		operator: "instructions",
	},
	Messages: {
		list: "messages",
		keys: []string{
			"messages", "model", "stream", "system", "output_config", "output_format", "sidenote",
			"tools", "max_tokens", "service_tier", "thread",
		},
		element: "messages[].", part: "messages[].content[].",
		openPart: `{"type":"text","text":"`,
		operator: "system",
	},
}

// isText reports whether a content part of the given type is text.
func (a API) isText(part string) bool {
	if a == Responses {
		return part == "input_text" || part == "output_text" || part == "text" // the last is accepted by some servers
	}
	return part == "text"
}

// Parse reads body in one pass. It checks every byte and records only what a rewrite needs. Every
// error is an *Error.
//
// If the body is a JSON object, a Request with its Field is returned even with an error.
//
// A body is ambiguous if two parsers could read it differently in a part that is read here: its
// own members, the format of the answer, and the roles of messages. The content of messages is
// checked by the rewrite, where it searches or extends them. Everything else, such as old turns
// and metadata, is only counted, and there a duplicate text counts twice.
func (a API) Parse(body []byte) (*Request, error) { return new(Parser).Parse(a, body) }

// APIOf returns the API that a request body is most likely of: Responses if it has input and no
// messages, Messages if it has messages and a member that only that API has, or results or schemas of
// tools in its form.
func APIOf(body []byte) API {
	var messages, input, anthropic bool
	r := NewReader(body)
	r.Members(func(name []byte) {
		switch string(name) {
		case "messages":
			messages = true
		case "input":
			input = true
		case "system", "thinking", "stop_sequences", "cache_control", "anthropic_version", "mcp_servers":
			anthropic = true
		}
		value := r.Value()
		anthropic = anthropic || bytes.Contains(value, []byte(`"tool_use_id"`)) || bytes.Contains(value, []byte(`"input_schema"`))
	})
	switch {
	case messages && anthropic:
		return Messages
	case input && !messages:
		return Responses
	}
	return Completions
}
