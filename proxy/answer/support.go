package answer

// A claim is a statement that cites a source.
type claim struct {
	id       int
	clause   string // back to the marker before in the sentence
	sentence string // the whole sentence before the marker
}

// maxStatement is how much of a statement is compared, in bytes from its end.
const maxStatement = 512

// sourceTerms returns the terms of the sources that were cited, each read once.
func (c *CitationChecker) sourceTerms() func(id int) map[string]bool {
	known := map[int]map[string]bool{}
	return func(id int) map[string]bool {
		if set, ok := known[id]; ok {
			return set
		}
		set := map[string]bool{}
		for _, term := range c.options.Terms(c.sources[id].Text) {
			set[term] = true
		}
		known[id] = set
		return set
	}
}

// support returns the share of the statement's terms that its source has; false if it has none, or the source.
// Of a clause without terms, as in "and [2]", the sentence speaks.
func (k claim) support(terms func(string) []string, of func(id int) map[string]bool) (share float64, ok bool) {
	said := terms(withoutMarkers(k.clause))
	if len(said) == 0 {
		said = terms(withoutMarkers(k.sentence))
	}
	seen, held, source := map[string]bool{}, 0, of(k.id)
	for _, term := range said {
		if !seen[term] && source[term] {
			held++
		}
		seen[term] = true
	}
	if len(seen) == 0 || len(source) == 0 {
		return 0, false
	}
	return float64(held) / float64(len(seen)), true
}

// withoutMarkers is a text without markers, whose numbers are no terms of it.
func withoutMarkers(text string) string {
	var out []byte
	from := 0
	for m := range markersIn(text) {
		out = append(append(out, text[from:m.from]...), ' ')
		from = m.to
	}
	if from == 0 {
		return text
	}
	return string(append(out, text[from:]...))
}
