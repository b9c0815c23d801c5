package analysis

import "golang.org/x/text/unicode/norm"

// maxCached bounds the tokens a Vocabulary remembers, so that a corpus of
// endless new words costs time, not memory.
const maxCached = 1 << 19

// A Vocabulary numbers terms from 0 in the order in which it meets them. It
// remembers the terms of each token it has seen, which makes it several times
// faster than Terms over a whole corpus. The zero Vocabulary is empty and ready;
// methods that only read are safe for concurrent use.
type Vocabulary struct {
	ids    table
	tokens table    // tokens as they stand in the text
	spans  []span   // what each of them expands to
	flat   []uint32 // the expansions
	terms  []string // scratch
}

// A span is a part of flat.
type span struct{ off, n uint32 }

// Len returns the number of different terms.
func (v *Vocabulary) Len() int { return v.ids.len() }

// Bytes returns the term of a number below Len. The bytes are shared: nobody changes
// them.
func (v *Vocabulary) Bytes(id uint32) []byte { return v.ids.at(id) }

// Append adds the numbers of the terms of text to dst, in the order of Terms,
// numbering those it meets for the first time.
func (v *Vocabulary) Append(dst []uint32, text string) []uint32 {
	s := scanner{text: norm.NFKC.String(text)}
	for tok, kind := s.next(); kind != end; tok, kind = s.next() {
		sp := v.expand(tok, kind)
		dst = append(dst, v.flat[sp.off:sp.off+sp.n]...)
	}
	return dst
}

// expand returns the numbers of a token's terms. Tokens that no term could come
// of whole are not remembered.
func (v *Vocabulary) expand(tok string, k kind) span {
	if len(tok) <= maxTerm {
		id, isNew := v.tokens.add(tok)
		if !isNew {
			return v.spans[id]
		}
	}
	if v.tokens.len() > maxCached || len(v.flat) > 8*maxCached {
		v.tokens.reset()
		v.spans, v.flat = v.spans[:0], v.flat[:0]
		return v.expand(tok, k)
	}
	sp := v.number(tok, k)
	if len(tok) <= maxTerm {
		v.spans = append(v.spans, sp)
	}
	return sp
}

// number works out a token's terms.
func (v *Vocabulary) number(tok string, k kind) span {
	v.terms = appendTerms(v.terms[:0], tok, k)
	sp := span{off: uint32(len(v.flat)), n: uint32(len(v.terms))}
	for _, t := range v.terms {
		id, _ := v.ids.add(t)
		v.flat = append(v.flat, id)
	}
	return sp
}
