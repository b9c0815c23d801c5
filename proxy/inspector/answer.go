package inspector

import (
	"strings"

	"sidenote/proxy/citations"
	"sidenote/proxy/explain"
)

// A piece is a part of an answer: text, or the number of a citation.
type piece struct {
	Text string
	ID   int  // 0 of text
	Link bool // to the source
	None bool // no source has this id
}

// piecesOf splits what an answer says at its citations, as far as there is room. given has the
// ids of sources, and whether the page shows them.
func piecesOf(a *explain.Answer, given map[int]bool, r *room) (pieces []piece, left int) {
	text := a.Text
	for i, c := range text {
		if !r.take(shownSize(c)) {
			text, left = text[:i], len(text)-i
			break
		}
	}
	at := 0
	add := func(text string) {
		if text != "" {
			pieces = append(pieces, piece{Text: visibleLines(text)})
		}
	}
	for _, m := range citations.Marks(text) {
		add(text[at:m.From])
		shown, known := given[m.ID]
		pieces = append(pieces, piece{Text: text[m.From:m.To], ID: m.ID, Link: shown, None: !known})
		at = m.To
	}
	add(text[at:])
	return pieces, left
}

// visibleLines is visible but for the ends of lines.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	return strings.Join(lines, "\n")
}
