package analysis

import "strings"

// A Term is a term of a question.
type Term struct {
	Text string
	// Whole is the identifier that the term is a part of, or is; "" for other words. Texts with an
	// identifier also have its parts.
	Whole string
}

// Question returns the same terms as Terms, with the identifiers that they belong to. Words that
// begin with a letter and have a digit, such as E0382, are identifiers too.
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

// isCode reports whether a word begins with a letter and has a digit.
func isCode(word string) bool { return !isDigit(word[0]) && hasDigit(word) }
