package retrieval

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// marks are what tells a text from others with nearly the same terms. Words are hashes, see word.
type marks struct {
	whole     uint64   // hash of all words in order
	numbers   []uint64 // in order, number words included
	negations int      // how many
	names     []uint64 // words with a capital letter inside a sentence
	words     []uint64 // all, sorted
	signs     []uint64 // characters of scripts without spaces between words, sorted
}

// marksIn returns the marks of a text.
func marksIn(text string) *marks {
	const bytesPerWord = 8
	m := &marks{words: make([]uint64, 0, len(text)/bytesPerWord)}
	m.whole = fnvStart
	kinds := kindsOfWords()
	for w := range wordsOf(text) {
		m.whole = (m.whole ^ w.hash) * fnvPrime
		m.words = append(m.words, w.hash)
		switch kind := kinds[w.hash]; {
		case w.digits || kind == numberWord:
			m.numbers = append(m.numbers, w.hash)
		case kind == negation:
			m.negations++
		case w.unspaced:
			m.signs = append(m.signs, w.hash)
		}
		if w.capital && !w.first {
			m.names = append(m.names, w.hash)
		}
	}
	m.words, m.signs = sortedSet(m.words), sortedSet(m.signs)
	return m
}

// sortedSet sorts a list and removes repetitions.
func sortedSet(list []uint64) []uint64 {
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
}

func has(set []uint64, word uint64) bool {
	_, ok := slices.BinarySearch(set, word)
	return ok
}

// lacks reports whether other lacks an element of set. Both are sorted.
func lacks(set, other []uint64) bool {
	for _, word := range set {
		for len(other) > 0 && other[0] < word {
			other = other[1:]
		}
		if len(other) == 0 || other[0] != word {
			return true
		}
	}
	return false
}

// both reports whether each of two sorted sets has an element that the other lacks.
func both(a, b []uint64) bool { return lacks(a, b) && lacks(b, a) }

// within reports whether list contains part, in order and without gaps.
func within(part, list []uint64) bool {
	for i := 0; i+len(part) <= len(list); i++ {
		if slices.Equal(part, list[i:i+len(part)]) {
			return true
		}
	}
	return false
}

// A word is a word, a number or an identifier of a text.
type word struct {
	hash           uint64 // of the word in lower case, without hyphens and the like if it has digits
	digits         bool   // it has a digit
	unspaced       bool   // it is a character of a script without spaces between words
	capital, first bool   // it begins with a capital letter; it begins a sentence
}

// FNV-1a hashes.
const (
	fnvStart = 14695981039346656037
	fnvPrime = 1099511628211
)

// hashOfWord returns the hash of a word in lower case.
func hashOfWord(text string) uint64 {
	h := uint64(fnvStart)
	for _, r := range text {
		h = (h ^ uint64(r)) * fnvPrime
	}
	return h
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// unspaced reports whether r is of a script without spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// wordsOf yields the words of a text. A character of a script without spaces is a word. A number
// has no separators of thousands, and a point before decimals.
func wordsOf(text string) iter.Seq[word] {
	return func(yield func(word) bool) {
		w, inside, first := word{hash: fnvStart}, false, true
		end := func() bool {
			if !inside {
				return true
			}
			going := yield(w)
			w, inside, first = word{hash: fnvStart}, false, false
			return going
		}
		for i := 0; i < len(text); {
			r, size := rune(text[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRuneInString(text[i:])
			}
			switch digit := unicode.IsDigit(r); {
			case r < utf8.RuneSelf && (digit || r|0x20 >= 'a' && r|0x20 <= 'z'):
				if !inside {
					inside, w.first, w.capital = true, first, r >= 'A' && r <= 'Z'
				}
				w.digits = w.digits || digit
				if !digit {
					r |= 0x20
				}
				w.hash = (w.hash ^ uint64(r)) * fnvPrime
			case unspaced(r):
				if !end() {
					return
				}
				inside, w.first, w.unspaced = true, first, true
				w.hash = (w.hash ^ uint64(r)) * fnvPrime
				if !end() {
					return
				}
			case r >= utf8.RuneSelf && (digit || unicode.IsLetter(r) || unicode.Is(unicode.Mn, r)):
				if !inside {
					inside, w.first, w.capital = true, first, unicode.IsUpper(r)
				}
				w.digits = w.digits || digit
				w.hash = (w.hash ^ uint64(unicode.ToLower(r))) * fnvPrime
			case inside && joins(text, i, r, w.digits):
				if (r == '.' || r == ',') && !thousands(text[i+size:]) {
					w.hash = (w.hash ^ '.') * fnvPrime
				}
			default:
				if !end() {
					return
				}
				first = first || endsSentence(r)
			}
			i += size
		}
		end()
	}
}

func endsSentence(r rune) bool {
	switch r {
	case '.', '!', '?', ':', ';', '|', '\n', '#', '*', '。', '！', '？', '：':
		return true
	}
	return false
}

// joins reports whether r, at text[i:] after a word, is inside a number or identifier.
func joins(text string, i int, r rune, digits bool) bool {
	switch r {
	case '.', ',', '-', '_', '/', '‐', '‑', '\'', '’':
	default:
		return false
	}
	next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
	switch r {
	case '.', ',':
		return isDigit(text[i-1]) && unicode.IsDigit(next)
	case '\'', '’':
		return unicode.IsLetter(next) || unicode.IsDigit(next)
	}
	return unicode.IsDigit(next) || digits && unicode.IsLetter(next)
}

// thousands reports whether text begins with three digits and no further one.
func thousands(text string) bool {
	const group = 3
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n == group
}

// numberWords are the words for numbers from two, in English, German, French, Spanish, Italian,
// Portuguese and Dutch. Words for one are also articles.
const numberWords = " two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half twice double quarter " +
	"zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend " +
	"deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize vingt trente quarante cinquante soixante cent mille " +
	"dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce dieciséis dieciocho veinte treinta cuarenta cincuenta cien mil " +
	"due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciotto venti trenta quaranta cinquanta cento " +
	"dois três quatro sete oito dez doze treze quinze dezesseis dezoito vinte trinta quarenta cinquenta cem " +
	"twee drie vijf zes zeven negen tien twaalf zestien achttien twintig dertig veertig vijftig honderd duizend " +
	"monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche février août décembre março märz "

// negationWords are words that negate, in the languages of numberWords and a few more.
const negationWords = " no not never none nor without cannot nothing neither nicht kein keine keinen keiner keinem nie niemals ohne weder ne pas jamais sans aucun aucune non ni nunca jamás sin ningún ninguna " +
	"mai senza nessun nessuna né não nem sem nenhum nenhuma niet geen nooit zonder ikke inte ingen aldrig uten utan uden nie bez не нет без никогда değil yok dont isnt cant wont doesnt arent 不 没 未 无 沒 無"

// kindOfWord says what a word means besides itself.
type kindOfWord uint8

const (
	plainWord kindOfWord = iota
	numberWord
	negation
)

// IsNegation reports whether a word negates, in some languages.
func IsNegation(word []byte) bool {
	const longest = 16
	return len(word) <= longest && kindsOfWords()[hashOfWord(strings.ToLower(string(word)))] == negation
}

// kindsOfWords are the kinds of the hashes of words.
var kindsOfWords = sync.OnceValue(func() map[uint64]kindOfWord {
	const shortest = 4 // of months: "may" and "set" are more than that
	kinds := map[uint64]kindOfWord{}
	for word := range strings.FieldsSeq(numberWords) {
		kinds[hashOfWord(word)] = numberWord
	}
	for month := range monthNumbers() {
		if len(month) >= shortest {
			kinds[hashOfWord(month)] = numberWord
		}
	}
	for word := range strings.FieldsSeq(negationWords) {
		kinds[hashOfWord(word)] = negation
	}
	return kinds
})
