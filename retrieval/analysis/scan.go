package analysis

import (
	"unicode"
	"unicode/utf8"
)

// kind says what a token is.
type kind uint8

const (
	end      kind = iota // of the text; no token
	word                 // one word or number
	compound             // a word that has parts: camelCase, snake_case, dotted.name
	pair                 // two characters of a script without spaces, or a single one
	acronym              // a stop word in capitals that is a name
)

// A scanner cuts a text in NFKC into tokens, which are substrings of it.
type scanner struct {
	text  string
	pos   int
	inRun bool // the pair before ended with the character at pos

	sentence int  // start of the sentence at pos
	judged   int  // end of the last sentence that inCapitals judged; 0 if none
	shouts   bool // that sentence is in capitals
}

// next returns the next token. In all, each byte is read a bounded number of times.
func (s *scanner) next() (string, kind) {
	for s.pos < len(s.text) {
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
			return tok, k
		default:
			s.inRun = false
			s.pos += n
			if endsSentence(s.text[s.pos:], r) {
				s.sentence = s.pos
			}
		}
	}
	return "", end
}

// rune decodes the rune at i; most are one byte.
func (s *scanner) rune(i int) (rune, int) {
	if c := s.text[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s.text[i:])
}

// pair returns the character of n bytes at pos with the next one of the run, and advances
// by one character. The last character of a run is a token only if it is the only one.
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

// word returns the word that starts at pos: letters, digits and marks, with single
// connectors between them.
func (s *scanner) word() (string, kind) {
	start, i := s.pos, s.pos
	k := word
	letters := false
	var last class
loop:
	for i < len(s.text) {
		r, n := s.rune(i)
		c := classOf(r)
		switch c {
		case lower, digit, mark:
		case upper:
			if last == lower || last == digit && letters {
				k = compound
			}
		case connector, apostrophe:
			if !s.joins(i + n) {
				break loop
			}
			if c == connector {
				k = compound
			}
		default:
			break loop
		}
		// HTTPServer has parts although no upper-case letter follows a lower-case one.
		if c == lower && last == upper && i-start > 1 {
			k = compound
		}
		letters = letters || c == lower || c == upper
		if c != mark {
			last = c
		}
		i += n
	}
	s.pos = i
	if !letters {
		k = word // 3.14 is one number
	}
	return s.text[start:i], k
}

// joins tells whether there is a letter or digit of a spaced script at i.
func (s *scanner) joins(i int) bool {
	if i >= len(s.text) {
		return false
	}
	r, _ := s.rune(i)
	c := classOf(r)
	return c == lower || c == upper || c == digit
}

// class is what a rune means to the scanner.
type class uint8

const (
	other      class = iota
	lower            // a letter that is not upper case
	upper            //
	digit            //
	mark             // a combining mark: it continues a word and never starts one
	connector        // . and _
	apostrophe       // ' and ’
	spaceless        // a letter of a script that puts no spaces between words
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
