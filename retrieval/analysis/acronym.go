package analysis

import "strings"

// isAcronym reports whether tok, the word before pos, is a stop word in capitals, possibly with
// 's, in a sentence that is not all in capitals.
func (s *scanner) isAcronym(tok string) bool {
	if c := tok[0]; c < 'A' || c > 'Z' {
		return false // most words
	}
	name := withoutPossessive(tok)
	if len(name) < 2 || len(name) > maxStop || strings.ContainsFunc(name, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return false
	}
	lower := strings.ToLower(name)
	return isStop(lower) && !isSmallTalk(lower) && !s.inCapitals()
}

func withoutPossessive(tok string) string {
	return strings.TrimSuffix(strings.TrimSuffix(tok, "'s"), "’s")
}

// inCapitals reports whether the sentence at pos is in capitals: it has at least two words in
// capitals, and less than half as many others. Single letters and numbers do not count.
func (s *scanner) inCapitals() bool {
	if s.sentence < s.judged { // still the last examined sentence
		return s.shouts
	}
	capitals, others := 0, 0
	uppers, lowers := 0, 0 // letters of the word at i
	endWord := func() {
		if lowers > 0 {
			others++
		} else if uppers > 1 {
			capitals++
		}
		uppers, lowers = 0, 0
	}
	i := s.sentence
	for i < len(s.text) {
		r, n := s.rune(i)
		i += n
		switch classOf(r) {
		case upper:
			uppers++
		case lower, spaceless:
			lowers++
		case other:
			endWord()
		}
		if endsSentence(s.text[i:], r) {
			break
		}
	}
	endWord()
	s.judged, s.shouts = i, capitals > 1 && capitals > 2*others
	return s.shouts
}

// endsSentence reports whether r, followed by rest, ends a sentence, a heading or an item.
func endsSentence(rest string, r rune) bool {
	switch r {
	case '\n', '。':
		return true
	case '.', '!', '?':
		return rest == "" || rest[0] <= ' '
	}
	return false
}
