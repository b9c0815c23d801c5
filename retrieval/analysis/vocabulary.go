package analysis

// maxCached limits the tokens that a Vocabulary caches, so that a corpus with endless new words
// costs time but not memory.
const maxCached = 1 << 19

// A Vocabulary numbers terms from 0 in the order in which they first occur. It caches the terms of
// tokens, which makes it several times faster than Terms for a whole corpus. The zero Vocabulary
// is empty and ready to use. Methods that only read are safe for concurrent use.
type Vocabulary struct {
	Limit int // of Size; 0: DefaultLimit

	ids    table
	tokens table    // tokens as written in the text
	spans  []span   // expansion of each token
	flat   []uint32 // all expansions
	terms  []string // scratch space
}

// A span is a range of flat.
type span struct {
	off, n uint32
	words  uint32 // number of terms, not counting an identifier that has parts
}

// Len returns the number of distinct terms.
func (v *Vocabulary) Len() int { return v.ids.len() }

// Size returns the approximate size of the terms in bytes.
func (v *Vocabulary) Size() int { return v.ids.size() }

// Bytes returns the term with a number below Len. The bytes are shared and must not be modified.
func (v *Vocabulary) Bytes(id uint32) []byte { return v.ids.at(id) }

// Append appends the numbers of the terms of text to dst, in the order of Terms. New terms get new
// numbers. length is the number of terms without identifiers that have parts, so that these do not
// make a text count as longer. The error is ErrFull.
func (v *Vocabulary) Append(dst []uint32, text string) (ids []uint32, length int, err error) {
	v.ids.limit = v.Limit
	s := newScanner(text)
	for tok, kind := s.next(); kind != end; tok, kind = s.next() {
		sp, err := v.expand(tok, kind)
		if err != nil {
			v.forget() // some terms of the last token have no number
			return dst, length, err
		}
		dst = append(dst, v.flat[sp.off:sp.off+sp.n]...)
		length += int(sp.words)
	}
	return dst, length, nil
}

// expand returns the numbers of a token's terms. It does not cache tokens longer than a term, nor
// those whose terms depend on the sentence.
func (v *Vocabulary) expand(tok string, k kind) (span, error) {
	remember := len(tok) <= maxTerm && k != acronym
	if remember {
		id, isNew, err := v.tokens.add(tok)
		if err != nil {
			return span{}, err
		}
		if !isNew {
			return v.spans[id], nil
		}
	}
	if v.tokens.len() > maxCached || len(v.flat) > 8*maxCached {
		v.forget()
		return v.expand(tok, k)
	}
	sp, err := v.number(tok, k)
	if remember {
		v.spans = append(v.spans, sp)
	}
	return sp, err
}

// forget empties the cache of tokens.
func (v *Vocabulary) forget() {
	v.tokens.reset()
	v.spans, v.flat = v.spans[:0], v.flat[:0]
}

// number determines and numbers the terms of a token.
func (v *Vocabulary) number(tok string, k kind) (span, error) {
	v.terms = (*Recent)(nil).appendTerms(v.terms[:0], tok, k) // no Recent: v.tokens caches them
	n := uint32(len(v.terms))
	sp := span{off: uint32(len(v.flat)), n: n, words: n}
	if k == whole {
		sp.words = 0
	} else if n > 1 {
		sp.words = n - 1
	}
	for _, t := range v.terms {
		id, _, err := v.ids.add(t)
		if err != nil {
			return span{}, err
		}
		v.flat = append(v.flat, id)
	}
	return sp, nil
}
