package analysis

import "strings"

// A Term is a term of a question.
type Term struct {
	Text string
	// Whole is the identifier that the term is a part of, or else is; "" for other words.
	// Texts that have an identifier have its parts.
	Whole string
}

// Question returns the terms that Terms does, with the identifiers that they belong to.
// Words with a letter first and a digit, such as E0382, are identifiers too.
func Question(text string) []Term {
	var terms []Term
	var starts []int // of the tokens that terms are of
	var texts []string
	s := newScanner(text)
	for tok, k := s.next(); k != end; tok, k = s.next() {
		texts = appendTerms(texts[:0], tok, k)
		for _, t := range texts {
			terms, starts = append(terms, Term{Text: t}), append(starts, s.start)
			if strings.Count(t, ".") > 1 {
				own(terms, starts, s.start) // the version 1.2.3 of v1.2.3 has a part, too
			}
		}
		if k == whole || len(texts) > 1 || k == word && len(texts) > 0 && isCode(tok) {
			own(terms, starts, s.start)
		}
	}
	return terms
}

// own makes the last term an identifier, and the terms before it that start at start or
// later, and are no parts yet, its parts.
func own(terms []Term, starts []int, start int) {
	name := terms[len(terms)-1].Text
	for i := len(terms) - 1; i >= 0 && starts[i] >= start; i-- {
		if t := &terms[i]; t.Whole == "" || t.Whole == t.Text {
			t.Whole = name
		}
	}
}

// isCode tells whether a word has a letter first, and a digit.
func isCode(word string) bool { return !digits(word[:1]) && hasDigit(word) }
