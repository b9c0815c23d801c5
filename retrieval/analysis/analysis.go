// Package analysis turns text into terms. Indexes, queries and the detection of duplicates all use
// it, so that a term means the same everywhere.
//
// Text is normalized to NFKC and cut into words; a word is lower-cased, dropped if it is an
// English stop word, and stemmed with Porter2. Identifiers are indexed by their parts and as a
// whole (parseURL: pars, url, parseurl; PAY-4021: pay, 4021, pay-4021), numbers stay whole, and
// scripts written without spaces become overlapping pairs of characters.
//
// A stop word in capitals is a name (IT, WHO, US); its term is the lower-case word, which no other
// word produces. "it department" finds the IT department by its other word. In a sentence, heading
// or question that is all in capitals it is a stop word.
package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// Version is part of every base's generation. Change it with any change that alters the terms of
// some text.
const Version = "3"

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
		dst = r.appendParts(dst, tok)
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
	term := strings.ToLower(strings.ReplaceAll(word, "’", "'"))
	if isStop(term) {
		return ""
	}
	return stem(term)
}

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
	return r.appendTerm(dst, part)
}
