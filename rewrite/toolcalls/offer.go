package toolcalls

import (
	"bytes"
	"encoding/json"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// The names of edits in the ledger.
const (
	EditTools    = "tools"        // our tools stand among those of the request
	EditMessages = "tool-history" // what was called and answered without the client stands in the messages
)

// An OfferReason says why no tools are offered. It is of a closed list.
type OfferReason string

// The reasons.
const (
	ToolChoice  OfferReason = "tool-choice" // the request says which tool is called, or that none is
	Functions   OfferReason = "functions"   // it has functions, of the time before tools
	Choices     OfferReason = "choices"     // it asks for several answers
	Unavailable OfferReason = "unavailable" // there is nobody to answer them, nothing to search, or one round only
	Ambiguous   OfferReason = "ambiguous"   // its tools are no list
	Model       OfferReason = "model"       // the model table says that the model refuses them
	Refused     OfferReason = "refused"     // the upstream has refused them, in this request or before
)

// A Tool is what a model is told of one.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
}

// An OfferRequest is what a body says of tools.
type OfferRequest struct {
	Names    []string    // of the application's tools
	Refusal  OfferReason // why none can be offered beside them; "" if they can
	Logprobs bool        // it asks how likely the tokens of its answer are
	Effort   string      // to reason, that it asks for; "" if it does not
	tools    chat.Span
	kind     chat.Kind // of tools
	empty    bool      // tools is an empty list
	end      int       // the brace that closes the body
	last     int       // behind the last message
}

// ReadOffer reads the body of a parsed request, which is sound JSON, has each member once, and a message.
func ReadOffer(req *chat.Request) OfferRequest {
	r := OfferRequest{last: req.Messages[len(req.Messages)-1].End}
	if req.Choices > 1 {
		r.Refusal = Choices
	}
	choice, asks := "", false // it says how tools are called
	c := chat.NewReader(req.Body)
	c.Object(func(name string) {
		kind := c.Kind()
		switch {
		case name == "tools":
			start := c.Offset()
			r.kind, r.empty = kind, true
			c.Array(func(int) {
				r.empty = false
				r.Names = append(r.Names, nameOf(c.Value()))
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
			asks = true
			c.Value()
		case name == "logprobs":
			r.Logprobs = string(c.Value()) == "true"
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
		// To say how tools are called where there are none is an error, which is the upstream's to
		// tell: now, and not in the last round.
		r.refuse(ToolChoice)
	}
	if r.kind != chat.KindMissing && r.kind != chat.KindNull && r.kind != chat.KindArray {
		r.refuse(Ambiguous)
	}
	return r
}

// Effort returns the effort to reason that a body asks for, "" if it asks for none; a body is sound JSON.
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

// effortIn reads OpenRouter's object about reasoning.
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

// refuse notes the first reason.
func (r *OfferRequest) refuse(why OfferReason) {
	if r.Refusal == "" {
		r.Refusal = why
	}
}

// nameOf reads the name of a tool, of whatever type: it stands in an object that is called as the
// type.
func nameOf(tool []byte) (name string) {
	c := chat.NewReader(tool)
	c.Object(func(member string) {
		if c.Kind() != chat.KindObject {
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

// Prefix stands before the name of a tool of ours where the application has one of that name.
const Prefix = "sidenote_"

// Rename returns the name under which a tool of ours is offered.
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

// Tools returns the edit that adds tools, at least one, behind those of the request.
func (r *OfferRequest) Tools(tools []Tool) rewrite.Edit {
	type function struct {
		Type string `json:"type"`
		Tool `json:"function"`
	}
	var list []json.RawMessage
	for _, t := range tools {
		list = append(list, encodeTools(function{"function", t}))
	}
	text := bytes.Join(unraw(list), []byte(","))
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

// Messages returns the edit that adds messages, at least one, each a JSON object, behind the last one.
func (r *OfferRequest) Messages(list []json.RawMessage) rewrite.Edit {
	return rewrite.Edit{Name: EditMessages, Offset: r.last, Insert: rewrite.EditText{[]byte(","), bytes.Join(unraw(list), []byte(","))}}
}

func unraw(list []json.RawMessage) [][]byte {
	all := make([][]byte, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return all
}

// encodeTools writes JSON compactly, with < and & as they are.
func encodeTools(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode a tool: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
