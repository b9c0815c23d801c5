package followup

import "strings"

// pronoun reports whether the i-th token, with roles r, refers to something said before.
func (c *clauses) pronoun(i int, r roles) bool {
	if r&(refers|owns) != 0 {
		return true
	}
	last := i+1 == c.n || c.tokens[i+1].marks&breaks != 0
	next, before := c.special(i+1), c.special(i-1)
	switch c.special(i) {
	case itWord:
		return !c.empty(i)
	case thisWord:
		return c.roles(i+1)&now == 0 && c.roles(i+2)&now == 0
	case thatWord:
		return last || i == 0 || c.roles(i-1)&leads != 0 || before == existsWord || next == existsWord && c.roles(i-1) == 0 && i < 2
	case thereWord:
		return before != existsWord && next != existsWord
	case thenWord:
		return last && i > 0
	case oneWord:
		return before == whichWord || before == thisWord || before == thatWord || before == sameWord || c.roles(i-1)&asks != 0
	case sameWord:
		return i <= 3
	case insteadWord:
		return next != ofWord
	case elseWord:
		return i == 0 || c.roles(i-1)&asks != 0
	}
	return c.article(i, last)
}

// article does the same for words that are articles or pronouns, depending on what follows them.
func (c *clauses) article(i int, last bool) bool {
	switch c.special(i) {
	case theWord: // German nouns are capitalized
		if last {
			return true
		}
		noun := func(i int) bool { return i < c.n && c.tokens[i].marks&capital != 0 || c.roles(i) == 0 }
		return c.roles(i+1)&function != 0 && c.tokens[i+1].marks&capital == 0 && !noun(i+2) || c.roles(i+1)&function != 0 && c.roles(i+1)&relates != 0
	case sheWord: // "Sie" addresses the assistant
		return c.tokens[i].marks&capital == 0
	case ceWord:
		return !last && c.roles(i+1)&function == 0
	case cliticWord:
		if last {
			return false
		}
		verb := c.roles(i+1)&function == 0 && infinitive(c.spelling(i+1))
		return c.special(i-1) == subjectWord && c.roles(i+1)&function == 0 && (c.language == spanish || c.roles(i)&definite != 0) ||
			c.language == french && verb && c.roles(i-1)&leads != 0
	}
	return c.language == spanish && c.tokens[i].known == nil && enclitic(c.spelling(i))
}

// infinitive reports whether a word ends like a French infinitive.
func infinitive(word string) bool {
	return len(word) >= 4 && (strings.HasSuffix(word, "er") || strings.HasSuffix(word, "ir") || strings.HasSuffix(word, "re"))
}

// enclitic reports whether a word ends like a Spanish infinitive with a pronoun: borrarlo.
func enclitic(word string) bool {
	for _, pronoun := range [...]string{"lo", "la", "los", "las", "le", "les"} {
		if verb, ok := strings.CutSuffix(word, pronoun); ok && len(verb) >= 4 {
			return strings.HasSuffix(verb, "ar") || strings.HasSuffix(verb, "er") || strings.HasSuffix(verb, "ir")
		}
	}
	return false
}

// empty reports whether "it" at i is an expletive, as in "is it possible to" and "es gibt".
func (c *clauses) empty(i int) bool {
	if c.language != english { // es gibt, il y a, y a-t-il
		for _, at := range [...]int{i - 3, i - 1, i + 1} {
			if c.special(at) == existsWord {
				return true
			}
		}
	}
	for at := i + 1; at <= i+3 && at < c.n; at++ {
		if c.special(at) != likelyWord {
			continue
		}
		if next := c.special(at + 1); next == toWord || next == thatWord {
			return true
		}
		// German puts the subject after a comma.
		return c.language == german && at+1 < c.n && c.tokens[at+1].marks&breaks != 0
	}
	return false
}
