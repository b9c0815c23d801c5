package model

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	ringSize = 64 // samples kept per key
	// minSamples is the number of samples that a correction needs.
	minSamples = 8
	maxNames   = 512
	// maxName is the length, in bytes, of the longest name that gets samples of its own.
	maxName = 128
)

// A CalibrationKey identifies what is calibrated. Upstream and Row (of the model table) have few
// values. Name is the model as requests name it; "" pools the names of a row that have no samples
// of their own. Each tenant is calibrated by its own answers only, so that one tenant cannot
// narrow another one's window.
type CalibrationKey struct{ Tenant, Upstream, Row, Name string }

func (k CalibrationKey) compare(other CalibrationKey) int {
	return cmp.Or(cmp.Compare(k.Upstream, other.Upstream), cmp.Compare(k.Row, other.Row), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Tenant, other.Tenant))
}

// A CalibrationEntry is the state of a key.
type CalibrationEntry struct {
	CalibrationKey
	Value   CalibrationValue // zero with fewer than 8 samples
	Samples int              // number of samples it is based on, at most 64
}

// A Tracker keeps the newest samples of each key. It is safe for concurrent use.
//
// Names come from clients, so at most 512 have samples of their own. Samples of other names, and
// of names longer than 128 bytes, are pooled by tenant, upstream and row.
type Tracker struct {
	mu    sync.Mutex // held while a key is added
	table atomic.Pointer[table]
}

// A table is immutable; to add a key, it is replaced by a larger copy.
type table struct {
	tracks map[CalibrationKey]*track
	names  int
}

// NewTracker returns an empty Tracker.
func NewTracker() *Tracker {
	t := &Tracker{}
	t.table.Store(&table{})
	return t
}

// find returns the track of k, nil if there is none, and the key under which it is stored: k, or
// k without its name if names are pooled.
func (t *table) find(k CalibrationKey) (*track, CalibrationKey) {
	if len(k.Name) <= maxName {
		if known := t.tracks[k]; known != nil || t.names < maxNames {
			return known, k
		}
	}
	k.Name = ""
	return t.tracks[k], k
}

// add returns the track of k and creates it if there is none.
func (t *Tracker) add(k CalibrationKey) *track {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.table.Load()
	known, k := old.find(k)
	if known != nil {
		return known
	}
	// The name may be a part of a request's body; a clone does not keep that in memory.
	k.Name = strings.Clone(k.Name)
	now := &table{tracks: maps.Clone(old.tracks), names: old.names}
	if now.tracks == nil {
		now.tracks = map[CalibrationKey]*track{}
	}
	if k.Name != "" {
		now.names++
	}
	known = &track{}
	now.tracks[k] = known
	t.table.Store(now)
	return known
}

// Observe records an answer: the tokens counted for the whole request, and those billed as
// usage.prompt_tokens. It returns false for impossible samples, which it only uses to detect the
// window that the upstream serves: nothing counted or billed, more than 100 million billed, more
// billed than eight times the count plus 4096, or less than an eighth of the count.
func (t *Tracker) Observe(k CalibrationKey, counted, billed int) bool {
	s := sample{counted, billed}
	if s.absurd() && !s.cut() {
		return false
	}
	known, _ := t.table.Load().find(k)
	if known == nil {
		known = t.add(k)
	}
	known.observe(s)
	return !s.absurd()
}

// Window returns the context window observed at the upstream of k, which truncates longer
// prompts; 0 is unknown. Each process learns it from its own answers. It takes no lock and does
// not allocate.
func (t *Tracker) Window(k CalibrationKey) int {
	known, _ := t.table.Load().find(k)
	return known.servedWindow()
}

// Correction returns the current correction for k. It takes no lock and does not allocate.
func (t *Tracker) Correction(k CalibrationKey) CalibrationValue {
	known, _ := t.table.Load().find(k)
	return known.inForce()
}

// All returns the state of every key, sorted by upstream, row, name and tenant.
func (t *Tracker) All() []CalibrationEntry {
	tracks := t.table.Load().tracks
	all := make([]CalibrationEntry, 0, len(tracks))
	for k, known := range tracks {
		all = append(all, CalibrationEntry{CalibrationKey: k, Value: known.inForce(), Samples: known.samples()})
	}
	slices.SortFunc(all, func(a, b CalibrationEntry) int { return a.compare(b.CalibrationKey) })
	return all
}

// Merge combines the samples of k, a key from All, with shared, the bytes written for it by other
// processes (nil if none). It returns the bytes to write back, and whether they differ from
// shared: the shared samples followed by this process's new ones, the newest 64 of them. From
// then on they are this process's samples, too. Replicas that merge in turn converge to the same
// samples and the same correction.
//
// A store may lose a write, and writes may cross. So older samples of this process that shared
// lacks are put in front. Bytes in another format are ignored.
func (t *Tracker) Merge(k CalibrationKey, shared []byte) (merged []byte, changed bool) {
	known := t.table.Load().tracks[k]
	if known == nil {
		return nil, false
	}
	return known.merge(shared)
}

// Unwritten reports that the result of the last Merge of k could not be written. Its new samples
// count as new again, so that the next Merge offers them again. Otherwise a store that is
// temporarily read-only would lose them for the other processes.
func (t *Tracker) Unwritten(k CalibrationKey) {
	if known := t.table.Load().tracks[k]; known != nil {
		known.unwritten()
	}
}

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

// A CalibrationValue relates the tokens that an upstream bills to those counted. The zero value
// is no correction, as there were too few answers. The first of each pair is the median of the
// answers, the second an upper bound that few honest answers exceed.
type CalibrationValue struct {
	// Billed tokens per counted token, from 0.5 to 4, over requests of at least 200 tokens;
	// RatioUpper is at least 1. With fewer than 8 such requests the ratio is unknown: Ratio is 1
	// and RatioUpper 0.
	Ratio, RatioUpper float64
	// Billed minus counted tokens, over all requests; negative if less is billed than counted.
	Offset, OffsetUpper int
}

const (
	// ratioFrom is the least count that is used for a ratio: in shorter requests the fixed text
	// that an upstream puts before every prompt would look like a ratio.
	ratioFrom          = 200
	minRatio, maxRatio = 0.5, 4.0
	minMargin          = 1.01 // RatioUpper is at least Ratio times this
	// minUpper is the least RatioUpper. One caller's texts may be billed at less than their
	// count, by chance or on purpose; the next caller's texts need not be.
	minUpper = 1.0
)

// A value stays current until the one computed from the samples differs by more than a step: the
// constants here, or spreadPart of the distance between its median and its bound if that is more.
// Otherwise wide bounds would move with each sample that comes or goes.
const (
	ratioStep  = 0.02
	offsetStep = 2.0
	spreadPart = 0.25
)

// A sample is one answer: the tokens counted for its request and those billed.
type sample struct{ counted, billed int }

// maxBilled is the largest bill accepted.
const maxBilled = 100_000_000

// absurd reports whether a sample is impossible, so that it says nothing about how the upstream
// counts.
func (s sample) absurd() bool {
	const most, slack = 8, 4096
	return s.counted <= 0 || s.billed < 1 || s.billed > maxBilled ||
		most*s.billed < s.counted || s.billed > most*s.counted+slack
}

// valueOf computes the value from at most ringSize samples, in any order.
func valueOf(samples []sample) CalibrationValue {
	if len(samples) < minSamples {
		return CalibrationValue{}
	}
	offsets, ratios := make([]float64, 0, ringSize), make([]float64, 0, ringSize) // on the stack
	for _, s := range samples {
		offsets = append(offsets, float64(s.billed-s.counted))
		if s.counted >= ratioFrom {
			ratios = append(ratios, float64(s.billed)/float64(s.counted))
		}
	}
	offset, upper := robust(offsets)
	v := CalibrationValue{Ratio: 1, Offset: int(math.Round(offset)), OffsetUpper: int(math.Ceil(upper))}
	if len(ratios) >= minSamples {
		ratio, upper := robust(ratios)
		v.Ratio = min(max(ratio, minRatio), maxRatio)
		v.RatioUpper = min(max(upper, v.Ratio*minMargin, minUpper), maxRatio)
	}
	return v
}

// Within returns v with its offsets capped at limit tokens. An answer may report any bill, and
// tokens reserved for the offset are lost to everything else.
func (v CalibrationValue) Within(limit int) CalibrationValue {
	v.OffsetUpper = min(v.OffsetUpper, limit)
	v.Offset = min(v.Offset, limit)
	return v
}

// valid reports whether v is a value that valueOf can return.
func (v CalibrationValue) valid() bool {
	known := v.Ratio >= minRatio && v.RatioUpper >= max(v.Ratio, minUpper) && v.RatioUpper <= maxRatio
	unknown := v.Ratio == 1 && v.RatioUpper == 0
	return (known || unknown) && v.OffsetUpper >= v.Offset
}

// closeTo reports whether v is within a step of now, the value computed from the samples, so that
// it may stay current. It is false for NaN.
func (v CalibrationValue) closeTo(now CalibrationValue) bool {
	if (v == CalibrationValue{}) || (now == CalibrationValue{}) || (v.RatioUpper == 0) != (now.RatioUpper == 0) {
		return v == now
	}
	spread := spreadPart * (now.RatioUpper - now.Ratio)
	within := func(a, b float64) bool { return math.Abs(a-b) <= max(ratioStep*b, spread) }
	step := max(offsetStep, spreadPart*float64(now.OffsetUpper-now.Offset))
	beside := func(a, b int) bool { return math.Abs(float64(a)-float64(b)) <= step }
	return within(v.Ratio, now.Ratio) && within(v.RatioUpper, now.RatioUpper) &&
		beside(v.Offset, now.Offset) && beside(v.OffsetUpper, now.OffsetUpper)
}

// median sorts the numbers and returns their median.
func median(numbers []float64) float64 {
	slices.Sort(numbers)
	n := len(numbers)
	return (numbers[(n-1)/2] + numbers[n/2]) / 2
}

// robust returns the median and the median plus three robust standard deviations; it modifies
// numbers. 1.4826 times the median absolute deviation estimates the standard deviation if the
// honest numbers are normally distributed. If fewer than half of the numbers are outliers,
// neither result leaves the range of the others (Hampel 1974; Leys et al. 2013).
func robust(numbers []float64) (middle, upper float64) {
	const deviations, normal = 3, 1.4826
	middle = median(numbers)
	for i, n := range numbers {
		numbers[i] = math.Abs(n - middle)
	}
	return middle, middle + deviations*normal*median(numbers)
}
