// Package analysis turns text into the terms that everything lexical in
// Sidenote compares: indexes, queries and duplicate detection. There is one
// analyser, so that a term means the same everywhere.
//
// Text is brought to NFKC and cut into words; a word is lower-cased, dropped if
// it is an English stop word, and stemmed with Porter2. Identifiers count as
// their parts and as a whole (parseURL: pars, url, parseurl), numbers stay whole,
// and scripts written without spaces become overlapping pairs of characters.
//
// A stop word in capitals is a name (IT, WHO, US) and its term the word in lower case,
// which nothing else has: "it department" finds the IT department by its other word.
// In a sentence, a heading or a question that is in capitals itself it stays a stop word.
package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"golang.org/x/text/unicode/norm"
)

// Version names this analyser. It is part of every base's generation: change it
// with anything that changes the terms of some text.
const Version = "2"

// maxTerm is the longest term kept, in bytes. Beyond it stand digests, encoded
// data and the like, which nobody types into a question.
const maxTerm = 64

// Terms returns the terms of text in order, repeats included. It is nil where
// text says nothing that could be searched for.
func Terms(text string) []string {
	var terms []string
	s := scanner{text: norm.NFKC.String(text)}
	for tok, kind := s.next(); kind != end; tok, kind = s.next() {
		terms = appendTerms(terms, tok, kind)
	}
	return terms
}

// appendTerms adds the terms that one token stands for.
func appendTerms(dst []string, tok string, k kind) []string {
	switch k {
	case pair:
		return append(dst, strings.ToLower(tok))
	case acronym:
		return append(dst, strings.ToLower(withoutPossessive(tok)))
	case compound:
		dst = appendParts(dst, tok)
	}
	return appendTerm(dst, tok)
}

// appendTerm adds the term of one word, unless it is a stop word or too long.
func appendTerm(dst []string, word string) []string {
	if len(word) > maxTerm {
		return dst
	}
	term := strings.ToLower(strings.ReplaceAll(word, "’", "'"))
	if isStop(term) {
		return dst
	}
	return append(dst, stem(term))
}

// stem returns the Porter2 stem of a lower-case word. Words with digits or
// connectors inside are names, and no name has a stem.
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

// appendParts adds the words inside an identifier: cut at dots and underscores,
// before an upper-case letter after a lower-case one, and before the last of
// several upper-case letters where a lower-case one follows (HTTPServer).
func appendParts(dst []string, tok string) []string {
	start := 0
	var before, last rune // the two runes before i, 0 at the start of a part
	for i, r := range tok {
		switch {
		case r == '.' || r == '_':
			dst = appendPart(dst, tok[start:i])
			start, before, last = i+1, 0, 0
			continue
		case unicode.IsUpper(r) && (unicode.IsLower(last) || unicode.IsDigit(last)):
			dst = appendPart(dst, tok[start:i])
			start, before, last = i, 0, r
			continue
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before):
			cut := i - utf8.RuneLen(last)
			dst = appendPart(dst, tok[start:cut])
			start = cut
		}
		before, last = last, r
	}
	return appendPart(dst, tok[start:])
}

// appendPart adds one part. Single letters (e.g., mRNA) say nothing on their own.
func appendPart(dst []string, part string) []string {
	if utf8.RuneCountInString(part) < 2 {
		return dst
	}
	return appendTerm(dst, part)
}
