package toolcalls

import (
	"bytes"
	"encoding/json"
	"slices"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// The names of edits in the ledger.
const (
	EditTools    = "tools"        // adds Sidenote's tools to those of the request
	EditMessages = "tool-history" // restores calls and results that the client never saw
)

// An OfferReason says why no tools are offered. It is a closed list.
type OfferReason string

// The reasons.
const (
	ToolChoice  OfferReason = "tool-choice" // the request requires a certain tool, or none
	Functions   OfferReason = "functions"   // it uses functions, the deprecated form of tools
	Choices     OfferReason = "choices"     // it asks for several choices
	Unavailable OfferReason = "unavailable" // no one to run the tools, nothing to search, or only one round
	Ambiguous   OfferReason = "ambiguous"   // its tools are not a list, or may be in a prompt template
	Model       OfferReason = "model"       // according to the model table, the model refuses tools
	Refused     OfferReason = "refused"     // the upstream refused them, now or earlier
	Background  OfferReason = "background"  // the answer is not waited for
	InText      OfferReason = "api"         // its model calls tools only in text, which is read in chat completions alone
)

// A Tool is the description of a tool for the model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
}

// An OfferRequest holds what a request body says about tools.
type OfferRequest struct {
	Names    []string    // of the application's tools
	Refusal  OfferReason // why no tools can be offered in addition; "" if they can
	Logprobs bool        // it asks for logprobs
	Effort   string      // the requested reasoning effort; "" if not set
	req      *chat.Request
	tools    chat.Span
	kind     chat.Kind // of tools
	empty    bool      // tools is null or an empty list
	end      int       // offset of the brace that closes the body
}

// ReadOffer reads the body of a parsed request, which must be valid JSON without duplicate
// members and have a message.
func ReadOffer(req *chat.Request) OfferRequest {
	r := OfferRequest{req: req}
	if req.Choices > 1 {
		r.Refusal = Choices
	}
	choice, asks := "", false // the request says how tools are called
	template := false         // it names a prompt template
	c := chat.NewReader(req.Body)
	c.Object(func(name string) {
		kind := c.Kind()
		switch {
		case name == "tools":
			start := c.Offset()
			r.kind, r.empty = kind, true
			c.Array(func(int) {
				r.empty = false
				r.Names = append(r.Names, nameOf(req.API, c.Value()))
			})
			r.tools = chat.Span{Start: start, End: start + len(bytes.TrimRight(req.Body[start:c.Offset()], " \t\r\n"))}
		case name == "tool_choice" && kind == chat.KindString:
			choice = c.Text()
		case name == "tool_choice" && kind != chat.KindNull:
			r.refuse(ToolChoice)
			c.Value()
		case (name == "functions" || name == "function_call") && kind != chat.KindNull:
			r.refuse(Functions)
			c.Value()
		case name == "parallel_tool_calls" && kind != chat.KindNull:
			asks = asks || req.API == chat.Completions // of Responses it is a setting without tools, too
			c.Value()
		case name == "logprobs":
			r.Logprobs = string(c.Value()) == "true"
		case name == "top_logprobs" && req.API == chat.Responses:
			n := string(c.Value())
			r.Logprobs = n != "0" && n != "null"
		case name == "background" && kind == chat.KindBool && req.API == chat.Responses:
			if string(c.Value()) == "true" {
				r.refuse(Background)
			}
		case name == "prompt" && kind == chat.KindObject && req.API == chat.Responses:
			template = true
			c.Value()
		case name == "reasoning_effort" && kind == chat.KindString:
			r.Effort = c.Text()
		case name == "reasoning" && kind == chat.KindObject && r.Effort == "":
			r.Effort = effortIn(&c)
		default:
			c.Value()
		}
		r.end = c.Offset()
	})
	asks = asks || choice != ""
	if choice != "" && choice != "auto" && choice != "required" || asks && len(r.Names) == 0 {
		// Options for tools without any tools are an error, which the upstream should report now,
		// not in the last round.
		r.refuse(ToolChoice)
	}
	switch r.kind {
	case chat.KindArray:
	case chat.KindMissing, chat.KindNull:
		if template { // it may have tools, which tools in the request replace
			r.refuse(Ambiguous)
		}
	default:
		r.refuse(Ambiguous)
	}
	return r
}

// Effort returns the reasoning effort requested in a body, "" if none. body must be valid JSON.
func Effort(body []byte) (effort string) {
	c := chat.NewReader(body)
	c.Object(func(name string) {
		switch kind := c.Kind(); {
		case name == "reasoning_effort" && kind == chat.KindString:
			effort = c.Text()
		case name == "reasoning" && kind == chat.KindObject && effort == "":
			effort = effortIn(&c)
		default:
			c.Value()
		}
	})
	return effort
}

// effortIn reads OpenRouter's object "reasoning".
func effortIn(c *chat.Reader) (effort string) {
	c.Object(func(name string) {
		if name == "effort" && c.Kind() == chat.KindString {
			effort = c.Text()
			return
		}
		c.Value()
	})
	return effort
}

// refuse records the first reason.
func (r *OfferRequest) refuse(why OfferReason) {
	if r.Refusal == "" {
		r.Refusal = why
	}
}

// nameOf returns the name of a tool of any type. In chat completions it is in an object whose key
// is that type.
func nameOf(api chat.API, tool []byte) (name string) {
	c := chat.NewReader(tool)
	c.Object(func(member string) {
		if api == chat.Responses && member == "name" && c.Kind() == chat.KindString {
			name = c.Text()
			return
		}
		if api == chat.Responses || c.Kind() != chat.KindObject {
			c.Value()
			return
		}
		c.Object(func(inner string) {
			if inner == "name" && c.Kind() == chat.KindString {
				name = c.Text()
				return
			}
			c.Value()
		})
	})
	return name
}

// Prefix is put before the name of a Sidenote tool if the application has a tool of that name.
const Prefix = "sidenote_"

// Rename returns the name under which a Sidenote tool is offered.
func (r *OfferRequest) Rename(name string) string {
	for taken := true; taken; {
		taken = false
		for _, theirs := range r.Names {
			if theirs == name {
				name, taken = Prefix+name, true
			}
		}
	}
	return name
}

// Tools returns the edit that appends tools, at least one, to those of the request.
func (r *OfferRequest) Tools(tools []Tool) rewrite.Edit {
	type function struct {
		Type string `json:"type"`
		Tool `json:"function"`
	}
	type flat struct {
		Type string `json:"type"`
		Tool
		Strict bool `json:"strict"` // false, as parameters may be omitted
	}
	var list []json.RawMessage
	for _, t := range tools {
		if r.req.API == chat.Responses {
			list = append(list, encodeTools(flat{Type: "function", Tool: t}))
			continue
		}
		list = append(list, encodeTools(function{"function", t}))
	}
	text := bytes.Join(Unraw(list), []byte(","))
	e := rewrite.Edit{Name: EditTools, Offset: r.tools.End - 1}
	switch {
	case r.kind == chat.KindMissing:
		e.Offset, e.Insert = r.end, rewrite.EditText{[]byte(`,"tools":[`), text, []byte("]")}
	case r.kind == chat.KindNull:
		e.Offset, e.Delete = r.tools.Start, r.tools.End-r.tools.Start
		e.Insert = rewrite.EditText{[]byte("["), text, []byte("]")}
	case r.empty:
		e.Insert = rewrite.EditText{text}
	default:
		e.Insert = rewrite.EditText{[]byte(","), text}
	}
	return e
}

// Messages adds to the edits of a request those that append messages or items, at least one, each a
// JSON object. In a conversation that the upstream holds they replace the input, which is already
// part of it.
func (r *OfferRequest) Messages(edits []rewrite.Edit, list []json.RawMessage) []rewrite.Edit {
	text := bytes.Join(Unraw(list), []byte(","))
	if r.req.History.Conversation != "" {
		at := r.req.List()
		edits = slices.DeleteFunc(edits, func(e rewrite.Edit) bool { return e.Offset >= at.Start && e.Offset < at.End })
		return append(edits, rewrite.Edit{Name: EditMessages, Offset: at.Start, Delete: at.End - at.Start, Insert: rewrite.EditText{[]byte("["), text, []byte("]")}})
	}
	for _, in := range chat.Append(r.req, text) {
		edits = append(edits, rewrite.Edit{Name: EditMessages, Offset: in.Offset, Insert: rewrite.EditText{in.Text}})
	}
	return edits
}

// Result returns the message or item with the result of the call with that id.
func (r *OfferRequest) Result(id, content string) json.RawMessage {
	if r.req.API == chat.Responses {
		return encodeTools(struct {
			Type   string `json:"type"`
			ID     string `json:"call_id"`
			Output string `json:"output"`
		}{"function_call_output", id, content})
	}
	return encodeTools(struct {
		Role    string `json:"role"`
		ID      string `json:"tool_call_id"`
		Content string `json:"content"`
	}{"tool", id, content})
}

// Unraw returns list as byte slices.
func Unraw(list []json.RawMessage) [][]byte {
	all := make([][]byte, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return all
}

// encodeTools returns v as compact JSON, without HTML escapes.
func encodeTools(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode a tool: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
