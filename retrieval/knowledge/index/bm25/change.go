package bm25

import "runtime"

// A Change is the difference between an earlier Index and a later one, see Best. It is not safe
// for concurrent use.
type Change struct {
	index  *Index
	fresh  []Bitmap         // by segment: the live texts that were not live in the earlier Index
	number map[*Segment]int // of the segments in index
	growth float64          // factor by which scores may have grown because of the average length

	from    []origin              // by segment
	earlier map[string]*termStats // what the earlier Index knew about terms
	known   map[string]*termStats // what index knows about terms looked up since
}

// An origin describes a segment in the earlier Index.
type origin struct {
	segment int  // its number, or -1
	same    bool // whether the same texts were live
}

func newChange(x *Index, average float64) *Change {
	c := &Change{
		index: x, fresh: make([]Bitmap, len(x.views)), number: make(map[*Segment]int, len(x.views)), growth: 1,
		from: make([]origin, len(x.views)), earlier: map[string]*termStats{}, known: map[string]*termStats{},
	}
	if average > 0 {
		// Norms have the form a + b/average, so they fall by at most this factor, and impacts grow
		// by it.
		c.growth = max(1, x.average/average)
	}
	for i, v := range x.views {
		c.number[v.segment], c.from[i] = i, origin{segment: -1}
	}
	return c
}

// Since returns the change from an earlier Index to x; nil for nil. bests belong to the earlier
// Index: what it knew about their terms is reused.
func (x *Index) Since(before *Index, bests []Best) *Change {
	if before == nil {
		return nil
	}
	defer runtime.KeepAlive(before)
	c := newChange(x, before.average)
	for _, b := range bests {
		for _, t := range b.terms {
			c.earlier[t.term] = t.termStats
		}
	}
	numbers := make(map[*Segment]int, len(before.views))
	for i, v := range before.views {
		numbers[v.segment] = i
	}
	for i, v := range x.views {
		n, here := numbers[v.segment]
		if !here {
			c.fresh[i].AddRange(0, v.segment.Len())
			continue
		}
		was := before.views[n].Live
		c.from[i] = origin{n, was == v.Live}
		for w, dead := range was.dead { // texts that are live again, as with an older state of a store
			if back := dead &^ v.dead.word(w); back != 0 {
				if c.fresh[i] == nil {
					c.fresh[i] = make(Bitmap, len(was.dead))
				}
				c.fresh[i][w] = back
			}
		}
	}
	return c
}

// Move converts a Best of the earlier Index to the later one, which must have the same texts. It
// returns false if the texts of the Best are not in the same segments any more.
func (c *Change) Move(b *Best) (Best, bool) {
	for _, k := range b.texts {
		if i, here := c.number[k.segment]; !here || c.index.views[i].dead.Has(k.text) {
			return Best{}, false
		}
	}
	moved := *b
	moved.terms = make(question, len(b.terms))
	for i, t := range b.terms {
		moved.terms[i] = weightedTerm{c.index.look(t.term, c), t.factor}
	}
	return moved, true
}
