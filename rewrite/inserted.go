package rewrite

import (
	"strings"

	"sidenote/rewrite/chat"
)

// InsertedText returns the text that the edits of a Result insert into the messages, without the
// frame of JSON and line feeds around it. The texts of several places are joined by blank lines.
func InsertedText(edits []Edit) string {
	var all strings.Builder
	for i := range edits {
		pieces := edits[i].Insert
		if edits[i].Name != editInject || len(pieces) < 3 { // a frame alone has one piece
			continue
		}
		if all.Len() > 0 {
			all.WriteString("\n\n")
		}
		for _, piece := range pieces[1 : len(pieces)-1] {
			all.WriteString(chat.Unescape(piece))
		}
	}
	return all.String()
}
