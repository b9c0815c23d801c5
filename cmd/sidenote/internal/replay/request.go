package replay

import (
	"encoding/json"
	"fmt"

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

// body returns the request of a record: the body as received or, if that is not whole, a chat of the
// user's messages. The replayer's model replaces the record's. With structured, the chat asks for an
// answer in JSON.
func (a *attempt) body(api chat.API, structured bool) ([]byte, error) {
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
	messages := make([]message, 0, len(r.Earlier)+1)
	for _, text := range append(r.Earlier[:len(r.Earlier):len(r.Earlier)], r.Question) {
		messages = append(messages, message{"user", text})
	}
	body := map[string]any{"model": model, listOf[api]: messages}
	if structured {
		for name, value := range formats[api] {
			body[name] = value
		}
	}
	return json.Marshal(body)
}

// listOf has the member of a body with its messages, by API.
var listOf = [...]string{chat.Completions: "messages", chat.Responses: "input", chat.Messages: "messages"}

// formats has the members of a body that ask for an answer in JSON, by API.
var formats = [...]map[string]any{
	chat.Completions: {"response_format": map[string]any{"type": "json_object"}},
	chat.Responses:   {"text": map[string]any{"format": map[string]any{"type": "json_object"}}},
	chat.Messages:    {"output_config": map[string]any{"format": map[string]any{"type": "json_schema"}}},
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
