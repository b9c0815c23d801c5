package tools

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// window returns the run of sentences of a text that has most of some terms, of at most room
// bytes; of runs that have as many the first one. A sentence that is longer is cut at its end.
func (k *Knowledge) window(text string, terms map[string]bool, room int) string {
	if len(text) <= room {
		return text
	}
	ends := sentences(text)
	has := make([]map[string]bool, len(ends))
	for i, start := range starts(ends) {
		has[i] = map[string]bool{}
		for _, term := range k.Terms(text[start:ends[i]]) {
			if terms[term] {
				has[i][term] = true
			}
		}
	}
	best, from, to := -1, 0, 0
	for i, start := range starts(ends) {
		seen := map[string]bool{}
		for j := i; j < len(ends) && (j == i || ends[j]-start <= room); j++ {
			for term := range has[j] {
				seen[term] = true
			}
			if len(seen) > best {
				best, from, to = len(seen), start, ends[j]
			}
		}
	}
	for _, end := range ends { // what follows, where there is room
		if end > to && end-from <= room {
			to = end
		}
	}
	return strings.TrimSpace(cut(text[from:to], room))
}

// cut returns the first room bytes of a text, less what would cut a word or a character.
func cut(text string, room int) string {
	if len(text) <= room {
		return text
	}
	for room > 0 && !utf8.RuneStart(text[room]) {
		room--
	}
	if end := strings.LastIndexFunc(text[:room], unicode.IsSpace); end > room/2 {
		room = end
	}
	return text[:room]
}

// sentences returns where the sentences and lines of a text end, each with the space behind it.
func sentences(text string) (ends []int) {
	stop := false // the last character may end a sentence
	space := false
	for i, r := range text {
		switch {
		case r == '\n':
			space = true
		case unicode.IsSpace(r):
			space = space || stop
		default:
			if space {
				ends = append(ends, i)
			}
			space, stop = false, strings.ContainsRune(".!?", r)
			if strings.ContainsRune("。！？…", r) {
				space = true
			}
		}
	}
	return append(ends, len(text))
}

// starts returns where what ends there begins.
func starts(ends []int) []int { return append([]int{0}, ends[:len(ends)-1]...) }
