package proxy

import (
	"bytes"
	"encoding/json"

	"sidenote/proxy/answer"
	"sidenote/proxy/route"
)

// A spanMessage is a message in the form of the attributes gen_ai.input.messages and
// gen_ai.output.messages.
type spanMessage struct {
	Role   string     `json:"role"`
	Parts  []spanPart `json:"parts"`
	Finish string     `json:"finish_reason,omitempty"` // of output
}

// A spanPart is a part of a spanMessage. Parts without text, such as images, have only a type.
type spanPart struct {
	Type    string `json:"type"`
	Content string `json:"content,omitempty"`
}

// inputMessages returns the texts of the messages in a request body, in the form of the attribute
// gen_ai.input.messages; "" if there are none.
func inputMessages(k route.Kind, pieces [][]byte) string {
	if !k.Answers() {
		return ""
	}
	type message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	var body struct {
		System       json.RawMessage `json:"system"`       // Messages
		Instructions json.RawMessage `json:"instructions"` // Responses
		Messages     []message       `json:"messages"`
		Input        json.RawMessage `json:"input"` // Responses
	}
	if json.Unmarshal(bytes.Join(pieces, nil), &body) != nil {
		return ""
	}
	all := []message{{"system", body.System}, {"system", body.Instructions}}
	var input []message
	if json.Unmarshal(body.Input, &input) != nil {
		input = []message{{"user", body.Input}}
	}
	var out []spanMessage
	for _, m := range append(append(all, body.Messages...), input...) {
		if parts := spanParts(m.Content); len(parts) > 0 {
			out = append(out, spanMessage{Role: m.Role, Parts: parts})
		}
	}
	if len(out) == 0 {
		return ""
	}
	return string(encodeRound(out))
}

// outputMessages returns the text of an answer in the form of the attribute gen_ai.output.messages.
func outputMessages(said answer.Text) string {
	parts := []spanPart{}
	if said.Text != "" {
		parts = append(parts, spanPart{"text", said.Text})
	}
	return string(encodeRound([]spanMessage{{Role: "assistant", Parts: parts, Finish: said.Finish}}))
}

// spanParts returns the parts of a message's content: a text, or an array of parts.
func spanParts(content json.RawMessage) []spanPart {
	var text string
	if json.Unmarshal(content, &text) == nil && text != "" {
		return []spanPart{{"text", text}}
	}
	var list []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	var parts []spanPart
	for _, p := range list {
		if p.Text != "" {
			p.Type = "text"
		}
		parts = append(parts, spanPart{p.Type, p.Text})
	}
	return parts
}
