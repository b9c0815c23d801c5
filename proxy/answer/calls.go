package answer

import (
	"bytes"
	"strconv"
	"strings"
)

// calls reads pieces of tool calls and returns those of calls to the client's tools. own reports
// that they differ from raw.
func (l *stage) calls(raw []byte, p *part) (value []byte, own bool) {
	var theirs [][]byte
	pieces := elementsOf(raw)
	var last *call
	for _, raw := range pieces {
		piece, ok := objectOf(raw)
		if !ok {
			continue
		}
		l.now.size += len(raw)
		c, came := l.now.callOf(piece), piece.json()
		c.add(piece)
		last = c
		for _, held := range release(l.completionsLoop, c, piece) {
			text := held.json()
			own = own || !bytes.Equal(text, came)
			theirs = append(theirs, text)
		}
	}
	switch {
	case len(theirs) == 0:
		if len(pieces) == 1 && last != nil && last.continues(l.completionsLoop) {
			p.arguments = argumentsAlone(pieces[0])
			if p.arguments != nil {
				p.call = last
			}
		}
		return nil, false
	case own || len(theirs) != len(pieces):
		return list(theirs), true
	}
	return raw, false
}

// continues reports whether the call is known to be ours.
func (c *call) continues(l *completionsLoop) bool {
	return !c.theirs && len(c.held) == 0 && l.rules.Ours(c.name)
}

// argumentsAlone returns the arguments of a piece that has nothing else, a non-empty string;
// otherwise nil.
func argumentsAlone(raw []byte) []byte {
	piece, _ := objectOf(raw)
	function, _ := objectOf(piece.get("function"))
	arguments := function.get("arguments")
	if piece.get("id") != nil || function.get("name") != nil || len(arguments) <= len(`""`) || arguments[0] != '"' {
		return nil
	}
	return arguments
}

// callOf returns the call that a piece continues, or a new one. Most servers number the calls; some
// omit the index because each piece is a whole call, others always send index 0.
func (n *loopAnswer) callOf(piece object) *call {
	id, index := piece.text("id"), piece.get("index")
	name, arguments := nameAndArguments(piece)
	if index == nil {
		if last := len(n.calls) - 1; last >= 0 && name == "" && (id == "" || id == n.calls[last].id) {
			return n.calls[last]
		}
		return n.newCall(len(n.calls))
	}
	at, err := strconv.Atoi(string(index))
	if err != nil {
		at = len(n.calls)
	}
	for i := len(n.calls) - 1; i >= 0; i-- {
		c := n.calls[i]
		if c.number != at {
			continue
		}
		if id != "" && c.id != "" && id != c.id && name != "" || name != "" && strings.HasPrefix(arguments, "{") && strings.HasSuffix(c.arguments.String(), "}") {
			break // another call with the same index
		}
		return c
	}
	return n.newCall(at)
}

func (n *loopAnswer) newCall(number int) *call {
	c := &call{number: number, index: -1}
	n.calls = append(n.calls, c)
	return c
}

// nameAndArguments returns the name and arguments in a piece of a call of any type.
func nameAndArguments(piece object) (name, arguments string) {
	if f, ok := objectOf(piece.get("custom")); ok {
		return f.text("name"), f.text("input")
	}
	f, _ := objectOf(piece.get("function"))
	return f.text("name"), f.text("arguments")
}

// add appends a piece to the call.
func (c *call) add(piece object) {
	name, arguments := nameAndArguments(piece)
	if c.arguments.Len() == 0 && name != c.name { // some servers repeat the name in each piece
		c.name += name
	}
	c.arguments.WriteString(arguments)
	for _, m := range piece {
		switch m.name {
		case "index":
		case "id":
			if c.id == "" {
				c.id = textOf(m.value)
			}
		case "type":
			if c.kind == "" {
				c.kind = textOf(m.value)
			}
		case "function", "custom":
			c.kind, c.theirs = m.name, c.theirs || m.name == "custom"
			inner, _ := objectOf(m.value)
			for _, f := range inner {
				if f.name != "name" && f.name != "arguments" && f.name != "input" {
					c.inner.set(f.name, clone(f.value))
				}
			}
		default:
			c.raw.set(m.name, clone(m.value))
		}
	}
}

// release returns the pieces to pass to the client: none for calls of ours, and once it is known
// that a call is the client's, all pieces held so far and this one.
func release(l *completionsLoop, c *call, piece object) []object {
	if !c.theirs {
		undecided := c.arguments.Len() == 0 && (c.name == "" || l.rules.MayStartOurs(c.name))
		if undecided {
			c.held = append(c.held, copied(piece))
			return nil
		}
		if l.rules.Ours(c.name) {
			c.held = nil
			return nil
		}
		c.theirs = true
	}
	return number(l, c, append(c.take(), piece))
}

func (c *call) take() []object {
	held := c.held
	c.held = nil
	return held
}

func copied(o object) object {
	c := make(object, len(o))
	for i, m := range o {
		c[i] = member{m.name, clone(m.value)}
	}
	return c
}

// number sets the index among the client's calls in each piece, and an id if the call has none.
func number(l *completionsLoop, c *call, pieces []object) []object {
	first := c.index < 0
	if first {
		c.index = l.said
		l.said++
	}
	for i := range pieces {
		if string(pieces[i].get("index")) != strconv.Itoa(c.index) {
			pieces[i].set("index", strconv.AppendInt(nil, int64(c.index), 10))
		}
	}
	if first && c.id == "" {
		c.id = newID()
		pieces[0].set("id", quote(c.id))
	}
	return pieces
}
