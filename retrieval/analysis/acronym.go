package analysis

import "strings"

// isAcronym tells whether the word before pos is a stop word in capitals, possibly with
// an 's, in a sentence that is not.
func (s *scanner) isAcronym(tok string) bool {
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

// inCapitals tells whether the sentence at pos is in capitals: whether it has several
// words in capitals and for every two of them at most one that is not. A single letter,
// or a number, is neither.
func (s *scanner) inCapitals() bool {
	if s.sentence < s.judged { // in the last one
		return s.shouts
	}
	capitals, others := 0, 0
	uppers, lowers := 0, 0 // of the word at i
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

// endsSentence tells whether a rune ends a sentence, a heading or an item, where rest
// follows it.
func endsSentence(rest string, r rune) bool {
	switch r {
	case '\n', '。':
		return true
	case '.', '!', '?':
		return rest == "" || rest[0] <= ' '
	}
	return false
}
