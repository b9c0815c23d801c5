package knowledge

import "sidenote/retrieval/knowledge/extract"

// frontMatter splits the YAML between --- lines from the start of a document, and
// returns the title in it.
func frontMatter(text string) (title, body string) {
	matter, body := extract.SplitFrontMatter(text)
	return matter.Title(), body
}
