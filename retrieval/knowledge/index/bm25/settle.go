package bm25

import "slices"

const (
	// wholeWeight is the weight of an identifier that is in the Index, relative to a word: who
	// names one asks about it.
	wholeWeight = 1.5
	// partWeight is the weight of its parts then, so that it is not counted twice: the identifier
	// and two parts weigh about as much as two words.
	partWeight = 0.3
)

// Settle returns terms with the weights of identifiers and their parts in this Index. If no live
// text contains an identifier, its parts weigh as much as words, and it is left out if it has
// parts. Without identifiers it returns terms itself; otherwise it uses room if that is large
// enough.
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

// An identifier is a Whole of some terms.
type identifier struct {
	text  string
	parts bool // whether terms contain parts of it
	here  bool // whether a live text contains it
}

// wholes returns the identifiers in terms. It uses room if that is large enough.
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
