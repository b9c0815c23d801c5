package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// No chunk ends between a term and its definition, whatever the definition begins with and however
// long it is.
func TestTermsStayWithDefinitions(t *testing.T) {
	word := rapid.StringMatching(`[a-z]{2,9}`)
	words := rapid.OneOf(rapid.SliceOfN(word, 1, 150), rapid.SliceOfN(word, 80, 120))
	prose := rapid.Map(words, func(words []string) string { return strings.Join(words, " ") + ".\n" })
	sentences := rapid.Map(rapid.SliceOfN(prose, 1, 4), func(s []string) string { return strings.ReplaceAll(strings.Join(s, ""), ".\n", ". ") + "\n" })
	list := rapid.Map(rapid.SliceOfN(prose, 1, 6), func(items []string) string { return "- " + strings.Join(items, "- ") })
	listing := rapid.Map(rapid.SliceOfN(prose, 1, 6), func(lines []string) string { return "```\n" + strings.Join(lines, "") + "```\n" })
	table := rapid.Map(rapid.SliceOfN(word, 1, 60), func(cells []string) string { return "| a |\n|---|\n| " + strings.Join(cells, " |\n| ") + " |\n" })
	definition := rapid.OneOf(prose, sentences, list, listing, table)
	rapid.Check(t, func(r *rapid.T) {
		var doc, page strings.Builder
		doc.WriteString("# Title\n\n")
		page.WriteString("<h1>Title</h1><dl>")
		for i, d := range rapid.SliceOfN(definition, 1, 12).Draw(r, "definitions") {
			if rapid.Bool().Draw(r, "text before") {
				fmt.Fprintf(&doc, "%s\n", prose.Draw(r, "text"))
			}
			term := fmt.Sprintf("TERM-%0*d", rapid.IntRange(1, 60).Draw(r, "length"), i)
			if colon := rapid.Bool().Draw(r, "colon"); colon && !strings.ContainsAny(d, "`|-") {
				fmt.Fprintf(&doc, "%s\n\n: %s\n", term, d)
			} else {
				fmt.Fprintf(&doc, "%s\n%s\n", term, d)
			}
			fmt.Fprintf(&page, "<dt>%s</dt><dd>%s</dd>", term, d)
		}
		for id, text := range map[string]string{"a.md": doc.String(), "a.html": page.String() + "</dl>"} {
			for _, c := range cut(t, id, text) {
				last := c.Text[strings.LastIndexByte(c.Text, '\n')+1:]
				if strings.HasPrefix(last, "TERM-") && !strings.Contains(last, " ") {
					r.Fatalf("%s: chunk %d ends with a term:\n%s", id, c.Chunk, c.Text)
				}
			}
		}
	})
}
