package bm25

import "runtime"

// A Change is what makes an Index out of an earlier one: see Best. It is for one goroutine.
type Change struct {
	index  *Index
	fresh  []Bitmap         // by segment: the live texts that were not among those of the earlier Index
	number map[*Segment]int // of the segments in index
	growth float64          // how much more a text may score for the average length alone

	from    []origin          // by segment
	earlier map[string]*known // what the earlier Index knew of terms
	known   map[string]*known // what index knows of terms that were looked up since
}

// An origin is where a segment was in the earlier Index.
type origin struct {
	segment int  // its number, or -1
	same    bool // whether the same of its texts were live
}

func newChange(x *Index, average float64) *Change {
	c := &Change{
		index: x, fresh: make([]Bitmap, len(x.views)), number: make(map[*Segment]int, len(x.views)), growth: 1,
		from: make([]origin, len(x.views)), earlier: map[string]*known{}, known: map[string]*known{},
	}
	if average > 0 {
		// Norms are of the form a + b/average, so they fall by this at most, and impacts grow.
		c.growth = max(1, x.average/average)
	}
	for i, v := range x.views {
		c.number[v.segment], c.from[i] = i, origin{segment: -1}
	}
	return c
}

// Since returns what makes x of an earlier Index, nil where there was none. bests are of that
// Index: what it knew of their terms need not be looked up again.
func (x *Index) Since(before *Index, bests []Best) *Change {
	if before == nil {
		return nil
	}
	defer runtime.KeepAlive(before)
	c := newChange(x, before.average)
	for _, b := range bests {
		for _, t := range b.terms {
			c.earlier[t.term] = t.known
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
		for w, dead := range was.dead { // what came back to life, as with an older state of a store
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

// Move returns a Best of the earlier Index as one of the present, which must have the same
// texts. It is false where those that the Best keeps are no longer in the same segments.
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
