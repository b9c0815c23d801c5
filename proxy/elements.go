package proxy

import (
	"encoding/json"
	"strings"

	"sidenote/proxy/answer"
	"sidenote/retrieval/tools"
)

// elements reads tool calls in the text of an answer. It implements answer.LoopTextReader.
type elements struct{ scanner tools.XMLScanner }

func newElements(offered []tools.ToolName) *elements {
	e := new(elements)
	names := make([]string, len(offered))
	for i, name := range offered {
		names[i] = string(name)
	}
	e.scanner.Reset(names)
	return e
}

// Write implements answer.LoopTextReader.
func (e *elements) Write(piece []byte) []byte { return e.scanner.Write(piece) }

// Close implements answer.LoopTextReader.
func (e *elements) Close() (text []byte, calls []answer.LoopCall, said int) {
	text = e.scanner.Close()
	for i, c := range e.scanner.Calls() {
		calls = append(calls, answer.LoopCall{Name: c.Name, Arguments: string(c.Arguments), At: i, Text: c.Raw})
	}
	return text, calls, e.scanner.AnswerBytes()
}

// calling returns the assistant's message with the given calls. It leaves out the rest of the
// text, which the client has.
func calling(calls []answer.LoopCall) json.RawMessage {
	elements := make([]string, len(calls))
	for i := range calls {
		elements[i] = calls[i].Text
	}
	return encodeRound(struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{"assistant", strings.Join(elements, "\n")})
}

// lastRound tells a model that has no more tool calls, but cannot be sent the request without its
// tools.
const lastRound = "No further calls are answered: answer now with what is there.\n"

// inElement returns the result of a call under the XML protocol.
func inElement(c *call) string {
	ok, message, content := c.result.Err == nil && c.result.Data != nil, "", c.result.Content
	if ok && c.result.EmptyReason != "" {
		ok, message, content = false, c.result.EmptyReason, ""
	}
	return tools.XMLResult(string(c.name), ok, message, content)
}

// inText returns one message with the results of calls under the XML protocol. last reports that
// no further calls are answered.
func inText(calls []call, last bool) json.RawMessage {
	var b strings.Builder
	for i := range calls {
		c := &calls[i]
		if c.result.Content == "" {
			continue // there is no room for it
		}
		b.WriteString(inElement(c))
	}
	if last {
		b.WriteString(lastRound)
	}
	return encodeRound(struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{"user", b.String()})
}
