package model

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A track holds the samples of one key and the correction computed from them.
type track struct {
	value  atomic.Pointer[CalibrationValue] // the current correction; nil if none
	window atomic.Int64                     // context window observed at the upstream; 0 if unknown

	mu         sync.Mutex
	ring       []sample // oldest first, at most ringSize
	unmerged   int      // number of samples at the end of ring not merged yet
	lastMerged int      // number of new samples that the last merge returned
	served     served
}

// servedWindow returns the observed window, 0 if there is none. t may be nil.
func (t *track) servedWindow() int {
	if t == nil {
		return 0
	}
	return int(t.window.Load())
}

// inForce returns the current correction. t may be nil.
func (t *track) inForce() CalibrationValue {
	if t == nil {
		return CalibrationValue{}
	}
	if v := t.value.Load(); v != nil {
		return *v
	}
	return CalibrationValue{}
}

func (t *track) samples() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ring)
}

func (t *track) observe(s sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.window.Store(int64(t.served.observe(s, t.ring))) }()
	if s.absurd() {
		return
	}
	if len(t.ring) == ringSize {
		copy(t.ring, t.ring[1:])
		t.ring[ringSize-1] = s
	} else {
		t.ring = append(t.ring, s)
	}
	t.unmerged = min(t.unmerged+1, ringSize)
	t.publish(t.inForce())
}

// publish makes v the current correction if it is close to what the samples say now; otherwise it
// uses the value computed from the samples.
func (t *track) publish(v CalibrationValue) {
	if now := valueOf(t.ring); !v.closeTo(now) {
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
	old, news := t.ring[:len(t.ring)-t.unmerged], t.ring[len(t.ring)-t.unmerged:]
	ring := slices.Concat(subtract(old, samples), samples, news)
	t.ring = slices.Clone(ring[max(0, len(ring)-ringSize):])
	t.unmerged, t.lastMerged = 0, t.unmerged
	// If the other processes' value fits the samples it is adopted, so that all processes use the
	// same one.
	if theirs.valid() && theirs.closeTo(valueOf(t.ring)) {
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
	t.unmerged, t.lastMerged = min(t.unmerged+t.lastMerged, ringSize), 0
}

// subtract returns list without the samples that are in others. Of a sample that occurs several
// times, it keeps as many as list has more than others.
func subtract(list, others []sample) []sample {
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

// format is the version of the encoding, its first byte.
const format = 1

// encode serialises a value, which may be zero, and samples: the bits of both ratios, then
// varints with both offsets and, for each sample, its count and the difference of billed and
// counted.
func encode(v CalibrationValue, samples []sample) []byte {
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

// decode parses the output of encode. It drops absurd samples and keeps the newest that fit into
// a ring. It returns nothing for bytes in any other format. The value is not validated.
func decode(b []byte) (CalibrationValue, []sample) {
	const ratios = 1 + 2*8
	if len(b) < ratios || b[0] != format {
		return CalibrationValue{}, nil
	}
	v := CalibrationValue{
		Ratio:      math.Float64frombits(binary.LittleEndian.Uint64(b[1:])),
		RatioUpper: math.Float64frombits(binary.LittleEndian.Uint64(b[9:])),
	}
	rest, ok := b[ratios:], true
	number := func(read func([]byte) (int64, int)) int {
		n, size := read(rest)
		// encode never writes larger numbers, and their sums could overflow.
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
		return CalibrationValue{}, nil
	}
	return v, samples[max(0, len(samples)-ringSize):]
}

// uvarint is binary.Uvarint as an int64. A number too large for that becomes negative, which no
// count is.
func uvarint(b []byte) (int64, int) {
	n, size := binary.Uvarint(b)
	return int64(n), size
}
