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
func Question(text string) []Term { return (*Recent)(nil).Question(nil, text) }

// Question appends to terms what the function Question returns.
func (r *Recent) Question(terms []Term, text string) []Term {
	var places [4 * fewTerms]int
	var room [fewTerms]string
	starts := places[:0] // of the tokens that terms are of
	from := len(terms)
	s := newScanner(text)
	for tok, k := s.next(); k != end; tok, k = s.next() {
		texts := r.appendTerms(room[:0], tok, k)
		for _, t := range texts {
			terms, starts = append(terms, Term{Text: t}), append(starts, s.start)
			if strings.Count(t, ".") > 1 {
				own(terms[from:], starts, s.start) // the version 1.2.3 of v1.2.3 has a part, too
			}
		}
		if k == whole || len(texts) > 1 || k == word && len(texts) > 0 && isCode(tok) {
			own(terms[from:], starts, s.start)
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
func isCode(word string) bool { return !isDigit(word[0]) && hasDigit(word) }
