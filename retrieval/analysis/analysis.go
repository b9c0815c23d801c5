// Package analysis turns text into terms. Indexes, queries and the detection of duplicates all use
// it, so that a term means the same everywhere.
//
// Text is normalized to NFKC and cut into words; a word is lower-cased, dropped if it is an
// English stop word, and stemmed with Porter2. Identifiers are indexed by their parts and as a
// whole (parseURL: pars, url, parseurl), numbers stay whole, and scripts written without spaces
// become overlapping pairs of characters. Letters with a number have the same terms however they
// are joined (PAY-4021: pay, 4021, pay4021, pay-4021; PAY4021: pay, 4021, pay4021). Umlauts and ß
// are written as two letters (ue, ss).
//
// A stop word in capitals is a name (IT, WHO, US); its term is the lower-case word, which no other
// word produces. "it department" finds the IT department by its other word. In a sentence, heading
// or question that is all in capitals it is a stop word.
package analysis

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"sidenote/retrieval"
)

// Version is part of every base's generation. Change it with any change that alters the terms of
// some text.
const Version = "6"

// maxTerm is the maximum length of a term, in bytes. Longer ones are digests, encoded data and the
// like, which nobody searches for.
const maxTerm = 64

// Terms returns the terms of text in order, with repetitions; nil if there are none.
func Terms(text string) []string { return (*Recent)(nil).terms(text) }

func (r *Recent) terms(text string) []string {
	var terms []string
	s := newScanner(text)
	for tok, kind := s.next(); kind != end; tok, kind = s.next() {
		terms = r.appendTerms(terms, tok, kind)
	}
	return terms
}

// fewTerms is a number of terms that hardly any token exceeds.
const fewTerms = 8

// appendTerms appends the terms of one token.
func (r *Recent) appendTerms(dst []string, tok string, k kind) []string {
	switch k {
	case pair:
		return append(dst, strings.ToLower(tok))
	case acronym:
		return append(dst, strings.ToLower(withoutPossessive(tok)))
	case compound:
		if number, ok := versionNumber(tok); ok {
			return append(r.appendTerms(dst, number, version), strings.ToLower(tok))
		}
		if isHex(tok) {
			return r.appendWord(dst, tok)
		}
		dst = appendJoined(r.appendParts(dst, tok), tok, "_")
	case word:
		return r.appendWord(dst, tok)
	case version:
		dst = r.appendTerm(dst, tok[:strings.LastIndexByte(tok, '.')])
	case whole:
		return appendIdentifier(dst, tok)
	}
	return r.appendTerm(dst, tok)
}

// appendTerm appends the term of one word, unless it is a stop word or too long.
func (r *Recent) appendTerm(dst []string, word string) []string {
	if len(word) > maxTerm {
		return dst
	}
	if term := r.term(word); term != "" {
		dst = append(dst, term)
	}
	return dst
}

// termOf returns the term of a word, "" for a stop word.
func termOf(word string) string {
	term := fold(strings.ToLower(strings.ReplaceAll(word, "’", "'")))
	if isStop(term) {
		return ""
	}
	return stem(term)
}

// fold writes the umlauts of a lower-case word and ß as people do whose keyboard lacks them.
func fold(word string) string {
	if strings.ContainsAny(word, "äöüß") {
		word = umlauts().Replace(word)
	}
	return word
}

var umlauts = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss")
})

// stem returns the Porter2 stem of a lower-case word. Words with digits or connectors are names
// and stay unchanged.
func stem(word string) string {
	for i := range len(word) {
		if c := word[i]; c < utf8.RuneSelf && (c < 'a' || c > 'z') && c != '\'' {
			return word
		}
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

// appendParts appends the terms of the words in an identifier. It is cut at dots and underscores,
// between a lower-case and an upper-case letter, and before the last of several upper-case letters
// if a lower-case one follows (HTTP|Server).
func (r *Recent) appendParts(dst []string, tok string) []string {
	start := 0
	var before, last rune // the two runes before c, 0 at the start of a part
	for i, c := range tok {
		switch {
		case c == '.' || c == '_':
			dst = r.appendPart(dst, tok[start:i])
			start, before, last = i+1, 0, 0
			continue
		case unicode.IsUpper(c) && (unicode.IsLower(last) || unicode.IsDigit(last)):
			dst = r.appendPart(dst, tok[start:i])
			start, before, last = i, 0, c
			continue
		case unicode.IsLower(c) && unicode.IsUpper(last) && unicode.IsUpper(before):
			cut := i - utf8.RuneLen(last)
			dst = r.appendPart(dst, tok[start:cut])
			start = cut
		}
		before, last = last, c
	}
	return r.appendPart(dst, tok[start:])
}

// appendPart appends the term of one part, unless it is a single letter, as in mRNA.
func (r *Recent) appendPart(dst []string, part string) []string {
	if utf8.RuneCountInString(part) < 2 {
		return dst
	}
	return r.appendWord(dst, part)
}

// appendWord appends the terms of a word, with those of its letters and its number.
func (r *Recent) appendWord(dst []string, word string) []string {
	if letters, number, ok := numbered(word); ok {
		if len(letters) > 1 {
			dst = r.appendTerm(dst, letters)
		}
		dst = append(dst, strings.ToLower(number))
	}
	return r.appendTerm(dst, word)
}

// Recent caches the terms of recently analysed words and texts, such as frequent questions and the
// chunks that answer them. A repeated question takes 4 µs with it and 8 without (BenchmarkWarm of
// the engine); a new one with known words takes a fourth of the time (BenchmarkQuestion). The zero
// Recent is ready to use; nil caches nothing.
type Recent struct {
	texts retrieval.Recent[analysed]
	words retrieval.Recent[wordTerm]
}

type analysed struct {
	text  string
	terms []string
}

// A wordTerm is a word, as written, and its term, "" for a stop word.
type wordTerm struct{ word, term string }

// maxRecent is the maximum length of a cached text, in bytes.
const maxRecent = 4 << 10

// Terms returns what the function Terms returns. The result is shared and must not be modified.
func (r *Recent) Terms(text string) []string {
	if r == nil || len(text) > maxRecent {
		return r.terms(text)
	}
	hash := retrieval.HashText(text)
	if a := r.texts.At(hash); a != nil && a.text == text {
		return a.terms
	}
	a := &analysed{text, r.terms(text)}
	r.texts.Put(hash, a)
	return a.terms
}

// HasTerms reports whether text has any Terms. It stops at the first.
func (r *Recent) HasTerms(text string) bool {
	var room [fewTerms]string
	s := newScanner(text)
	for tok, kind := s.next(); kind != end; tok, kind = s.next() {
		if len(r.appendTerms(room[:0], tok, kind)) > 0 {
			return true
		}
	}
	return false
}

// term returns the term of a word, "" for a stop word. Words with digits are not cached: most are
// names that seldom recur, and they need no stemming.
func (r *Recent) term(word string) string {
	if r == nil {
		return termOf(word)
	}
	hash := retrieval.HashText(word)
	if w := r.words.At(hash); w != nil && w.word == word {
		return w.term
	}
	term := termOf(word)
	if hasDigit(word) {
		return term
	}
	w := &wordTerm{strings.Clone(word), strings.Clone(term)} // do not keep the whole text in memory
	r.words.Put(hash, w)
	return w.term
}

// A Term is a term of a question.
type Term struct {
	Text string
	// Whole is the identifier that the term is a part of, or is; "" for other words. Texts with an
	// identifier also have its parts.
	Whole string
	// Word is the word that the term was made of, as written; "" for an identifier, its parts, and
	// pairs of characters.
	Word string
}

// Question returns the same terms as Terms, with the identifiers that they belong to. Words that
// begin with a letter and have a digit, such as E0382, and long numbers are identifiers too.
func Question(text string) []Term { return (*Recent)(nil).Question(nil, text) }

// Question appends the result of the function Question to terms.
func (r *Recent) Question(terms []Term, text string) []Term {
	var places [4 * fewTerms]int
	var room [fewTerms]string
	starts := places[:0] // of the tokens of terms
	from := len(terms)
	s := newScanner(text)
	for tok, k := s.next(); k != end; tok, k = s.next() {
		texts := r.appendTerms(room[:0], tok, k)
		for _, t := range texts {
			terms, starts = append(terms, Term{Text: t}), append(starts, s.start)
			if k == word {
				terms[len(terms)-1].Word = tok
			}
			if strings.Count(t, ".") > 1 {
				own(terms[from:], starts, s.start) // the 1.2.3 of v1.2.3 is an identifier with a part
			}
		}
		if k == whole || len(texts) > 1 || k == word && len(texts) > 0 && isCode(tok) {
			own(terms[from:], starts, s.start)
		}
	}
	return terms
}

// own makes the last term an identifier, and the preceding terms from start on its parts, unless
// they are parts already.
func own(terms []Term, starts []int, start int) {
	name := terms[len(terms)-1].Text
	for i := len(terms) - 1; i >= 0 && starts[i] >= start; i-- {
		if t := &terms[i]; t.Whole == "" || t.Whole == t.Text {
			t.Whole = name
		}
	}
}

// leastNumber is the length from which a number is an identifier: shorter ones are years, amounts
// and the like.
const leastNumber = 6

// isCode reports whether a word begins with a letter and has a digit, or is a long number.
func isCode(word string) bool {
	if isDigit(word[0]) {
		return len(word) >= leastNumber && strings.Trim(word, "0123456789") == ""
	}
	return hasDigit(word)
}

//go:embed conversation.txt
var conversationWords string

// conversation returns the terms of conversation.txt.
var conversation = sync.OnceValue(func() map[string]struct{} {
	terms := map[string]struct{}{}
	for line := range strings.Lines(conversationWords) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, t := range Terms(line) {
			terms[t] = struct{}{}
		}
	}
	return terms
})

// Conversational reports whether a term belongs to a word that people say to an assistant on any
// topic, as in "how do I fix this" or "tell me a joke", or is a number below 100. Such a term is
// searched like any other, but does not make a text an answer.
func Conversational(term string) bool {
	if len(term) <= 2 && strings.Trim(term, "0123456789") == "" {
		return true
	}
	_, ok := conversation()[term]
	return ok
}

const (
	// pairTopicality is the weight of a pair of characters compared to a word: in scripts without
	// spaces a word of three characters is two pairs.
	pairTopicality = 0.5
	// conversationTopicality is the weight of a conversational term.
	conversationTopicality = 0.25
)

// Topicality returns how much a term says about the topic of a text: 1 for a word, less for a pair
// of characters and for a conversational term; and whether it is Conversational.
func Topicality(term string) (topic float64, conversational bool) {
	topic = 1
	if r, _ := utf8.DecodeRuneInString(term); classOf(r) == spaceless {
		topic = pairTopicality
	}
	if conversational = Conversational(term); conversational {
		topic *= conversationTopicality
	}
	return topic, conversational
}
