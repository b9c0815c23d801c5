package proxy

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// maxChoices is OpenAI's own bound of n.
const maxChoices = 128

// sendFixedAnswer answers with the policy's fixed text, in the shape that the
// request asked for. No upstream is called.
func (x *exchange) sendFixedAnswer(req *rewrite.Request, text string) {
	ctx := x.ctx
	x.report.Status = fasthttp.StatusOK
	shape := shapeOf(req)
	head := completionHead{ID: "chatcmpl-" + x.report.ID, Created: x.report.Time.Unix(), Model: req.Model}
	ctx.Response.Header.Set(report.HeaderID, x.report.ID)
	ctx.Response.Header.SetBytesV(report.HeaderStatus, report.AppendStatus(nil, &x.report))
	if req.Stream {
		ctx.Response.Header.SetContentType("text/event-stream; charset=utf-8")
		ctx.Response.Header.Set("Cache-Control", "no-cache")
		ctx.Response.SetBodyRaw(appendStream(nil, head, shape, text))
	} else {
		ctx.Response.Header.SetContentType("application/json")
		ctx.Response.SetBodyRaw(appendCompletion(nil, head, shape, text))
	}
	x.report.TTFB = time.Since(x.report.Time)
}

// A completionShape holds the fields of a request that decide the form of the answer.
type completionShape struct {
	N             int `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// shapeOf reads the shape. A field of a wrong type counts as absent: Parse, which
// the body has passed, does not check these fields.
func shapeOf(req *rewrite.Request) completionShape {
	var s completionShape
	if err := json.Unmarshal(req.Body, &s); err != nil {
		s = completionShape{}
	}
	s.N = min(max(s.N, 1), maxChoices)
	return s
}

// A completionHead holds the fields that each event of one answer repeats.
type completionHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// zeroUsage says that no model ran.
const zeroUsage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`

// appendCompletion appends a chat.completion with text in each of its choices.
func appendCompletion(dst []byte, head completionHead, s completionShape, text string) []byte {
	head.Object = "chat.completion"
	dst = append(openObject(dst, head), `,"choices":[`...)
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

// appendStream appends the events of a streamed answer: for each choice a chunk
// with role and text and a chunk with the finish reason, then usage if the request
// asked for it.
func appendStream(dst []byte, head completionHead, s completionShape, text string) []byte {
	head.Object = "chat.completion.chunk"
	usage := ""
	if s.StreamOptions.IncludeUsage {
		usage = `,"usage":null`
	}
	event := func(choices, usage string) {
		dst = append(openObject(append(dst, "data: "...), head), `,"choices":[`+choices+`]`+usage+"}\n\n"...)
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

// openObject appends v's JSON object without its closing brace.
func openObject(dst []byte, v completionHead) []byte {
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
