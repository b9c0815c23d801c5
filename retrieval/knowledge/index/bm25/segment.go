package bm25

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sort"
)

// A posting says that a text has a term: the text's ordinal in its segment in
// the upper bits, how often in the lower ones.
type posting uint32

const (
	freqBits = 15
	maxFreq  = 1<<freqBits - 1
)

// MaxTexts is how many texts a segment holds at most: their ordinals fill the
// upper bits of a posting.
const MaxTexts = 1 << (32 - freqBits)

func (p posting) text() uint32  { return uint32(p >> freqBits) }
func (p posting) freq() float32 { return float32(p & maxFreq) }

// A Segment is up to MaxTexts texts in compressed sparse row form. Terms are
// numbered in the order of their bytes. Everything lies in the image it was
// opened from, which may be a mapped file: nothing taken from it may outlive the
// Segment, so methods that read it keep the Segment alive to their end.
type Segment struct {
	owner       any      // keeps the memory of the image
	lengths     []uint32 // terms by text, repeats included
	postings    []posting
	starts      []uint32 // postings of term t: starts[t] to starts[t+1], by text
	fronts      []front
	frontStarts []uint32 // likewise
	offsets     []uint32 // bytes of term t in strings: offsets[t] to offsets[t+1]
	strings     []byte
	heads       []uint64 // see headsOf
}

// Len returns the number of texts, dead ones included.
func (s *Segment) Len() int { return len(s.lengths) }

// terms returns the number of different terms.
func (s *Segment) terms() int { return len(s.starts) - 1 }

// term returns the bytes of a term.
func (s *Segment) term(t uint32) []byte { return s.strings[s.offsets[t]:s.offsets[t+1]] }

// of returns the postings of a term.
func (s *Segment) of(t uint32) []posting { return s.postings[s.starts[t]:s.starts[t+1]] }

// headStep is how many terms lie between two that have a head.
const headStep = 16

// headOf returns the first bytes of a term: of two terms with different heads that
// with the lesser one comes first.
func headOf(term []byte) uint64 {
	var head [8]byte
	copy(head[:], term)
	return binary.BigEndian.Uint64(head[:])
}

// headsOf returns the heads of every headStep-th term. Binary search over the terms
// themselves misses the processor's caches at every step, which with ten terms in
// eight segments was a third of a search; the heads stay there.
func (s *Segment) headsOf() []uint64 {
	heads := make([]uint64, (s.terms()+headStep-1)/headStep)
	for i := range heads {
		heads[i] = headOf(s.term(uint32(i * headStep)))
	}
	return heads
}

// find returns the number of a term.
func (s *Segment) find(term string) (t uint32, ok bool) {
	head := headOf([]byte(term[:min(len(term), 8)]))
	from := s.firstHead(head)
	to := from
	if from < len(s.heads) && s.heads[from] == head {
		to += sort.Search(len(s.heads)-from, func(i int) bool { return s.heads[from+i] > head })
	}
	t = s.lowerBound(term, uint32(max(0, from-1)*headStep), uint32(min(to*headStep, s.terms())))
	return t, int(t) < s.terms() && string(s.term(t)) == term
}

// firstHead returns the first head that is not less. It halves what is left without a branch
// that depends on what is compared: half of these would be mispredicted.
func (s *Segment) firstHead(head uint64) int {
	at, left := 0, len(s.heads)
	for left > 0 {
		half := (left + 1) / 2
		next := at
		if s.heads[at+half-1] < head {
			next = at + half
		}
		at = next
		left -= half
	}
	return at
}

// lowerBound returns the first of the terms lo to hi that is not less than term, or hi.
func (s *Segment) lowerBound(term string, lo, hi uint32) uint32 {
	return lo + uint32(sort.Search(int(hi-lo), func(i int) bool { return string(s.term(lo+uint32(i))) >= term }))
}

// A Bitmap is a set of texts of one segment, text i by bit i%64 of word i/64.
// Texts beyond its end are not in it.
type Bitmap []uint64

// Add puts text into the set.
func (m *Bitmap) Add(text int) {
	for len(*m) <= text/64 {
		*m = append(*m, 0)
	}
	(*m)[text/64] |= 1 << (text % 64)
}

// AddRange puts the texts from first to before end into the set.
func (m *Bitmap) AddRange(first, end int) {
	if first >= end {
		return
	}
	m.Add(end - 1) // the longest that it gets
	for word := first / 64; word <= (end-1)/64; word++ {
		in := ^uint64(0)
		if word == first/64 {
			in &= ^uint64(0) << (first % 64)
		}
		if word == (end-1)/64 {
			in &= ^uint64(0) >> (63 - (end-1)%64)
		}
		(*m)[word] |= in
	}
}

// Has tells whether text is in the set.
func (m Bitmap) Has(text int) bool { return text/64 < len(m) && m[text/64]>>(text%64)&1 != 0 }

// Len returns how many texts are in the set.
func (m Bitmap) Len() (n int) {
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// word returns a word, 0 beyond the end.
func (m Bitmap) word(i int) uint64 {
	if i < len(m) {
		return m[i]
	}
	return 0
}

// A Live is a segment some texts of which may be dead. What it says never changes.
type Live struct {
	segment *Segment
	dead    Bitmap   // nil if all live
	before  []uint32 // live postings of all terms below t; the segment's starts if all live
	texts   int      // live
	lengths uint64   // of these, added up
	totals  totals
}

// Live returns the segment without the dead texts. Where there are any it reads
// all postings once, about 1 ns each, to count what is left of every term.
func (s *Segment) Live(dead Bitmap) *Live {
	l := &Live{segment: s, before: s.starts, totals: newTotals(len(s.postings))}
	mask := make(Bitmap, (len(s.lengths)+63)/64)
	copy(mask, dead)
	for text, n := range s.lengths {
		if !mask.Has(text) {
			l.texts++
			l.lengths += uint64(n)
		}
	}
	if l.texts < len(s.lengths) {
		l.dead, l.before = mask, s.liveBefore(mask)
	}
	runtime.KeepAlive(s)
	return l
}

// liveBefore counts the live postings of all terms below each. dead covers all texts.
func (s *Segment) liveBefore(dead Bitmap) []uint32 {
	before := make([]uint32, len(s.starts))
	n := uint32(0)
	for t := range s.terms() {
		for _, p := range s.of(uint32(t)) {
			n += 1 - uint32(dead[p.text()/64]>>(p.text()%64)&1)
		}
		before[t+1] = n
	}
	return before
}

// Len returns the number of live texts.
func (l *Live) Len() int { return l.texts }

// count returns how many live texts have a term.
func (l *Live) count(t uint32) int { return int(l.before[t+1] - l.before[t]) }
