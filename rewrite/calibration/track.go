package calibration

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A track is what is known of one key.
type track struct {
	value atomic.Pointer[Value] // in force; nil is none

	mu   sync.Mutex
	ring []sample // oldest first, at most ringSize
	news int      // of them, from the end: not merged yet
	sent int      // how many the last merge gave away
}

// inForce is for a nil track, too.
func (t *track) inForce() Value {
	if t == nil {
		return Value{}
	}
	if v := t.value.Load(); v != nil {
		return *v
	}
	return Value{}
}

func (t *track) samples() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ring)
}

func (t *track) observe(s sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) == ringSize {
		copy(t.ring, t.ring[1:])
		t.ring[ringSize-1] = s
	} else {
		t.ring = append(t.ring, s)
	}
	t.news = min(t.news+1, ringSize)
	t.publish(t.inForce())
}

// publish puts a Value in force if it can be: else what the samples say.
func (t *track) publish(v Value) {
	if now := valueOf(t.ring); !v.near(now) {
		v = now
	}
	if v != t.inForce() {
		t.value.Store(&v)
	}
}

func (t *track) merge(shared []byte) (merged []byte, changed bool) {
	theirs, samples := decode(shared)
	t.mu.Lock()
	defer t.mu.Unlock()
	old, news := t.ring[:len(t.ring)-t.news], t.ring[len(t.ring)-t.news:]
	ring := slices.Concat(without(old, samples), samples, news)
	t.ring = slices.Clone(ring[max(0, len(ring)-ringSize):])
	t.news, t.sent = 0, t.news
	// The Value of others goes first where it is as good: all are to have the same.
	if theirs.valid() && theirs.near(valueOf(t.ring)) {
		t.publish(theirs)
	} else {
		t.publish(t.inForce())
	}
	merged = encode(t.inForce(), t.ring)
	return merged, !bytes.Equal(merged, shared)
}

func (t *track) unwritten() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news, t.sent = min(t.news+t.sent, ringSize), 0
}

// without returns the samples of list that are not in others, each as often as it
// is there more often.
func without(list, others []sample) []sample {
	there := map[sample]int{}
	for _, s := range others {
		there[s]++
	}
	var left []sample
	for _, s := range list {
		if there[s]--; there[s] < 0 {
			left = append(left, s)
		}
	}
	return left
}

// format is the version of what encode writes, its first byte.
const format = 1

// encode writes a Value, which may be zero, and samples: the bits of the ratios,
// then varints, of each sample what was counted and what was billed beyond it.
func encode(v Value, samples []sample) []byte {
	b := make([]byte, 0, 32+6*len(samples))
	b = append(b, format)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Ratio))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.RatioUpper))
	b = binary.AppendVarint(b, int64(v.Offset))
	b = binary.AppendVarint(b, int64(v.OffsetUpper))
	for _, s := range samples {
		b = binary.AppendUvarint(b, uint64(s.counted))
		b = binary.AppendVarint(b, int64(s.billed-s.counted))
	}
	return b
}

// decode returns what encode wrote: no more than the newest samples that fit into a
// ring, without absurd ones. Of anything else it returns nothing. The Value may be
// anything.
func decode(b []byte) (Value, []sample) {
	const ratios = 1 + 2*8
	if len(b) < ratios || b[0] != format {
		return Value{}, nil
	}
	v := Value{
		Ratio:      math.Float64frombits(binary.LittleEndian.Uint64(b[1:])),
		RatioUpper: math.Float64frombits(binary.LittleEndian.Uint64(b[9:])),
	}
	rest, ok := b[ratios:], true
	number := func(read func([]byte) (int64, int)) int {
		n, size := read(rest)
		// Larger ones are in nothing that we write, and could not be added up.
		if size <= 0 || n > math.MaxInt32 || n < math.MinInt32 {
			rest, ok = nil, false
			return 0
		}
		rest = rest[size:]
		return int(n)
	}
	v.Offset, v.OffsetUpper = number(binary.Varint), number(binary.Varint)
	var samples []sample
	for len(rest) > 0 {
		s := sample{counted: number(uvarint)}
		s.billed = s.counted + number(binary.Varint)
		if !s.absurd() {
			samples = append(samples, s)
		}
	}
	if !ok {
		return Value{}, nil
	}
	return v, samples[max(0, len(samples)-ringSize):]
}

// uvarint is binary.Uvarint, with what is too large for an int64 below 0, where
// nothing that was counted is.
func uvarint(b []byte) (int64, int) {
	n, size := binary.Uvarint(b)
	return int64(n), size
}
