package tags

import "strings"

// A Span is a piece of a text by byte offsets: text[Start:End].
type Span struct{ Start, End int }

// Scan returns what Count counts, each from its opening bracket to the end of its name.
func (v Vocabulary) Scan(text string) []Span {
	var spans []Span
	for t := (tag{}); v.next(&t, text); {
		if !t.token {
			spans = append(spans, Span{t.start, t.end})
		}
	}
	return spans
}

// Tokens returns the chat template tokens in a text, each from its bracket to its end.
func Tokens(text string) []Span {
	var spans []Span
	for t, v := (tag{}), (Vocabulary{}); v.next(&t, text); {
		if t.token {
			spans = append(spans, Span{t.start, t.end})
		}
	}
	return spans
}

// Templates returns each token in the table, as its family writes it.
func Templates() (all []string) {
	for _, t := range templates {
		family := t.family
		bar := "|"
		if family == "DeepSeek" {
			bar = "\uff5c"
		}
		written := func(name string) string {
			if family == "DeepSeek" {
				name = strings.ReplaceAll(name, "_", "\u2581")
			}
			return strings.ReplaceAll(name, "#", "17")
		}
		for _, name := range strings.Fields(t.barred) {
			all = append(all, "<"+bar+written(name)+bar+">")
		}
		for _, name := range strings.Fields(t.halved) {
			all = append(all, "<|"+name+">", "<"+name+"|>", "<|"+name+"|>")
		}
		for _, name := range strings.Fields(t.plain) {
			all = append(all, "<"+written(name)+">", "</"+written(name)+">")
		}
		for _, name := range strings.Fields(t.square) {
			all = append(all, "["+strings.ToUpper(written(name))+"]", "[/"+written(name)+"]")
		}
		for _, name := range strings.Fields(t.upper) {
			all = append(all, "["+strings.ToUpper(written(name))+"]")
		}
	}
	return append(all, "<<SYS>>", "<</SYS>>")
}
