package analysis

import "sidenote/retrieval/recent"

// Recent caches the terms of texts that were analysed lately, such as frequent questions
// and the chunks that answer them. A popular question takes 4 µs with it and 8 without
// (BenchmarkWarm of the engine). The zero Recent is ready for use.
type Recent struct{ table recent.Table[analysed] }

type analysed struct {
	text  string
	terms []string
}

// maxRecent is the longest text that is cached, in bytes.
const maxRecent = 4 << 10

// Terms is the function Terms, with results that are shared and must not be changed.
func (r *Recent) Terms(text string) []string {
	if len(text) > maxRecent {
		return Terms(text)
	}
	hash := recent.HashText(text)
	if a := r.table.At(hash); a != nil && a.text == text {
		return a.terms
	}
	a := &analysed{text, Terms(text)}
	r.table.Put(hash, a)
	return a.terms
}
