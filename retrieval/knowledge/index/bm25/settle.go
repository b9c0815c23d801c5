package bm25

import "slices"

const (
	// wholeWeight is what an identifier that is in the Index weighs beside a word: who names
	// one asks about it.
	wholeWeight = 1.5
	// partWeight is what its parts weigh then. So a question does not count it twice: it and
	// two parts weigh about as much as two words.
	partWeight = 0.3
)

// Settle returns terms with the weights that identifiers and their parts have in this
// Index. Of an identifier that no live text has the parts weigh what words do, and it is
// left out if it has any. Without identifiers it returns terms itself, else they lie in room if
// that is enough.
func (x *Index) Settle(terms, room []Term) []Term {
	var few [4]identifier
	wholes := x.wholes(terms, few[:0])
	if len(wholes) == 0 {
		return terms
	}
	settled := slices.Grow(room[:0], len(terms))
	for _, t := range terms {
		in, own := find(wholes, t.Whole), find(wholes, t.Text)
		switch {
		case in != nil && in != own && in.here:
			t.Weight *= partWeight
		case own == nil:
		case own.here:
			t.Weight *= wholeWeight
		case own.parts:
			continue
		}
		settled = append(settled, t)
	}
	return settled
}

// An identifier is the whole of some terms.
type identifier struct {
	text  string
	parts bool // of which terms are given
	here  bool // some live text has it
}

// wholes returns the identifiers that terms name, in room if that is enough.
func (x *Index) wholes(terms []Term, room []identifier) []identifier {
	wholes := room
	for _, t := range terms {
		if t.Whole == "" {
			continue
		}
		w := find(wholes, t.Whole)
		if w == nil {
			wholes = append(wholes, identifier{text: t.Whole, here: x.look(t.Whole, nil).texts > 0})
			w = &wholes[len(wholes)-1]
		}
		w.parts = w.parts || t.Text != t.Whole
	}
	return wholes
}

func find(wholes []identifier, text string) *identifier {
	if i := slices.IndexFunc(wholes, func(w identifier) bool { return w.text == text }); i >= 0 {
		return &wholes[i]
	}
	return nil
}
