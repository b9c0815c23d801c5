package model

import (
	"strings"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// encryptedBytes is how many bytes of encrypted reasoning are counted as a token: base64 of a
// compressed text.
const encryptedBytes = 4

// item counts an item of a Responses request, or instructions or an input that is a string. A
// message is counted like one of a chat, calls and their outputs as text. What else an item holds
// is counted as its JSON.
func (m *messageWeight) item() {
	if m.Kind() == chat.KindString {
		m.text = tokens.MessageOverhead
		m.count(m.Text())
		return
	}
	start, kind := m.Reader, ""
	m.Object(func(name string) {
		if name == "type" {
			kind = m.Text()
			return
		}
		m.Value()
	})
	m.Reader = start
	m.text = tokens.MessageOverhead
	switch {
	case kind == "" || kind == "message":
		m.Object(m.member)
	case kind == "function_call" || kind == "custom_tool_call":
		m.functionCall()
	case kind == "reasoning":
		m.exact = false
		m.Object(m.thought)
	case strings.HasSuffix(kind, "_output"):
		m.exact = false
		m.Object(func(name string) {
			if name == "output" && (m.Kind() == chat.KindString || m.Kind() == chat.KindArray) {
				m.content()
				return
			}
			m.Value()
		})
	default:
		m.exact = false
		m.count(string(m.Value()))
	}
}

// thought counts a member of a reasoning item.
func (m *messageWeight) thought(name string) {
	switch name {
	case "summary", "content":
		m.count(string(m.Value()))
	case "encrypted_content":
		m.text += len(m.Value()) / encryptedBytes
	default:
		m.Value()
	}
}
