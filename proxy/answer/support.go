package answer

// A claim is a statement that cites a source.
type claim struct {
	id       int
	clause   string // text since the previous marker or the start of the sentence
	sentence string // the sentence up to the marker
}

// maxStatement is how many bytes of a statement are compared, counted from its end.
const maxStatement = 512

// sourceTerms returns a function for the terms of cited sources, which extracts them once per
// source.
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

// support returns the share of the statement's terms that its source contains; ok is false if
// either has no terms. If the clause has none, as in "and [2]", the sentence is used.
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

// withoutMarkers returns the text without markers, whose numbers are not terms.
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
