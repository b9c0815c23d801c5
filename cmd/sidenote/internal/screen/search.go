package screen

import (
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/retrieval"
)

// Result shows the sources of a search, wrapped to so many columns; with 0, for a file, each text
// takes one line.
func Result(w io.Writer, res retrieval.Result, wide int) {
	for i, src := range res.Sources {
		head := fmt.Sprintf("%d. %s#%d  %s  (score %.1f, relevance %.2f, base %s)", i+1, src.Doc, src.Chunk, title(src), src.Score, src.Relevance, src.Knowledge)
		if src.Date != "" {
			head = strings.TrimSuffix(head, ")") + ", date " + src.Date + ")"
		}
		fmt.Fprintln(w, strings.Map(visible, head))
		text := []string{excerpt(src.Text)}
		if wide > 0 {
			text = terminal.Wrap(text[0], max(wide-4, 20))
		}
		fmt.Fprintln(w, "   "+strings.Join(text, "\n   "))
	}
	if len(res.Sources) == 0 {
		fmt.Fprintf(w, "nothing: %s\n", res.Reason)
	}
}

// title returns the heading path of a chunk.
func title(src retrieval.Source) string { return strings.Trim(src.Name+" > "+src.Section, " >") }

// excerpt returns the beginning of a chunk on one line.
func excerpt(text string) string {
	const maxRunes = 160
	runes := []rune(strings.Map(visible, strings.Join(strings.Fields(text), " ")))
	if len(runes) > maxRunes {
		return string(runes[:maxRunes]) + " …"
	}
	return string(runes)
}
