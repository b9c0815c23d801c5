package staged

import (
	"bytes"
	"strconv"

	"sidenote/rewrite/chat"
)

// What is special about Anthropic's Messages API: system texts are beside the messages, an answer
// needs a limit, and the effort and the format of the answer are members of one object.

// thinking is what a request says on reasoning.
type thinking struct {
	on     bool
	budget int // of tokens, which is part of max_tokens
}

// readThinking reads the member thinking.
func readThinking(value []byte) (t thinking) {
	r := chat.NewReader(value)
	r.Object(func(name string) {
		switch name {
		case "type":
			kind := r.Text()
			t.on = kind == "enabled" || kind == "adaptive"
		case "budget_tokens":
			t.budget, _ = strconv.Atoi(string(r.Value()))
		default:
			r.Value()
		}
	})
	return t
}

// thinks reports whether the request of the stage asks the model to think, which forbids other
// temperatures than the default.
func (b *builder) thinks() bool {
	return b.req.thinking.on && !b.otherReasons() && !b.leavesOut("thinking")
}

// thinkingBudget returns how many tokens of the limit are for thinking.
func (b *builder) thinkingBudget() int {
	if !b.thinks() {
		return 0
	}
	return min(max(b.req.thinking.budget, 0), b.req.Limits.MaxTokens.N)
}

// listOfUser appends the list of messages, which is the user's prompt alone.
func (b *builder) listOfUser(dst []byte) []byte {
	_, user := b.prompts()
	return append(message(append(dst, '['), "user", user...), ']')
}

// addSystem writes the member system: the application's texts, and the stage's as a block of its own
// after them.
func (b *builder) addSystem() {
	b.hasSystem = true
	var texts [][]byte // strings or lists of blocks
	add := func(text []byte) {
		if text = bytes.TrimSpace(text); len(text) > len(`""`) {
			texts = append(texts, text)
		}
	}
	if b.req.system.End > 0 {
		add(b.stripped(nil, b.req.system))
	}
	for i := range b.req.operators {
		add(b.stripped(nil, b.req.operators[i].Span))
	}
	if own, _ := b.prompts(); len(own) > 0 {
		add(append(append([]byte{'"'}, own...), '"'))
	}
	switch len(texts) {
	case 0:
	case 1:
		b.add("system", texts[0])
	default:
		b.add("system", joinBlocks(texts))
	}
}

// joinBlocks returns texts, which are strings or lists of blocks, as one list of blocks.
func joinBlocks(texts [][]byte) []byte {
	all := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			all = append(all, ',')
		}
		if text[0] == '[' {
			all = append(all, bytes.TrimSpace(text[1:len(text)-1])...)
			continue
		}
		all = append(append(append(all, `{"type":"text","text":`...), text...), '}')
	}
	return append(all, ']')
}

// config writes the member with the effort and the format, which is for stages whose output can be
// the answer.
func (b *builder) config(m *member) {
	if m.kind != chat.KindObject {
		if !b.leavesOut(m.name) {
			b.add(m.name, m.value)
		}
		return
	}
	value := []byte{'{'}
	add := func(name string, v []byte) {
		if len(value) > 1 {
			value = append(value, ',')
		}
		value = append(append(chat.AppendEscaped(append(value, '"'), name), `":`...), v...)
	}
	r := chat.NewReader(m.value)
	r.Object(func(name string) {
		v := r.Value()
		switch {
		case name == "format" && !b.answers(), name == "effort" && (b.otherReasons() || b.leavesOut(m.name)):
			return
		case name == "effort":
			b.hasEffort = true
		}
		add(name, v)
	})
	if e := b.lowEffort(); e != "" {
		add("effort", quoted(e))
	}
	if b.hasEffort = true; len(value) > 1 {
		b.add(m.name, append(value, '}'))
	}
}

// contentOf returns the content of message n; its end if there is none.
func contentOf(req *chat.Request, n int) chat.Span {
	at := req.Messages[n]
	found := chat.Span{Start: at.End, End: at.End}
	r := chat.NewReader(at.Of(req.Body))
	r.Object(func(name string) {
		if v := r.Span(); name == "content" {
			found = chat.Span{Start: at.Start + v.Start, End: at.Start + v.End}
		}
	})
	return found
}

// hasSearchResults reports whether a message has a search result, which no prompt of a stage carries.
func (r *Request) hasSearchResults() bool {
	for n := range r.Messages {
		if r.HasBlock(n, "search_result") {
			return true
		}
	}
	return false
}

// unfitMessages is unfit for a member of a Messages request.
func (m *member) unfitMessages() Reason {
	switch m.name {
	case "tools", "mcp_servers":
		if !m.empty() {
			return Tools
		}
	case "container": // of tools that run on the server
		if m.kind != chat.KindNull {
			return Tools
		}
	case "thread":
		if m.kind == chat.KindObject {
			return Stored
		}
	}
	return ""
}
