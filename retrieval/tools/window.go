package tools

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// window returns the first run of sentences, of at most room bytes, that contains the most of
// terms. A sentence that is too long is cut at its end.
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
	for _, end := range ends { // append following sentences that fit
		if end > to && end-from <= room {
			to = end
		}
	}
	return strings.TrimSpace(cut(text[from:to], room))
}

// cut returns at most room bytes of a text, without cutting a word or a character.
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

// sentences returns the ends of the sentences and lines of a text, including the space after each.
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

// starts returns the starts of the parts with the given ends.
func starts(ends []int) []int { return append([]int{0}, ends[:len(ends)-1]...) }
