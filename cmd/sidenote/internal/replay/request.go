package replay

import (
	"encoding/json"
	"fmt"
	"strconv"

	"sidenote/proxy/record"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// apiOf returns the API with the name of record.Record.API.
func apiOf(name string) (chat.API, error) {
	if name == "" {
		return chat.Completions, nil
	}
	for _, api := range []chat.API{chat.Responses, chat.Messages} {
		if api.String() == name {
			return api, nil
		}
	}
	return 0, fmt.Errorf("%q is no API of chats", name)
}

// A message is a message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// isWhole reports whether the body of a record tells all that was asked: it is recorded, and the
// upstream holds no earlier turns.
func isWhole(r *record.Record, api chat.API) bool {
	if r.Body == nil {
		return false
	}
	req, err := api.Parse(r.Body)
	return err == nil && !req.History.Continued()
}

// surroundings are what a chat has besides the user's messages, as far as it changes what is added.
type surroundings struct {
	system     bool // a system message, to which the block is added
	behind     bool // it comes after the messages in the body: so do the texts that are added
	structured bool // a format of the answer, for which no citations are asked
}

// otherSurroundings are those that a chat of questions may have had, besides the usual ones.
var otherSurroundings = [...]surroundings{
	{}, {system: true, structured: true}, {structured: true}, {system: true, behind: true}, {system: true, behind: true, structured: true},
}

// systemText is the system message of a chat of questions.
const systemText = "You are a helpful assistant."

// body returns the request of a record: the body as received or, if that is not whole, a chat of the
// user's messages. The replayer's model replaces the record's.
func (a *attempt) body(api chat.API, around surroundings) ([]byte, error) {
	r, model := a.rec, a.Model
	if a.whole {
		if model == "" {
			return r.Body, nil
		}
		return withMembers(r.Body, map[string]any{"model": model})
	}
	if model == "" {
		model = r.Model
	}
	messages := make([]message, 0, len(r.Earlier)+2)
	var system []member
	switch {
	case !around.system:
	case api == chat.Completions:
		messages = append(messages, message{"system", systemText})
	default:
		system = []member{{systems[api], systemText}}
	}
	for _, text := range append(r.Earlier[:len(r.Earlier):len(r.Earlier)], r.Question) {
		messages = append(messages, message{"user", text})
	}
	members := append([]member{{"model", model}}, system...)
	members = append(members, member{listOf[api], messages})
	if around.behind {
		members = append([]member{{"model", model}, {listOf[api], messages}}, system...)
	}
	if around.structured {
		members = append(members, formats[api])
	}
	return object(members)
}

// A member is a member of a JSON object.
type member struct {
	name  string
	value any
}

// object returns a JSON object with its members in that order.
func object(members []member) ([]byte, error) {
	out := []byte{'{'}
	for i, m := range members {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, m.name), ':'), value...)
	}
	return append(out, '}'), nil
}

// listOf has the member of a body with its messages, by API.
var listOf = [...]string{chat.Completions: "messages", chat.Responses: "input", chat.Messages: "messages"}

// systems has the member of a body with the system message, by API.
var systems = [...]string{chat.Responses: "instructions", chat.Messages: "system"}

// formats has the member of a body that asks for an answer in JSON, by API.
var formats = [...]member{
	chat.Completions: {"response_format", map[string]any{"type": "json_object"}},
	chat.Responses:   {"text", map[string]any{"format": map[string]any{"type": "json_object"}}},
	chat.Messages:    {"output_config", map[string]any{"format": map[string]any{"type": "json_schema"}}},
}

// withMembers returns a JSON object with some members replaced; nil removes one.
func withMembers(body []byte, members map[string]any) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for name, value := range members {
		if value == nil {
			delete(all, name)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		all[name] = text
	}
	return json.Marshal(all)
}

// optionsOf returns what a record's request asked for. Its filters are part of the record's filter.
func optionsOf(a *record.Asked) (o rewrite.Options, err error) {
	if a == nil {
		return o, nil
	}
	if a.Mode != "" {
		mode, err := rewrite.ParseMode(a.Mode)
		if err != nil {
			return o, err
		}
		o.Mode = &mode
	}
	if a.ContextTokens > 0 {
		o.ContextTokens = &a.ContextTokens
	}
	o.Knowledge, o.Query = a.Knowledge, a.Query
	return o, nil
}
