package followup

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

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
)

// A scan is a text cut into tokens.
type scan struct {
	text     string // in NFKC
	tokens   [maxTokens]token
	n        int
	question bool // has a question mark
	han      bool // has Chinese characters
	kana     bool // is Japanese
	lowers   bool // has a lower-case letter
	spanish  bool // has a punctuation mark that only Spanish has
	tooLong  bool
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
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		s.kana = true
		s.push(i, i+n, token{size: 1, marks: mark})
		return i + n, 0
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
	case '?', '？':
		s.question = true
		return true
	case '¿', '¡':
		s.spanish = true
		return true
	case ',', ';', ':', '.', '!', '(', ')', '\n', '，', '；', '：', '。', '！', '、', '—', '–':
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
		if s.lowers = true; len(word) <= maxWord-utf8.UTFMax {
			t.known = lexemes[word]
		}
		s.push(start, end, t)
		return
	}
	var room [maxWord]byte
	lower, uppers, lowers := room[:0], 0, 0
	for i, r := range s.text[start:end] {
		l := r
		switch {
		case 'a' <= r && r <= 'z':
			lowers++
		case 'A' <= r && r <= 'Z':
			l += 'a' - 'A'
		case r >= utf8.RuneSelf:
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
	s.push(start, end, t)
}

// maxChinese is the length of the longest Chinese word in the lexicon, in characters.
const maxChinese = 5

// chinese appends the longest word of the lexicon at start, or else a run of characters up to the
// next such word, and returns its end.
func (s *scan) chinese(start int, mark marks) int {
	if n, w := longest(s.text[start:]); w != nil {
		s.push(start, start+n, token{known: w, marks: mark, size: 1})
		return start + n
	}
	end, size := start, 0
	for end < len(s.text) {
		r, n := utf8.DecodeRuneInString(s.text[end:])
		if !unicode.Is(unicode.Han, r) {
			break
		}
		if _, w := longest(s.text[end:]); w != nil {
			break
		}
		end += n
		size++
	}
	s.push(start, end, token{marks: mark, size: uint8(size+1) / 2})
	return end
}

// longest returns the longest Chinese word of the lexicon at the beginning of text.
func longest(text string) (n int, w *word) {
	end := 0
	for range maxChinese {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !unicode.Is(unicode.Han, r) {
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
