package bm25

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sort"
)

// A posting is an occurrence of a term in a text: the text's ordinal in the upper bits, the
// frequency in the lower ones.
type posting uint32

const (
	freqBits = 15
	maxFreq  = 1<<freqBits - 1
)

// MaxTexts is the most texts of a segment: their ordinals must fit into the upper bits of a
// posting.
const MaxTexts = 1 << (32 - freqBits)

func (p posting) text() uint32  { return uint32(p >> freqBits) }
func (p posting) freq() float32 { return float32(p & maxFreq) }

// A Segment is up to MaxTexts texts in compressed sparse row form. Terms are numbered in the order
// of their bytes. All data is in the image it was opened from, which may be a mapped file: no
// reference to it may outlive the Segment, so methods that read it keep the Segment alive until
// they return.
type Segment struct {
	owner       any      // owns the memory of the image
	lengths     []uint32 // by text: number of terms, including repetitions
	postings    []posting
	starts      []uint32 // postings of term t: starts[t] to starts[t+1], by text
	fronts      []front
	frontStarts []uint32 // fronts of term t: frontStarts[t] to frontStarts[t+1]
	offsets     []uint32 // bytes of term t in strings: offsets[t] to offsets[t+1]
	strings     []byte
	heads       []uint64 // see headsOf
	speller     speller
}

// Len returns the number of texts, including dead ones.
func (s *Segment) Len() int { return len(s.lengths) }

// terms returns the number of distinct terms.
func (s *Segment) terms() int { return len(s.starts) - 1 }

// term returns the bytes of a term.
func (s *Segment) term(t uint32) []byte { return s.strings[s.offsets[t]:s.offsets[t+1]] }

// of returns the postings of a term.
func (s *Segment) of(t uint32) []posting { return s.postings[s.starts[t]:s.starts[t+1]] }

// headStep is the distance of terms with a head.
const headStep = 16

// headOf returns the first bytes of a term as a number: terms with different heads are in the
// order of their heads.
func headOf(term []byte) uint64 {
	var head [8]byte
	copy(head[:], term)
	return binary.BigEndian.Uint64(head[:])
}

// headsOf returns the heads of every headStep-th term. They stay in the processor's caches.
// Bisecting the terms themselves misses the caches at every step, which took a third of a search
// with ten terms in eight segments.
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

// firstHead returns the index of the first head that is not less. It bisects without a
// data-dependent branch, because half of these would be mispredicted.
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

// A Bitmap is a set of texts of one segment: text i is bit i%64 of word i/64. Texts beyond its end
// are not in it.
type Bitmap []uint64

// Add adds text to the set.
func (m *Bitmap) Add(text int) {
	for len(*m) <= text/64 {
		*m = append(*m, 0)
	}
	(*m)[text/64] |= 1 << (text % 64)
}

// AddRange adds the texts from first to end (exclusive) to the set.
func (m *Bitmap) AddRange(first, end int) {
	if first >= end {
		return
	}
	m.Add(end - 1) // extend it only once
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

// Has reports whether text is in the set.
func (m Bitmap) Has(text int) bool { return text/64 < len(m) && m[text/64]>>(text%64)&1 != 0 }

// Len returns the number of texts in the set.
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

// A Live is a segment some of whose texts may be dead. It is immutable.
type Live struct {
	segment *Segment
	dead    Bitmap   // nil if all are live
	before  []uint32 // number of live postings of all terms below t; the segment's starts if all are live
	texts   int      // number of live texts
	lengths uint64   // total length of the live texts
	totals  totals
}

// Live returns the segment without the dead texts. If there are any, it reads all postings once,
// in about 1 ns each, to count the live ones of every term.
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

// count returns how many live texts contain a term.
func (l *Live) count(t uint32) int { return int(l.before[t+1] - l.before[t]) }
