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
	Stored      OfferReason = "stored"      // the upstream keeps the conversation, whose turns the client names
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
	form     form
	tools    chat.Span
	kind     chat.Kind // of tools
	empty    bool      // tools is null or an empty list
	choice   chat.Span // tool_choice; zero if it is missing
	says     bool      // the request says how tools are called
	unfit    bool      // it requires a certain tool, or none
	template bool      // it names a prompt template
	end      int       // offset of the brace that closes the body
}

// ReadOffer reads the body of a parsed request, which must be valid JSON without duplicate
// members and have a message.
func ReadOffer(req *chat.Request) OfferRequest {
	r := OfferRequest{req: req, form: formOf(req.API)}
	if req.Choices > 1 {
		r.Refusal = Choices
	}
	c := chat.NewReader(req.Body)
	c.Object(func(name string) {
		r.read(&c, name)
		r.end = c.Offset()
	})
	if r.unfit || r.says && len(r.Names) == 0 {
		// Options for tools without any tools are an error, which the upstream should report now,
		// not in the last round.
		r.refuse(ToolChoice)
	}
	switch r.kind {
	case chat.KindArray:
	case chat.KindMissing, chat.KindNull:
		if r.template { // it may have tools, which tools in the request replace
			r.refuse(Ambiguous)
		}
	default:
		r.refuse(Ambiguous)
	}
	return r
}

// read reads a member of the request.
func (r *OfferRequest) read(c *chat.Reader, name string) {
	start, kind := c.Offset(), c.Kind()
	switch {
	case r.form.offer(r, c, name, kind):
	case name == "tools":
		r.kind, r.empty = kind, true
		c.Array(func(int) {
			r.empty = false
			r.Names = append(r.Names, r.form.nameOf(c.Value()))
		})
		r.tools = chat.Span{Start: start, End: start + len(bytes.TrimRight(r.req.Body[start:c.Offset()], " \t\r\n"))}
	case name == "tool_choice" && kind == chat.KindString:
		r.choose(c.Text(), "auto", "required")
	case name == "tool_choice" && kind != chat.KindNull:
		r.refuse(ToolChoice)
		c.Value()
	case (name == "functions" || name == "function_call") && kind != chat.KindNull:
		r.refuse(Functions)
		c.Value()
	case name == "logprobs":
		r.Logprobs = string(c.Value()) == "true"
	case name == "reasoning_effort" && kind == chat.KindString:
		r.Effort = c.Text()
	case name == "reasoning" && kind == chat.KindObject && r.Effort == "":
		r.Effort = effortIn(c)
	default:
		c.Value()
	}
}

// choose records which tools the model may call. Tools can be offered under the given choices.
func (r *OfferRequest) choose(choice string, possible ...string) {
	r.says = r.says || choice != ""
	r.unfit = r.unfit || choice != "" && !slices.Contains(possible, choice)
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

// offer reads parallel_tool_calls, which other APIs accept without tools, too.
func (completionForm) offer(r *OfferRequest, c *chat.Reader, name string, kind chat.Kind) bool {
	if name != "parallel_tool_calls" || kind == chat.KindNull {
		return false
	}
	r.says = true
	c.Value()
	return true
}

// nameOf reads the name in an object whose key is the type of the tool.
func (completionForm) nameOf(tool []byte) (name string) {
	c := chat.NewReader(tool)
	c.Object(func(string) {
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
	list := make([]json.RawMessage, len(tools))
	for i := range tools {
		list[i] = r.form.tool(tools[i])
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

// LastTools returns the edits of a request after which none of the tools that the edit of Tools
// appends is called: usually none, which leaves the tools out. Anthropic refuses a request that has
// results of tools but defines no tools, so there they stay, with the choice to call none.
func (r *OfferRequest) LastTools(tools rewrite.Edit) []rewrite.Edit {
	if r.req.API != chat.Messages || r.kind == chat.KindArray && !r.empty {
		return nil
	}
	const choice = `"tool_choice":{"type":"none"}`
	switch {
	case r.choice.End > 0: // it is null
		return []rewrite.Edit{tools, {Name: EditTools, Offset: r.choice.Start, Delete: r.choice.End - r.choice.Start, Insert: rewrite.EditText{[]byte(choice[len(`"tool_choice":`):])}}}
	case tools.Offset == r.end:
		tools.Insert = append(slices.Clip(tools.Insert), []byte(","+choice))
		return []rewrite.Edit{tools}
	}
	return []rewrite.Edit{tools, {Name: EditTools, Offset: r.end, Insert: rewrite.EditText{[]byte("," + choice)}}}
}

// A Result is the result of the call with that id.
type Result struct{ ID, Content string }

// Results returns the messages or items with the results of all calls of a turn.
func (r *OfferRequest) Results(list []Result) []json.RawMessage { return r.form.results(list) }

func (completionForm) results(list []Result) (messages []json.RawMessage) {
	for _, r := range list {
		messages = append(messages, encodeTools(struct {
			Role    string `json:"role"`
			ID      string `json:"tool_call_id"`
			Content string `json:"content"`
		}{"tool", r.ID, r.Content}))
	}
	return messages
}

func (completionForm) tool(t Tool) json.RawMessage {
	return encodeTools(struct {
		Type string `json:"type"`
		Tool `json:"function"`
	}{"function", t})
}

// AnswersAll reports whether calls of Sidenote's tools get results even if the model's turn is the
// last: the upstream may hold the turn and wait for them, or the client may get reasoning that
// belongs to the calls.
func (r *OfferRequest) AnswersAll() bool { return r.req.API != chat.Completions }

// CallsInText reports whether calls can be read in the text of answers.
func (r *OfferRequest) CallsInText() bool { return r.req.API == chat.Completions }

// Turn returns the hidden part of a turn. rounds are what the client does not get of the rounds
// before, with the results; last is what it does not get of the turn itself, and results are those
// of the calls in it.
func (r *OfferRequest) Turn(rounds, last []HistoryCall, results []Result) Turn {
	t := r.form.turn(rounds, last, results)
	t.API = r.req.API
	return t
}

func (f completionForm) turn(rounds, last []HistoryCall, results []Result) Turn {
	return Turn{Before: jsonOf(rounds), Calls: last, Results: f.results(results)}
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
