package tokens

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// A kind is a class of runes that the patterns of the pre-tokenizers distinguish. Each is one
// bit, so that kinds can be combined. The end of a text has none.
type kind uint8

const (
	upper     kind = 1 << iota // \p{Lu} \p{Lt}
	lower                      // \p{Ll}
	caseless                   // \p{Lm} \p{Lo}, which count as upper and as lower case
	combining                  // \p{M}
	number                     // \p{N}
	blank                      // \s without line breaks
	lineBreak                  // \r \n
	symbol                     // everything else; also U+FFFD for an invalid byte

	letters = upper | lower | caseless
	large   = upper | caseless | combining
	small   = lower | caseless | combining
	spaces  = blank | lineBreak
	signs   = symbol | combining // [^\s\p{L}\p{N}]
)

// kinds holds the kind of each rune, in pages of 256, with equal pages stored once: 40 KB. They
// follow the Unicode version of Go, as the reference does.
type kinds struct {
	ascii [256]kind // 0 for bytes that are not ASCII
	pages [(unicode.MaxRune + 1) >> 8]uint8
	runes []kind
}

// runes returns the kinds, which are computed at the first call.
var runes = sync.OnceValue(newKinds)

func newKinds() *kinds {
	all := make([]kind, unicode.MaxRune+1)
	fill(all, 0, unicode.MaxRune, 1, symbol)
	for _, row := range []struct {
		table *unicode.RangeTable
		kind  kind
	}{
		{unicode.Lu, upper},
		{unicode.Lt, upper},
		{unicode.Ll, lower},
		{unicode.Lm, caseless},
		{unicode.Lo, caseless},
		{unicode.M, combining},
		{unicode.N, number},
		{unicode.White_Space, blank},
	} {
		for _, r := range row.table.R16 {
			fill(all, rune(r.Lo), rune(r.Hi), rune(r.Stride), row.kind)
		}
		for _, r := range row.table.R32 {
			fill(all, rune(r.Lo), rune(r.Hi), rune(r.Stride), row.kind)
		}
	}
	all['\r'], all['\n'] = lineBreak, lineBreak

	k := &kinds{}
	copy(k.ascii[:utf8.RuneSelf], all)
	seen := map[[256]kind]uint8{}
	for i := range k.pages {
		page := [256]kind(all[i<<8:])
		at, ok := seen[page]
		if !ok {
			at = uint8(len(seen))
			seen[page] = at
			k.runes = append(k.runes, page[:]...)
		}
		k.pages[i] = at
	}
	return k
}

func fill(all []kind, low, high, stride rune, k kind) {
	for r := low; r <= high; r += stride {
		all[r] = k
	}
}

func (k *kinds) of(r rune) kind { return k.runes[int(k.pages[r>>8])<<8|int(r&0xff)] }

// at returns the kind and size of the rune of text at i; 0, 0 at the end.
func (k *kinds) at(text string, i int) (kind, int) {
	if i >= len(text) {
		return 0, 0
	}
	if b := text[i]; b < utf8.RuneSelf {
		return k.ascii[b], 1
	}
	return k.wide(text, i)
}

func (k *kinds) wide(text string, i int) (kind, int) {
	r, size := utf8.DecodeRuneInString(text[i:])
	return k.of(r), size
}

// run returns the end of the run of runes of the given kinds that begins at i.
func (k *kinds) run(text string, i int, of kind) int {
	for i < len(text) {
		if k.ascii[text[i]]&of != 0 {
			i++
			continue
		}
		if text[i] < utf8.RuneSelf {
			return i
		}
		found, size := k.wide(text, i)
		if found&of == 0 {
			return i
		}
		i += size
	}
	return i
}
