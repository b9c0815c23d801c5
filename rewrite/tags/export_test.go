package tags

// A Span is a piece of a text by byte offsets: text[Start:End].
type Span struct{ Start, End int }

// Scan returns what Count counts, each from its opening bracket to the end of its name.
func (v Vocabulary) Scan(text string) []Span {
	var spans []Span
	for t := (tag{}); v.next(&t, text); {
		spans = append(spans, Span{t.start, t.end})
	}
	return spans
}
