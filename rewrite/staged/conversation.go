package staged

import (
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/tokens"
)

// historyTokens are what History has at most.
const historyTokens = 2000

// minTurn is the least of a turn, in tokens, that History shows of one that is cut.
const minTurn = 50

// A turn is a message as a chain reads it.
type turn struct{ role, text string }

// turnAt reads the n-th message. Its text is its string, or its text parts joined by line feeds.
func turnAt(req *chat.Request, n int) (t turn) {
	var texts []string
	m := chat.NewReader(req.Messages[n].Of(req.Body))
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

// appendText reads a part of a message, and appends its text.
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

// History returns what user and assistant said before the question, of a long conversation its
// last 2,000 tokens. A turn begins with its role; its further lines are indented, so that none
// looks like another turn.
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
		if size += len(turns[len(turns)-1]); size <= historyTokens { // a token has a byte at least
			continue
		}
		for ; counted < len(turns); counted++ {
			turns[counted], room = fitTurn(turns[counted], room, counter)
		}
	}
	slices.Reverse(turns)
	return strings.TrimSpace(strings.Join(turns, ""))
}

// indented puts every further line of a text two columns to the right, whatever breaks it.
func indented(text string) string { return indent.Replace(text) }

// indent is never changed.
var indent = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\u2028", "\n  ", "\u2029", "\n  ", "\u0085", "\n  ")

// fitTurn returns a turn, or what there is room for of it, and the room that is left.
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
