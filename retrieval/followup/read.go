package followup

import "strings"

// How much of its weight a turn hands on to the one before it, by what shows that it goes on
// from there. What is found among six hardly depends on the figures (TestFollowUps); greater
// ones for short questions let an old topic stand above a new one (TestTopicChanges).
const (
	tieWhole  = 1.0  // it has no word of its own
	tieRefers = 0.9  // a pronoun, or a fragment
	tieOpens  = 0.7  // a conjunction at its beginning, or "too"
	tieAsks   = 0.5  // a question of one word
	tieShort  = 0.35 // fewer words of its own than the turn before
)

const (
	shortOwn = 2 // words of its own that a short question has at most
	maxOwn   = 8 // with more it says itself what it is about
)

// A reading is what a text shows of its place in a conversation.
type reading struct {
	tie   float64 // to what was said before; 0 if it stands alone
	own   int     // words that say what it is about
	empty bool    // it says nothing: thanks, or no words at all
}

// read reads a text.
func read(text string) reading {
	var s scan
	s.cut(text)
	if s.tooLong {
		return reading{own: max(maxOwn+1, len(text)/maxWordLength)}
	}
	c := clauses{scan: &s, language: s.language()}
	c.read()
	return c.judge()
}

// subject returns a text without its function words, which only English ones an index knows.
func subject(text string) string {
	var s scan
	s.cut(text)
	if s.tooLong {
		return text
	}
	c := clauses{scan: &s, language: s.language()}
	kept, from := make([]byte, 0, len(s.text)), 0
	for i, t := range s.tokens[:s.n] {
		if c.roles(i)&function != 0 && s.apart(t) {
			kept = append(append(kept, s.text[from:t.start]...), ' ')
			from = int(t.end)
		}
	}
	return strings.Join(strings.Fields(string(append(kept, s.text[from:]...))), " ")
}

// apart tells whether a token is no part of a longer name, such as --no-edit.
func (s *scan) apart(t token) bool {
	const joins = "-/\\:@#$%&=+*_.'’"
	if t.start > 0 && strings.IndexByte(joins, s.text[t.start-1]) >= 0 {
		return false
	}
	rest := s.text[t.end:]
	return rest == "" || strings.IndexByte(joins, rest[0]) < 0 || len(rest) > 1 && rest[1] == ' ' && rest[0] != '-' || len(rest) == 1
}

// maxWordLength is about the length of a word that says something, with what stands
// between it and the next, in bytes.
const maxWordLength = 12

// language returns the language of which most function words are. Of equals it is the
// first.
func (s *scan) language() language {
	if s.han && !s.kana {
		return chinese
	}
	var words [languages]int
	for _, t := range s.tokens[:s.n] {
		if t.known == nil {
			continue
		}
		for l, r := range t.known.roles {
			if r&function != 0 {
				words[l]++
			}
		}
	}
	if s.spanish {
		words[spanish] += 2
	}
	best := english
	for l, n := range words {
		if n > words[best] {
			best = language(l)
		}
	}
	return best
}

// clauses go through a scan word by word.
type clauses struct {
	*scan
	language language

	own, asks, closes, articles int
	refers                      bool // something stands for what was said before
	explained                   bool // a pronoun stands for something in the text itself

	content  int  // words of the present clause that say something
	named    bool // one of them has an article
	earlier  bool // a clause before names something
	relating bool // the text begins with a preposition
	opening  bool // or goes on from what was said
	added    bool // or says "too"
	chats    bool // it is small talk
}

// roles returns what the i-th token does in the language of the text; 0 beyond its ends.
func (c *clauses) roles(i int) roles {
	if i < 0 || i >= c.n || c.tokens[i].known == nil || c.name(i) {
		return 0
	}
	return c.tokens[i].known.roles[c.language]
}

// special is like roles.
func (c *clauses) special(i int) special {
	if i < 0 || i >= c.n || c.tokens[i].known == nil || c.name(i) {
		return none
	}
	return c.tokens[i].known.special[c.language]
}

// name tells whether the i-th token is a name that looks like a function word: IT, US.
func (c *clauses) name(i int) bool { return c.tokens[i].marks&shouted != 0 && c.lowers }

// spelling returns the i-th token as it is written.
func (c *clauses) spelling(i int) string { return c.text[c.tokens[i].start:c.tokens[i].end] }

func (c *clauses) read() {
	first := 0
	for first < c.n && c.roles(first)&closes != 0 && c.special(first) != likelyWord {
		first++
	}
	for i := range c.n {
		c.token(i)
	}
	c.opening = c.roles(first)&opens != 0 || c.roles(first)&asks != 0 && c.special(first+1) == aboutWord
	c.relating = c.roles(first)&relates != 0
	c.added = c.added && (c.own <= shortOwn+1)
	if c.special(c.n-1) == endWord && c.asks == 0 {
		c.refers = true
	}
}

// token reads the i-th token.
func (c *clauses) token(i int) {
	t, r := &c.tokens[i], c.roles(i)
	if i > 0 && (t.marks&breaks != 0 || r&clause != 0) {
		c.earlier = c.earlier || c.named && c.content > 0
		c.content, c.named = 0, false
	}
	if c.pronoun(i, r) {
		if c.earlier || r&owns != 0 && c.content > 1 {
			c.explained = true
		} else {
			c.refers = true
		}
	}
	if r&function == 0 {
		c.own += int(t.size)
		c.content += int(t.size)
	}
	if r&asks != 0 {
		c.asks++
	}
	if r&closes != 0 {
		c.closes++
	}
	if r&article != 0 {
		c.articles++
	}
	c.named = c.named || r&(article|definite) != 0
	c.added = c.added || r&adds != 0 && i > 0
	c.chats = c.chats || r&chats != 0 || r&you != 0 && c.special(i-1) == existsWord && c.roles(i-2)&asks != 0 && i+1 == c.n // "who are you?"
}

// judge makes a reading of what was found.
func (c *clauses) judge() reading {
	r := reading{own: c.own}
	says := c.asks > 0 || c.question
	switch {
	case c.n == 0, !says && (c.own == 0 && !c.refers && !c.relating && !c.opening || c.closes > 0 && c.own <= 1):
		r.empty = true
	case c.chats && !c.refers && !c.opening:
	case c.own == 0:
		r.tie = tieWhole
	case c.own > maxOwn:
	case c.refers, c.relating && c.asks == 0 && c.n <= maxFragment:
		r.tie = tieRefers
	case c.opening, c.added:
		r.tie = tieOpens
	case c.own <= 1 && c.asks > 0 && !c.explained:
		r.tie = tieAsks
	case c.own <= 1 && !c.explained, c.own <= shortOwn && !c.explained && c.articles == 0:
		r.tie = tieShort
	}
	return r
}

// maxFragment is the number of words of a question that is a fragment, as in "for two
// approvers?".
const maxFragment = 6
