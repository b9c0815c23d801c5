package followup

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The share of its weight that a turn passes to the previous turn, by the kind of reference found.
// Recall among six hardly depends on the values (TestFollowUps); higher values for short questions
// rank an old topic above a new one (TestTopicChanges).
const (
	tieWhole  = 1.0  // no content word
	tieRefers = 0.9  // a pronoun, or a fragment
	tieOpens  = 0.7  // a conjunction at the beginning, or "too"
	tieAsks   = 0.5  // a question of one word
	tieShort  = 0.35 // fewer content words than the turn before
	tieBeyond = 0.2  // a turn that stands alone but has few content words: the referent may be in the turn before
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

	guessed bool // the list of the language is short, or there is none
}

// read analyses a text.
func read(text string) reading {
	var s scan
	s.cut(text)
	if s.tooLong {
		return reading{own: max(maxOwn+1, len(text)/maxWordLength)}
	}
	c := clauses{scan: &s, language: s.language()}
	c.unknown = c.language == english && s.foreign && !s.speaks(english)
	c.read()
	if c.language == vietnamese { // most words have two syllables, written apart
		c.own = (c.own + 1) / 2
	}
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

// speaks reports whether the text has a function word of a language.
func (s *scan) speaks(l language) bool {
	return slices.ContainsFunc(s.tokens[:s.n], func(t token) bool { return t.known != nil && t.known.in&(1<<l) != 0 })
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
	switch {
	case s.kana:
		return japanese
	case s.han:
		return chinese
	}
	var words [languages]int
	for _, t := range s.tokens[:s.n] {
		if t.known == nil {
			continue
		}
		for in := t.known.in; in != 0; in &= in - 1 {
			words[bits.TrailingZeros32(in)]++
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
	unknown  bool // the language is none of them

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
	if r&function == 0 && !(c.unknown && t.marks&short != 0) {
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
	r := reading{own: c.own, guessed: c.unknown || c.language > chinese}
	says, few := c.asks > 0 || c.question || c.language == greek && c.semicolon, shortOwn
	if c.unknown {
		few++
	}
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
	case c.own <= 1 && !c.explained, c.own <= few && !c.explained && c.articles == 0:
		r.tie = tieShort
	}
	return r
}

// maxFragment is the maximum number of words of a fragment, such as "for two approvers?".
const maxFragment = 6

// Longer questions stand alone.
const (
	maxText   = 400 // bytes
	maxTokens = 64
)

// A token is a word of a text, or a run of Chinese characters that is in no lexicon.
type token struct {
	known      *word  // nil if it is in no lexicon
	start, end uint16 // byte range in the text
	marks      marks
	size       uint8 // number of words it counts for: most Chinese words have two characters
}

// marks say how a token is written, and what precedes it.
type marks uint8

const (
	capital marks = 1 << iota // begins with an upper-case letter
	shouted                   // all upper case
	breaks                    // follows punctuation
	short                     // fewer than four letters: in most languages a function word
)

// A scan is a text cut into tokens.
type scan struct {
	text      string // in NFKC
	tokens    [maxTokens]token
	n         int
	question  bool // has a question mark
	han       bool // has Chinese characters
	kana      bool // is Japanese
	lowers    bool // has a lower-case letter
	spanish   bool // has a punctuation mark that only Spanish has
	foreign   bool // has a letter that is not ASCII
	semicolon bool // has a semicolon, the question mark of Greek
	tooLong   bool
}

// cut cuts text into tokens.
func (s *scan) cut(text string) {
	if len(text) > maxText {
		s.tooLong = true
		return
	}
	if !ascii(text) && !norm.NFKC.IsNormalString(text) {
		text = norm.NFKC.String(text)
	}
	s.text = text
	var mark marks
	for i := 0; i < len(text) && !s.tooLong; {
		if c := text[i]; c < utf8.RuneSelf && !wordly[c] {
			if c != ' ' && s.punctuation(rune(c)) {
				mark = breaks
			}
			i++
			continue
		}
		i, mark = s.token(i, mark)
	}
}

// token appends the token at i, if there is one, and returns its end.
func (s *scan) token(i int, mark marks) (int, marks) {
	r, n := rune(s.text[i]), 1
	if r >= utf8.RuneSelf {
		r, n = utf8.DecodeRuneInString(s.text[i:])
	}
	switch {
	case inWord(r):
		end := wordEnd(s.text, i+n)
		s.word(i, end, mark)
		return end, 0
	case unicode.Is(unicode.Han, r):
		s.han = true
		return s.chinese(i, mark), 0
	case unicode.Is(unicode.Hiragana, r):
		s.kana = true
		t := token{marks: mark} // grammar, no content
		if size, w := longest(s.text[i:], unicode.Hiragana); w != nil {
			n, t.known = size, w
		}
		s.push(i, i+n, t)
		return i + n, 0
	case unicode.Is(unicode.Katakana, r):
		s.kana = true
		end := i + n
		for end < len(s.text) {
			r, n := utf8.DecodeRuneInString(s.text[end:])
			if r != 'ー' && !unicode.Is(unicode.Katakana, r) {
				break
			}
			end += n
		}
		s.push(i, end, token{size: 1, marks: mark})
		return end, 0
	case s.punctuation(r):
		mark = breaks
	}
	return i + n, mark
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// punctuation reports whether r separates clauses.
func (s *scan) punctuation(r rune) bool {
	switch r {
	case '?', '？', '؟':
		s.question = true
		return true
	case ';':
		s.semicolon = true
		return true
	case '¿', '¡':
		s.spanish = true
		return true
	case ',', '،', ':', '.', '!', '(', ')', '\n', '，', '；', '：', '。', '！', '、', '—', '–':
		return true
	}
	return false
}

// wordly marks the ASCII characters of words.
var wordly = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
	}
	return t
}()

// inWord reports whether r belongs to a word of a script with spaces.
func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return wordly[r]
	}
	return (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// wordEnd returns the end of the word that continues at i. A dot between letters belongs to it.
func wordEnd(text string, i int) int {
	for i < len(text) {
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(text[i:])
			if !inWord(r) {
				return i
			}
			i += n
		case wordly[c], c == '.' && i+1 < len(text) && text[i+1] < utf8.RuneSelf && wordly[text[i+1]]:
			i++
		default:
			return i
		}
	}
	return i
}

// plain reports whether a word consists only of the letters a to z.
func plain(word string) bool {
	for i := range len(word) {
		if c := word[i]; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// word appends a word of a script with spaces.
func (s *scan) word(start, end int, mark marks) {
	t := token{marks: mark, size: 1}
	if word := s.text[start:end]; plain(word) { // most words are
		if s.lowers = true; len(word) < 4 {
			t.marks |= short
		}
		if len(word) <= maxWord-utf8.UTFMax {
			t.known = lexemes[word]
		}
		s.push(start, end, t)
		return
	}
	var room [maxWord]byte
	lower, uppers, lowers, letters := room[:0], 0, 0, 0
	for i, r := range s.text[start:end] {
		l := r
		letters++
		switch {
		case 'a' <= r && r <= 'z':
			lowers++
		case 'A' <= r && r <= 'Z':
			l += 'a' - 'A'
		case r >= utf8.RuneSelf:
			s.foreign = true
			if l = unicode.ToLower(r); l == r && unicode.IsLetter(r) {
				lowers++
			}
		}
		if l != r {
			if uppers++; i == 0 {
				t.marks |= capital
			}
		}
		if i <= maxWord-utf8.UTFMax {
			lower = utf8.AppendRune(lower, l)
		}
	}
	s.lowers = s.lowers || lowers > 0
	if uppers > 1 && lowers == 0 {
		t.marks |= shouted
	}
	if end-start <= maxWord-utf8.UTFMax {
		t.known = lexemes[string(lower)]
	}
	switch first, _ := utf8.DecodeRune(lower); {
	case unicode.Is(unicode.Hangul, first):
		const syllable = len("가")
		for n := min(len(lower), 4*syllable); t.known == nil && n >= 2*syllable; n -= syllable { // a particle or an ending follows
			t.known = lexemes[string(lower[:n])]
		}
	case unicode.In(first, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar): // written without spaces
		t.size = uint8(min(letters+5, 255) / 6)
	case letters < 4:
		t.marks |= short
	}
	s.push(start, end, t)
}

// maxChinese is the length of the longest Chinese word in the lexicon, in characters.
const maxChinese = 5

// chinese appends the longest word of the lexicon at start, or else a run of characters up to the
// next such word, and returns its end.
func (s *scan) chinese(start int, mark marks) int {
	if n, w := longest(s.text[start:], unicode.Han); w != nil {
		s.push(start, start+n, token{known: w, marks: mark, size: 1})
		return start + n
	}
	end, size := start, 0
	for end < len(s.text) {
		r, n := utf8.DecodeRuneInString(s.text[end:])
		if !unicode.Is(unicode.Han, r) {
			break
		}
		if _, w := longest(s.text[end:], unicode.Han); w != nil {
			break
		}
		end += n
		size++
	}
	s.push(start, end, token{marks: mark, size: uint8(size+1) / 2})
	return end
}

// longest returns the longest word of the lexicon at the beginning of text that is written in a
// script without spaces.
func longest(text string, script *unicode.RangeTable) (n int, w *word) {
	end := 0
	for range maxChinese {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !unicode.Is(script, r) {
			break
		}
		end += size
		if found := lexemes[text[:end]]; found != nil {
			n, w = end, found
		}
	}
	return n, w
}

func (s *scan) push(start, end int, t token) {
	t.start, t.end = uint16(start), uint16(end)
	if s.n == maxTokens {
		s.tooLong = true
		return
	}
	s.tokens[s.n] = t
	s.n++
}
