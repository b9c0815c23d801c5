package answer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"sidenote/rewrite/chat"
)

// maxN is OpenAI's own limit of n.
const maxN = 128

// A Fixed is an answer that no model wrote.
type Fixed struct {
	API     chat.API
	ID      string // unique; the answer's id is made of it
	Created time.Time
	Model   string
	Request []byte // the body of the request
	Stream  bool
	Text    string
}

// Finish returns the reason why the answer ended, as the API says it.
func (f Fixed) Finish() string {
	if f.API == chat.Messages {
		return "end_turn"
	}
	return "stop"
}

// Append appends the body of the answer to dst: an event stream or a single object. A chat
// completion has the text in each requested choice.
func (f Fixed) Append(dst []byte) []byte {
	switch {
	case f.API == chat.Responses && f.Stream:
		return f.appendResponseStream(dst)
	case f.API == chat.Responses:
		return append(dst, f.response("completed", true)...)
	case f.API == chat.Messages && f.Stream:
		return f.appendMessageStream(dst)
	case f.API == chat.Messages:
		return append(dst, f.message(`{"type":"text","text":`+string(encode(f.Text))+`}`, `"end_turn"`)...)
	}
	h := fixedHead{ID: "chatcmpl-" + f.ID, Created: f.Created.Unix(), Model: f.Model}
	if f.Stream {
		return appendStream(dst, h, shapeOf(f.Request), f.Text)
	}
	return appendCompletion(dst, h, shapeOf(f.Request), f.Text)
}

// A shape holds the fields of a request that decide the form of the answer.
type shape struct {
	N             int `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// shapeOf reads the shape. A field of a wrong type counts as absent, because the parser that
// accepted the request does not check these fields.
func shapeOf(request []byte) shape {
	var s shape
	if err := json.Unmarshal(request, &s); err != nil {
		s = shape{}
	}
	s.N = min(max(s.N, 1), maxN)
	return s
}

// A fixedHead holds the fields that all events of one answer repeat.
type fixedHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// zeroUsage is the usage of an answer for which no model ran.
const zeroUsage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`

// appendCompletion appends a chat.completion with text in each of its choices.
func appendCompletion(dst []byte, h fixedHead, s shape, text string) []byte {
	h.Object = "chat.completion"
	dst = append(openObject(dst, h), `,"choices":[`...)
	quoted := encode(text)
	for i := range s.N {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(i), 10)
		dst = append(append(dst, `,"message":{"role":"assistant","content":`...), quoted...)
		dst = append(dst, `,"refusal":null},"logprobs":null,"finish_reason":"stop"}`...)
	}
	return append(dst, `],"usage":`+zeroUsage+`}`...)
}

// appendStream appends the events of a streamed answer: for each choice a chunk with role and text
// and a chunk with the finish reason, then usage if the request asked for it.
func appendStream(dst []byte, h fixedHead, s shape, text string) []byte {
	h.Object = "chat.completion.chunk"
	usage := ""
	if s.StreamOptions.IncludeUsage {
		usage = `,"usage":null`
	}
	event := func(choices, usage string) {
		dst = append(openObject(append(dst, "data: "...), h), `,"choices":[`+choices+`]`+usage+"}\n\n"...)
	}
	quoted := string(encode(text))
	for i := range s.N {
		index := strconv.Itoa(i)
		event(`{"index":`+index+`,"delta":{"role":"assistant","content":`+quoted+`,"refusal":null},"logprobs":null,"finish_reason":null}`, usage)
		event(`{"index":`+index+`,"delta":{},"logprobs":null,"finish_reason":"stop"}`, usage)
	}
	if s.StreamOptions.IncludeUsage {
		event("", `,"usage":`+zeroUsage)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// response returns a response object with the given status. With done it holds the text, and a
// usage of zero.
func (f Fixed) response(status string, done bool) string {
	output, usage := "[]", "null"
	if done {
		output = "[" + f.item("completed", f.part(f.Text)) + "]"
		usage = `{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}`
	}
	return fmt.Sprintf(`{"id":"resp_%s","object":"response","created_at":%d,"status":%q,"error":null,"incomplete_details":null,"instructions":null,"metadata":{},"model":%s,"output":%s,`+
		`"parallel_tool_calls":true,"temperature":null,"tool_choice":"auto","tools":[],"top_p":null,"usage":%s}`, f.ID, f.Created.Unix(), status, encode(f.Model), output, usage)
}

func (f Fixed) item(status, content string) string {
	return `{"id":"msg_` + f.ID + `","type":"message","status":"` + status + `","role":"assistant","content":[` + content + `]}`
}

func (Fixed) part(text string) string {
	return `{"type":"output_text","text":` + string(encode(text)) + `,"annotations":[]}`
}

// appendResponseStream appends the events of a streamed response with one message.
func (f Fixed) appendResponseStream(dst []byte) []byte {
	sequence := 0
	event := func(name, members string) {
		dst = fmt.Appendf(dst, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", name, name, sequence, members)
		sequence++
	}
	at := `"item_id":"msg_` + f.ID + `","output_index":0,"content_index":0,`
	text := string(encode(f.Text))
	event("response.created", `"response":`+f.response("in_progress", false))
	event("response.in_progress", `"response":`+f.response("in_progress", false))
	event("response.output_item.added", `"output_index":0,"item":`+f.item("in_progress", ""))
	event("response.content_part.added", at+`"part":`+f.part(""))
	event("response.output_text.delta", at+`"logprobs":[],"delta":`+text)
	event("response.output_text.done", at+`"logprobs":[],"text":`+text)
	event("response.content_part.done", at+`"part":`+f.part(f.Text))
	event("response.output_item.done", `"output_index":0,"item":`+f.item("completed", f.part(f.Text)))
	event("response.completed", `"response":`+f.response("completed", true))
	return dst
}

// message returns a message of the Messages API with a usage of zero.
func (f Fixed) message(content, stopReason string) string {
	return fmt.Sprintf(`{"id":"msg_%s","type":"message","role":"assistant","model":%s,"content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":%s}`,
		f.ID, encode(f.Model), content, stopReason, zeroMessageUsage)
}

// zeroMessageUsage is zeroUsage of the Messages API.
const zeroMessageUsage = `{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`

// appendMessageStream appends the events of a streamed message with one text block.
func (f Fixed) appendMessageStream(dst []byte) []byte {
	event := func(name, members string) {
		dst = fmt.Appendf(dst, "event: %s\ndata: {\"type\":%q%s}\n\n", name, name, members)
	}
	event("message_start", `,"message":`+f.message("", "null"))
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+string(encode(f.Text))+`}`)
	event("content_block_stop", `,"index":0`)
	event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":`+zeroMessageUsage)
	event("message_stop", "")
	return dst
}

// openObject appends v as a JSON object without its closing brace.
func openObject(dst []byte, v fixedHead) []byte {
	b := encode(v)
	return append(dst, b[:len(b)-1]...)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: strings and a number did not encode: " + err.Error())
	}
	return b
}
