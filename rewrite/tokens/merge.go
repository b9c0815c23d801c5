package tokens

const (
	// direct is up to how many bytes the pair to merge next is looked for by
	// looking at all of them: quadratic, but with the smallest steps.
	direct = 64
	// window is how many bytes of a longer piece are merged at a time.
	window = 4096
	// margin is how far before the end of a window the next one begins: what is
	// cut off there changes the tokens next to the cut.
	margin = 4 * maxToken
)

// begin sets up a token for each byte of piece.
func (c *coder) begin(piece string) {
	if n := len(piece); n > len(c.tokens) {
		n = max(n, direct)
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

// mergeDirect returns the tokens of piece.
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

// windows encodes a long piece window by window, in time linear in its length.
//
// A row of tokens is the encoding of its text if each two that stand together
// are the encoding of theirs (van Antwerpen and Neubeck, "So many tokens, so
// little time", github.blog, 2024). So encodings of overlapping windows can be
// joined at a token that both have, here the first of the later window. Where it
// is not the token that the earlier one has there, which takes a text that is
// made for it, the piece is merged as a whole, n log n.
func (c *coder) windows(piece string) {
	n, kept := c.n, len(c.ids)
	joint := uint32(none)
	for at := 0; ; {
		whole := len(piece)-at <= window
		tokens := c.mergeHeap(piece[at:min(len(piece), at+window)])
		if joint != none && tokens[0] != joint {
			break
		}
		if whole {
			c.take(tokens)
			return
		}
		i, size := 0, 0
		for size < window-margin {
			size += len(c.bytes(tokens[i]))
			i++
		}
		c.take(tokens[:i])
		joint, at = tokens[i], at+size
	}
	c.n, c.ids = n, c.ids[:kept]
	c.take(c.mergeHeap(piece))
}

// mergeHeap returns the tokens of piece.
func (c *coder) mergeHeap(piece string) []uint32 {
	c.begin(piece)
	size := int32(len(piece))
	if len(piece) > len(c.before) {
		c.before, c.after = make([]int32, size), make([]int32, size)
	}
	for i := range size {
		c.before[i], c.after[i] = i-1, i+1
	}
	c.heap = c.heap[:0]
	for i, r := range c.ranks[:size] {
		if r != none {
			c.heap = append(c.heap, uint64(r)<<32|uint64(i))
		}
	}
	for i := len(c.heap)/2 - 1; i >= 0; i-- {
		c.sink(i)
	}
	for len(c.heap) > 0 {
		top := c.heap[0]
		at, rank := int32(top&(1<<32-1)), uint32(top>>32)
		if c.ranks[at] != rank {
			c.drop()
			continue
		}
		gone := c.after[at]
		next, prev := c.after[gone], c.before[at]
		c.tokens[at], c.after[at] = rank, next
		c.ranks[gone], c.ranks[at] = none, none
		if next < size {
			c.before[next] = at
			c.ranks[at] = c.pair(rank, c.tokens[next])
		}
		// What at makes with the next, if anything, takes the place of the top.
		if r := c.ranks[at]; r != none {
			c.heap[0] = uint64(r)<<32 | uint64(at)
			c.sink(0)
		} else {
			c.drop()
		}
		if prev >= 0 {
			r := c.pair(c.tokens[prev], rank)
			c.ranks[prev] = r
			if r != none {
				c.push(uint64(r)<<32 | uint64(prev))
			}
		}
	}
	n := 0
	for at := int32(0); at < size; at = c.after[at] {
		c.tokens[n] = c.tokens[at]
		n++
	}
	return c.tokens[:n]
}

// drop takes the top off the heap.
func (c *coder) drop() {
	last := len(c.heap) - 1
	c.heap[0] = c.heap[last]
	c.heap = c.heap[:last]
	if last > 0 {
		c.sink(0)
	}
}

// sink moves the i-th of the heap down to its place.
func (c *coder) sink(i int) {
	h := c.heap
	v := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= v {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = v
}

// push adds v to the heap.
func (c *coder) push(v uint64) {
	c.heap = append(c.heap, v)
	h := c.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent] <= v {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = v
}
