package tokens

import (
	"math/bits"
)

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

const (
	// maxDirect is the length in bytes up to which the next pair to merge is found by scanning
	// all pairs: that is quadratic, but faster than a queue for short pieces.
	maxDirect = 64
	// mergeWindow is how many bytes of a longer piece are merged at a time.
	mergeWindow = 4096
	// mergeOverlap is the overlap of two windows in bytes, because tokens near the end of a
	// window depend on what follows.
	mergeOverlap = 4 * maxToken
)

// begin creates a token for each byte of piece.
func (c *coder) begin(piece string) {
	if n := len(piece); n > len(c.tokens) {
		n = max(n, maxDirect)
		c.tokens, c.ranks = make([]uint32, n), make([]uint32, n)
	}
	tokens, ranks := c.tokens[:len(piece)], c.ranks[:len(piece)]
	last := len(piece) - 1
	for i := range last {
		tokens[i] = c.single[piece[i]]
		ranks[i] = c.two[int(piece[i])<<8|int(piece[i+1])]
	}
	tokens[last], ranks[last] = c.single[piece[last]], none
}

// mergeDirect returns the tokens of a short piece.
func (c *coder) mergeDirect(piece string) []uint32 {
	c.begin(piece)
	tokens, ranks := c.tokens[:len(piece)], c.ranks[:len(piece)]
	for {
		least := uint32(none)
		for _, r := range ranks {
			least = min(least, r)
		}
		if least == none {
			return tokens
		}
		at := 0
		for ranks[at] != least {
			at++
		}
		tokens[at] = least
		last := len(tokens) - 1
		for i := at + 1; i < last; i++ {
			tokens[i], ranks[i] = tokens[i+1], ranks[i+1]
		}
		tokens, ranks = tokens[:last], ranks[:last]
		ranks[at] = none
		if at+1 < last {
			ranks[at] = c.pair(least, tokens[at+1])
		}
		if at > 0 {
			ranks[at-1] = c.pair(tokens[at-1], least)
		}
	}
}

// windows encodes a long piece window by window, in linear time and little memory.
//
// A row of tokens is the encoding of its text if each two neighbours are the encoding of their
// own text (van Antwerpen and Neubeck, "So many tokens, so little time", github.blog, 2024). So
// the encodings of two overlapping windows can be joined at a token that both have; here that is
// the first token of the later window. If the earlier window has another token there, which
// happens only in texts made for it, the piece is merged as a whole. No token is longer than
// mergeWindow - mergeOverlap.
func (c *coder) windows(piece string, window, margin int) {
	n, kept := c.n, len(c.ids)
	if !c.joined(piece, window, margin) {
		c.n, c.ids = n, c.ids[:kept]
		c.take(c.mergeQueued(piece))
	}
}

// joined encodes piece by windows and reports whether they fit together.
func (c *coder) joined(piece string, window, margin int) bool {
	joint := uint32(none)
	var tokens []uint32
	last := ""
	for {
		if text := piece[:min(len(piece), window)]; text != last { // otherwise the tokens are the same, as in a run of one character
			tokens, last = c.mergeQueued(text), text
		}
		if joint != none && tokens[0] != joint {
			return false
		}
		if len(piece) <= window {
			c.take(tokens)
			return true
		}
		i, size := 0, 0
		for size < window-margin && i < len(tokens)-1 {
			size += len(c.bytes(tokens[i]))
			i++
		}
		c.take(tokens[:i])
		joint, piece = tokens[i], piece[size:]
	}
}

// mergeQueued returns the tokens of piece, using a queue of merges.
func (c *coder) mergeQueued(piece string) []uint32 {
	c.begin(piece)
	size := int32(len(piece))
	if len(piece) > len(c.prev) {
		c.prev, c.next = make([]int32, size), make([]int32, size)
	}
	for i := range size {
		c.prev[i], c.next[i] = i-1, i+1
	}
	c.queue.reset()
	for i, r := range c.ranks[:size] {
		if r != none {
			c.queue.push(r, int32(i))
		}
	}
	for {
		batch, rank := c.queue.next(c.ranks)
		if rank == none {
			break
		}
		for _, e := range batch {
			if at := e.at; c.ranks[at] == rank {
				c.join(at, rank, size)
			}
		}
	}
	n := 0
	for at := int32(0); at < size; at = c.next[at] {
		c.tokens[n] = c.tokens[at]
		n++
	}
	return c.tokens[:n]
}

// join merges the token at offset at and the next one into id.
func (c *coder) join(at int32, id uint32, size int32) {
	gone := c.next[at]
	next, prev := c.next[gone], c.prev[at]
	c.tokens[at], c.next[at] = id, next
	c.ranks[gone], c.ranks[at] = none, none
	if next < size {
		c.prev[next] = at
		if r := c.pair(id, c.tokens[next]); r != none {
			c.ranks[at] = r
			c.queue.push(r, at)
		}
	}
	if prev >= 0 {
		r := c.pair(c.tokens[prev], id)
		if c.ranks[prev] = r; r != none {
			c.queue.push(r, prev)
		}
	}
}

// A queue holds the possible merges by rank. It is a radix heap (Ahuja, Mehlhorn, Orlin and
// Tarjan, "Faster algorithms for the shortest path problem", 1990), which allows no push of a
// lower rank than the last one taken. That holds because a token has a higher id than its halves.
//
// Merges of one rank come out in the order in which they were pushed, which is the order of the
// text: all of them make the same token, and all become possible when its higher half is made, in
// one batch from left to right.
type queue struct {
	buckets [idBits + 1][]merge // by the highest bit in which rank and last differ
	filled  uint32              // bit b: buckets[b] is not empty
	last    uint32              // rank of the batch taken last
}

type merge struct {
	rank uint32
	at   int32
}

func (q *queue) reset() {
	for i := range q.buckets {
		q.buckets[i] = q.buckets[i][:0]
	}
	q.filled, q.last = 0, 0
}

func (q *queue) push(rank uint32, at int32) {
	b := bits.Len32(rank ^ q.last)
	q.buckets[b] = append(q.buckets[b], merge{rank, at})
	q.filled |= 1 << b
}

// next removes all merges of the lowest rank and returns them with that rank; the rank is none if
// the queue is empty. It omits most, but not all, merges that are outdated according to ranks.
func (q *queue) next(ranks []uint32) ([]merge, uint32) {
	q.buckets[0] = q.buckets[0][:0]
	q.filled &^= 1
	for q.filled != 0 {
		b := bits.TrailingZeros32(q.filled)
		q.filled &^= 1 << b
		bucket := q.buckets[b]
		q.buckets[b] = bucket[:0]
		least := uint32(none)
		for _, m := range bucket {
			if ranks[m.at] == m.rank {
				least = min(least, m.rank)
			}
		}
		if least == none {
			continue
		}
		q.last = least
		for _, m := range bucket { // each moves to a lower bucket
			if ranks[m.at] == m.rank {
				q.push(m.rank, m.at)
			}
		}
		return q.buckets[0], least
	}
	return nil, none
}
