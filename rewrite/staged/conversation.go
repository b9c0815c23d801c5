package staged

import (
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// historyTokens is the maximum size of History in tokens.
const historyTokens = 2000

// minTurn is the minimum size, in tokens, of a turn that was cut.
const minTurn = 50

// A turn is the role and text of a message.
type turn struct{ role, text string }

// turnAt reads message n. Its text is its string, or its text parts joined by line feeds.
func turnAt(req *chat.Request, n int) (t turn) {
	var texts []string
	m := chat.NewReader(req.Messages[n].Of(req.Body))
	if m.Kind() == chat.KindString {
		return turn{chat.RoleOf(req, n), m.Text()}
	}
	m.Object(func(name string) {
		switch {
		case name == "role":
			t.role = m.Text()
		case name == "content" && m.Kind() == chat.KindString:
			texts = append(texts, m.Text())
		case name == "content":
			m.Array(func(int) { texts = appendText(texts, &m) })
		default:
			m.Value()
		}
	})
	t.text = strings.Join(texts, "\n")
	return t
}

// appendText reads a part of a message and appends its text.
func appendText(texts []string, m *chat.Reader) []string {
	m.Object(func(name string) {
		if name == "text" && m.Kind() == chat.KindString {
			texts = append(texts, m.Text())
			return
		}
		m.Value()
	})
	return texts
}

// History returns the user's and assistant's messages before the question, limited to the last
// 2,000 tokens. A turn begins with its role; its other lines are indented, so that none looks
// like another turn.
func (r *Request) History(counter retrieval.Counter) string {
	var turns []string
	room, size, counted := historyTokens, 0, 0
	for n := r.asked - 1; n >= 0 && room > 0; n-- {
		t := turnAt(r.Request, n)
		text := strings.TrimSpace(t.text)
		if text == "" || t.role != "user" && t.role != "assistant" {
			continue
		}
		turns = append(turns, t.role+": "+indented(text)+"\n")
		if size += len(turns[len(turns)-1]); size <= historyTokens { // a token has at least one byte
			continue
		}
		for ; counted < len(turns); counted++ {
			turns[counted], room = fitTurn(turns[counted], room, counter)
		}
	}
	slices.Reverse(turns)
	return strings.TrimSpace(strings.Join(turns, ""))
}

// indented indents all lines but the first by two columns, whatever the line breaks.
func indented(text string) string { return indent.Replace(text) }

// indent must not be changed.
var indent = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\u2028", "\n  ", "\u2029", "\n  ", "\u0085", "\n  ")

// fitTurn returns a turn, cut to room tokens if necessary, and the room that is left.
func fitTurn(text string, room int, counter retrieval.Counter) (string, int) {
	n, _ := tokens.CountUpTo(counter, text, room)
	if n <= room {
		return text, room - n
	}
	mark, _ := counter.Count(cutMarker)
	if room-mark < minTurn {
		return "", 0
	}
	return strings.TrimRight(tokens.Cut(counter, text, room-mark), " \t\n") + cutMarker + "\n", 0
}
