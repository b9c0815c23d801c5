package tokens

// A coder encodes texts one after another. It takes some 250 KB, and 50 bytes for each byte of a
// piece in the rare case that the piece's windows do not fit together.
type coder struct {
	*vocabulary
	n    int   // tokens counted so far
	ids  []int // their ids if keep is set, for tests
	keep bool

	recent []recentPiece

	tokens []uint32 // tokens of the piece or window, in order; while merging, at the offset of their first byte
	ranks  []uint32 // the token that each makes with the next one, or none
	prev   []int32  // offset of the previous token; next has that of the next
	next   []int32
	queue  queue
}

// A recentPiece caches a piece of up to 16 bytes that is not in the table of short tokens: the
// words of a text's topic recur often.
type recentPiece struct {
	low, high uint64 // its bytes
	size, n   uint8  // number of bytes and of tokens
}

const recentPieces = 1 << 10

func newCoder(v *vocabulary) *coder {
	return &coder{vocabulary: v, recent: make([]recentPiece, recentPieces)}
}

func (c *coder) token(id uint32) {
	c.n++
	if c.keep {
		c.ids = append(c.ids, int(id))
	}
}

func (c *coder) take(ids []uint32) {
	c.n += len(ids)
	if c.keep {
		for _, id := range ids {
			c.ids = append(c.ids, int(id))
		}
	}
}

// piece encodes the piece text[i:end], which must be UTF-8.
func (c *coder) piece(text string, i, end int) {
	low, high, size := uint64(0), uint64(0), end-i
	switch {
	case size <= inline:
		low = load(text, i, size)
		if id := c.findShort(low, size); id != none {
			c.token(id)
			return
		}
	case size <= 2*inline:
		low, high = load64(text[i:]), load64(text[end-inline:])>>(8*(2*inline-size))
	default:
		c.encode(text[i:end])
		return
	}
	r := &c.recent[spread(low^high*golden, recentPieces)]
	if r.low == low && r.high == high && int(r.size) == size && !c.keep {
		c.n += int(r.n)
		return
	}
	before := c.n
	c.encode(text[i:end])
	*r = recentPiece{low, high, uint8(size), uint8(c.n - before)}
}

// encode encodes a piece that is not cached.
func (c *coder) encode(piece string) {
	if id := c.find(piece); id != none {
		c.token(id)
		return
	}
	c.parts(piece)
}

// merge encodes a piece, or a part of one, by merging its bytes.
func (c *coder) merge(text string) {
	if len(text) > maxDirect {
		c.windows(text, mergeWindow, mergeOverlap)
		return
	}
	c.take(c.mergeDirect(text))
}
