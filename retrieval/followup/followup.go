// Package followup tells follow-up questions ("and how do I drop it without locking?", "why?")
// from those that stand alone, and selects the earlier user turns that join their search, with
// weights.
//
// It decides by words only: pronouns without an antecedent in the question, conjunctions at its
// beginning, fragments, and questions without content words. It knows English, German, French,
// Spanish and Chinese well, and the commonest words of fourteen other languages (words_more.go). In
// any other a word of fewer than four letters counts as a function word, and a question of few
// other words is a follow-up.
//
// The lists of the first five and their grammar, 900 lines, find more than a rule of fifty lines, by which short questions, and those with
// one of a hundred referring words, are follow-ups. The right document is first for 72 of the 80
// questions of TestFollowUps, with the rule for 69, which takes 116 of 148 independent questions
// for possible follow-ups (here 42), so that fewer of them share cached results. A rule that takes
// 36 of these reaches 67; one that reaches 73 ranks the new topic first after 26 of 34 changes of
// topic (here 30).
package followup

import (
	"iter"
	"strings"
	"unicode/utf8"

	"sidenote/retrieval"
)

const (
	// MaxTurns is the maximum number of earlier turns to look at.
	MaxTurns = 8
	// MaxBytes is how much of an earlier turn is used, half of it from each end.
	MaxBytes = 1 << 10

	// mass limits the total weight of all earlier turns, in terms of the question, so that a long
	// history does not outweigh the question's own terms.
	mass = 4
	// weakMass limits it further if nothing but its length makes the question a follow-up, in
	// terms of the question, so that a short question on a new topic finds that first.
	weakMass = 0.8
)

// Depends reports whether earlier turns may join the search for text. It takes about a
// microsecond, up to five for Chinese, and less for a long text (BenchmarkDepends).
func Depends(text string) bool { return read(text).tie > 0 }

// Join returns the earlier turns that join the search for text, nil if it stands alone. earlier
// yields them last first; Join reads it up to the turn that names the topic, past one of few words,
// and at most MaxTurns.
//
// The weight of a turn is that of the following turn times the strength of the following turn's
// tie to it. Weights are above 0, at most 1, and never grow towards earlier turns.
func Join(text string, earlier iter.Seq[string]) []retrieval.Turn {
	question := read(text)
	tie := question.tie
	if tie == 0 {
		return nil
	}
	var joined []retrieval.Turn
	terms, looked := 0.0, 0
	for turn := range earlier {
		if looked++; looked > MaxTurns {
			break
		}
		turn = Clip(turn)
		before := read(turn)
		if before.empty {
			continue
		}
		standing := before.tie == 0 || question.guessed && before.tie < tieOpens
		if len(joined) == 0 && standing && tie < tieOpens && question.own >= before.own {
			return nil // as specific as the turn before: a topic of its own
		}
		if before.own > 0 {
			joined = append(joined, retrieval.Turn{Text: subject(turn), Weight: tie})
			terms += tie * float64(before.own)
		}
		next := before.tie
		if next == 0 && before.own <= shortOwn+1 {
			next = tieBeyond
		}
		if tie *= next; tie == 0 {
			break
		}
	}
	scale, limit := 1.0, float64(mass)
	if question.tie < tieOpens { // it may be a new topic
		limit = min(mass, weakMass*float64(question.own))
	}
	switch {
	case len(joined) == 0:
		return nil
	case question.own == 0: // nothing to outweigh
		scale = 1 / joined[0].Weight
	case terms > limit:
		scale = limit / terms
	}
	for i := range joined {
		joined[i].Weight *= scale
	}
	return joined
}

// Clip returns text, or its two ends on two lines, MaxBytes in total.
func Clip(text string) string {
	if len(text) <= MaxBytes+len("\n") {
		return text
	}
	first, last := MaxBytes/2, len(text)-MaxBytes/2
	for first > 0 && !utf8.RuneStart(text[first]) {
		first--
	}
	for last < len(text) && !utf8.RuneStart(text[last]) {
		last++
	}
	return text[:first] + "\n" + text[last:]
}

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
