package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// kind is the kind of a token.
type kind uint8

const (
	end      kind = iota // of the text; not a token
	word                 // one word or number
	compound             // a word with parts: camelCase, snake_case, dotted.name
	pair                 // two characters of a script without spaces, or one that stands alone
	acronym              // a stop word in capitals that is a name
	version              // numbers with two dots or more: 3.12.1
	whole                // an identifier, after its words
)

// A scanner cuts a text, in NFKC, into tokens, which are substrings of the text.
type scanner struct {
	text  string
	pos   int
	start int  // of the last token
	inRun bool // the last pair ended with the character at pos

	name, path         identifier // current identifiers; a name may be part of a path
	due                int        // where the first of them ends; never if there is none
	nameSeen, pathSeen int        // end of the words already examined for names and paths

	sentence int  // start of the sentence at pos
	judged   int  // end of the last sentence examined by inCapitals; 0 if none
	shouts   bool // that sentence is in capitals
}

func newScanner(text string) scanner {
	return scanner{text: norm.NFKC.String(text), name: identifier{end: never}, path: identifier{end: never}, due: never}
}

// next returns the next token. Overall, each byte is read a bounded number of times.
func (s *scanner) next() (string, kind) {
	for {
		if s.pos >= s.due {
			return s.identifier(), whole
		}
		if s.pos >= len(s.text) {
			return "", end
		}
		s.start = s.pos
		r, n := s.rune(s.pos)
		switch classOf(r) {
		case spaceless:
			if tok := s.pair(n); tok != "" {
				return tok, pair
			}
		case lower, upper, digit:
			s.inRun = false
			tok, k := s.word()
			if k == word && s.isAcronym(tok) {
				k = acronym
			}
			s.identify(s.start, s.pos)
			if k == word && isDigit(tok[0]) {
				s.identifySpaced(s.start, s.pos)
			}
			return tok, k
		default:
			s.inRun = false
			s.pos += n
			if endsSentence(s.text[s.pos:], r) {
				s.sentence = s.pos
			}
		}
	}
}

// rune decodes the rune at i; most are one byte long.
func (s *scanner) rune(i int) (rune, int) {
	if c := s.text[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s.text[i:])
}

// pair returns the character of n bytes at pos with the next one of the run, and advances by one
// character. A run of one character is a token itself.
func (s *scanner) pair(n int) string {
	start, next := s.pos, s.pos+n
	s.pos = next
	if next < len(s.text) {
		if r, m := s.rune(next); classOf(r) == spaceless {
			s.inRun = true
			return s.text[start : next+m]
		}
	}
	alone := !s.inRun
	s.inRun = false
	if alone {
		return s.text[start:next]
	}
	return ""
}

// word returns the word at pos: letters, digits and marks, with single connectors between them.
func (s *scanner) word() (string, kind) {
	start := s.pos
	next, k := s.wordAt(start)
	s.pos = next
	return s.text[start:next], k
}

// wordAt returns the end and the kind of the word that starts at start.
func (s *scanner) wordAt(start int) (next int, k kind) {
	i := start
	k = word
	dots := 0
	letters := false
	second := start // where the second character is
	var last class
loop:
	for i < len(s.text) {
		if c := s.text[i]; last == lower && 'a' <= c && c <= 'z' {
			i++ // most bytes
			continue
		}
		r, n := s.rune(i)
		c := classOf(r)
		switch c {
		case lower, digit, mark:
		case upper:
			if last == lower || last == digit && letters {
				k = compound
			}
		case connector, apostrophe:
			if !s.startsWord(i + n) {
				break loop
			}
			if c == connector {
				k = compound
			}
			if r == '.' {
				dots++
			}
		default:
			break loop
		}
		// HTTPServer has parts although no upper-case letter follows a lower-case one.
		if c == lower && last == upper && i > second {
			k = compound
		}
		letters = letters || c == lower || c == upper
		if c != mark {
			last = c
		}
		if i == start {
			second = start + n
		}
		i += n
	}
	switch {
	case letters:
	case dots > 1:
		k = version
	default:
		k = word // 3.14 is one number
	}
	return i, k
}

// startsWord reports whether there is a letter or digit of a script with spaces at i.
func (s *scanner) startsWord(i int) bool {
	if i >= len(s.text) {
		return false
	}
	r, _ := s.rune(i)
	c := classOf(r)
	return c == lower || c == upper || c == digit
}

// class is the character class of a rune.
type class uint8

const (
	other      class = iota
	lower            // a letter that is not upper case
	upper            //
	digit            //
	mark             // a combining mark: it continues a word and never starts one
	connector        // . and _
	apostrophe       // ' and ’
	spaceless        // a letter of a script without spaces between words
)

// classOf returns the class of r.
func classOf(r rune) class {
	if r < utf8.RuneSelf {
		switch {
		case 'a' <= r && r <= 'z':
			return lower
		case 'A' <= r && r <= 'Z':
			return upper
		case '0' <= r && r <= '9':
			return digit
		case r == '.' || r == '_':
			return connector
		case r == '\'':
			return apostrophe
		}
		return other
	}
	switch {
	case r == '’':
		return apostrophe
	case r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar), r == 'ー':
		return spaceless
	case unicode.IsUpper(r):
		return upper
	case unicode.IsLetter(r):
		return lower
	case unicode.IsNumber(r):
		return digit
	case unicode.IsMark(r):
		return mark
	}
	return other
}

// maxStop is the length of the longest stop word in bytes.
const maxStop = 10

// isStop reports whether a lower-case word is a stop word: a word of Snowball's list for English,
// one that only frames a question, or a greeting, as in "hi, could you please tell me".
func isStop(word string) bool {
	switch word {
	case "i", "me", "my", "myself", "we", "us", "our", "ours", "ourselves", "you", "your", "yours", "yourself",
		"yourselves", "he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself",
		"they", "them", "their", "theirs", "themselves", "one", "ones", "what", "which", "who", "whom", "whose", "this",
		"that", "these", "those", "am", "is", "are", "was", "were", "be", "been", "being", "have", "has",
		"had", "having", "do", "does", "did", "doing", "done", "would", "should", "could", "can", "cannot",
		"may", "might", "must", "shall", "will", "ought",
		"i'm", "you're", "he's", "she's", "it's", "we're", "they're", "i've", "you've", "we've", "they've",
		"i'd", "you'd", "he'd", "she'd", "we'd", "they'd", "i'll", "you'll", "he'll", "she'll", "we'll",
		"they'll", "it'll", "isn't", "aren't", "wasn't", "weren't", "hasn't", "haven't", "hadn't", "doesn't", "don't",
		"didn't", "won't", "wouldn't", "shan't", "shouldn't", "can't", "couldn't", "mustn't", "let's",
		"that's", "who's", "what's", "here's", "there's", "when's", "where's", "why's", "how's",
		"a", "an", "the", "and", "but", "if", "or", "nor", "because", "as", "until", "while", "of", "at",
		"by", "for", "with", "about", "against", "between", "into", "through", "during", "before", "after",
		"above", "below", "to", "from", "up", "down", "in", "out", "on", "off", "over", "under", "again",
		"further", "then", "once", "here", "there", "when", "where", "why", "how", "all", "any", "both",
		"each", "few", "more", "most", "other", "some", "such", "no", "not", "only", "own", "same", "so",
		"than", "too", "very", "also", "just", "upon", "via", "per", "yet", "however", "therefore", "thus",
		"etc", "e.g", "i.e",
		"whats", "whos", "hows", "whens", "wheres", "whys", "thats", "theres", "heres", "im", "ive", "youre", "youve", "youll",
		"theyre", "theyve", "theyll", "weve", "hes", "shes", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent",
		"hasnt", "havent", "hadnt", "wont", "wouldnt", "shouldnt", "couldnt", "cant", "mustnt",
		"many", "much", "get", "gets", "got", "getting", "tell", "know", "want", "need", "like", "explain", "show":
		return true
	}
	return isSmallTalk(word)
}

// isSmallTalk reports whether a stop word is never a name, even in capitals.
func isSmallTalk(word string) bool {
	switch word {
	case "please", "help", "hi", "hello", "hey", "hiya", "howdy", "greetings", "thanks", "thank", "thx", "cheers", "sorry",
		"bye", "goodbye", "ok", "okay", "yes", "yeah", "yep", "nope", "sure", "alright", "lol", "hmm", "oh", "ah", "wow":
		return true
	}
	return false
}

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
