package proxy

import (
	"encoding/json"
	"strconv"
	"time"
)

// maxChoices is OpenAI's own limit of n.
const maxChoices = 128

// AppendCompletion appends to dst the body of an answer to the chat request with the given body and
// model: an event stream or a single object, with text in each requested choice.
func AppendCompletion(dst []byte, id string, created time.Time, model string, request []byte, stream bool, text string) []byte {
	h := head{ID: "chatcmpl-" + id, Created: created.Unix(), Model: model}
	if stream {
		return appendStream(dst, h, shapeOf(request), text)
	}
	return appendCompletion(dst, h, shapeOf(request), text)
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
	s.N = min(max(s.N, 1), maxChoices)
	return s
}

// A head holds the fields that all events of one answer repeat.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// zeroUsage is the usage of an answer for which no model ran.
const zeroUsage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`

// appendCompletion appends a chat.completion with text in each of its choices.
func appendCompletion(dst []byte, h head, s shape, text string) []byte {
	h.Object = "chat.completion"
	dst = append(openObject(dst, h), `,"choices":[`...)
	quoted := encodeCompletion(text)
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
func appendStream(dst []byte, h head, s shape, text string) []byte {
	h.Object = "chat.completion.chunk"
	usage := ""
	if s.StreamOptions.IncludeUsage {
		usage = `,"usage":null`
	}
	event := func(choices, usage string) {
		dst = append(openObject(append(dst, "data: "...), h), `,"choices":[`+choices+`]`+usage+"}\n\n"...)
	}
	quoted := string(encodeCompletion(text))
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

// openObject appends v as a JSON object without its closing brace.
func openObject(dst []byte, v head) []byte {
	b := encodeCompletion(v)
	return append(dst, b[:len(b)-1]...)
}

func encodeCompletion(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: strings and a number did not encode: " + err.Error())
	}
	return b
}
