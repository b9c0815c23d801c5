package followup

import "strings"

// The share of its weight that a turn passes to the previous turn, by the kind of reference found.
// Recall among six hardly depends on the values (TestFollowUps); higher values for short questions
// rank an old topic above a new one (TestTopicChanges).
const (
	tieWhole  = 1.0  // no content word
	tieRefers = 0.9  // a pronoun, or a fragment
	tieOpens  = 0.7  // a conjunction at the beginning, or "too"
	tieAsks   = 0.5  // a question of one word
	tieShort  = 0.35 // fewer content words than the turn before
)

const (
	shortOwn = 2 // content words that a short question has at most
	maxOwn   = 8 // with more content words a question stands alone
)

// A reading is how a text relates to the conversation before it.
type reading struct {
	tie   float64 // to the turns before; 0 if it stands alone
	own   int     // number of content words
	empty bool    // no content: thanks, or no words at all
}

// read analyses a text.
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

// subject returns a text without its function words; indexes only know the English ones.
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

// apart reports whether a token is not part of a longer name, such as --no-edit.
func (s *scan) apart(t token) bool {
	const joins = "-/\\:@#$%&=+*_.'’"
	if t.start > 0 && strings.IndexByte(joins, s.text[t.start-1]) >= 0 {
		return false
	}
	rest := s.text[t.end:]
	return rest == "" || strings.IndexByte(joins, rest[0]) < 0 || len(rest) > 1 && rest[1] == ' ' && rest[0] != '-' || len(rest) == 1
}

// maxWordLength is the approximate length of a content word and the space before the next, in
// bytes.
const maxWordLength = 12

// language returns the language with the most function words in the text, the first one on a tie.
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

// clauses analyses a scan word by word.
type clauses struct {
	*scan
	language language

	own, asks, closes, articles int
	refers                      bool // something refers to what was said before
	explained                   bool // a pronoun refers to something in the text itself

	content  int  // content words of the current clause
	named    bool // one of them has an article
	earlier  bool // a previous clause names something
	relating bool // the text begins with a preposition
	opening  bool // or continues what was said
	added    bool // or says "too"
	chats    bool // it is small talk
}

// roles returns the roles of the i-th token in the language of the text; 0 if i is out of range.
func (c *clauses) roles(i int) roles {
	if i < 0 || i >= c.n || c.tokens[i].known == nil || c.name(i) {
		return 0
	}
	return c.tokens[i].known.roles[c.language]
}

// special returns the special kind of the i-th token, likewise.
func (c *clauses) special(i int) special {
	if i < 0 || i >= c.n || c.tokens[i].known == nil || c.name(i) {
		return none
	}
	return c.tokens[i].known.special[c.language]
}

// name reports whether the i-th token is a name that looks like a function word: IT, US.
func (c *clauses) name(i int) bool { return c.tokens[i].marks&shouted != 0 && c.lowers }

// spelling returns the i-th token as written.
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

// token analyses the i-th token.
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

// judge makes a reading from the counts and flags.
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

// maxFragment is the maximum number of words of a fragment, such as "for two approvers?".
const maxFragment = 6
