package inspector

import (
	"strings"

	"sidenote/proxy"
	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/rewrite/chat"
)

// A piece is a part of an answer: text, or a citation.
type piece struct {
	Text string
	ID   int  // number of the citation; 0 for text
	Link bool // the page shows the source
	None bool // unknown: neither a source nor a marker in the request has this id
}

// markMarkup is the size of the HTML around a citation in bytes.
const markMarkup = 70

// piecesOf splits the text of an answer at its citations, as far as there is room; left is the
// number of bytes that did not fit. given has the ids of sources, and whether the page shows them;
// own are the markers in the request itself.
func piecesOf(a *explain.Answer, given map[int]bool, own answer.PromptMarkers, r *room) (pieces []piece, left int) {
	at := 0
	for _, m := range append(answer.Marks(a.Text), answer.Mark{From: len(a.Text)}) {
		text := a.Text[at:m.From]
		for i, c := range text {
			if !r.take(shownSize(c)) {
				return append(pieces, piece{Text: visibleLines(text[:i])}), len(a.Text) - at - i
			}
		}
		pieces, at = append(pieces, piece{Text: visibleLines(text)}), m.From
		if m.ID == 0 {
			break
		}
		if !r.take(markMarkup) {
			return pieces, len(a.Text) - at
		}
		shown, known := given[m.ID]
		_, brought := own[m.ID]
		pieces, at = append(pieces, piece{Text: a.Text[m.From:m.To], ID: m.ID, Link: shown, None: !known && !brought}), m.To
	}
	return pieces, 0
}

// visibleLines is like Visible, but keeps line breaks.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// ownOf returns the citation markers in a request; nil if its body is not kept completely.
func ownOf(b *explain.Body) answer.PromptMarkers {
	if b == nil || b.Bytes != len(b.Text) {
		return nil
	}
	req, err := chat.APIOf([]byte(b.Text)).Parse([]byte(b.Text))
	if err != nil {
		return nil
	}
	return proxy.OwnMarkers(req)
}
