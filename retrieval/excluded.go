package retrieval

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// ExcludedSource converts an excluded candidate to a source without text.
func ExcludedSource(x *Excluded) Source {
	src := Source{
		Type: typeRAG, Knowledge: x.Knowledge, Doc: x.Doc, Chunk: x.Chunk, Name: x.Name, Section: x.Section,
		Score: x.Score, Relevance: x.Relevance, Strength: x.Strength, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore, At: x.At,
	}
	if x.GradeScore != nil {
		src.Grade = GradeIrrelevant
	}
	return src
}

// DuplicateOf reports whether x was excluded as a duplicate of s.
func DuplicateOf(x *Excluded, s *Source) bool { return x.DuplicateOf(s.Knowledge, s.Doc, s.Chunk) }

// ExcludedList holds the candidates of a search that are not among its sources, in order. A search
// excludes dozens of candidates that are seldom looked at, so they are encoded once, as bytes that
// results, caches and reports share. The zero ExcludedList is empty.
type ExcludedList struct {
	list  string  // see excludedPacker
	floor float64 // of the search; relates scores to relevances
	// names holds name and section of each candidate whose text its engine keeps; "" until
	// WithNames has read them.
	names  string
	counts excludedCounts
}

// NewExcludedList encodes a list of excluded candidates.
func NewExcludedList(list []Excluded) ExcludedList { return excludedListOf(list, 0) }

func excludedListOf(list []Excluded, floor float64) ExcludedList {
	var p excludedPacker
	p.Reset(floor)
	for i := range list {
		x := &list[i]
		p.Add(x, Label{Doc: []byte(x.Doc), Chunk: x.Chunk, Name: []byte(x.Name), Section: []byte(x.Section)})
	}
	return p.List()
}

// Len returns the number of candidates.
func (f ExcludedList) Len() int {
	n := 0
	for _, of := range f.counts {
		n += int(of)
	}
	return n
}

// Equal reports whether f and g hold the same candidates, excluded for the same reasons.
func (f ExcludedList) Equal(g ExcludedList) bool {
	return f.Packed(0) == g.Packed(0) && f.names == g.names
}

// Bytes returns the approximate memory use.
func (f ExcludedList) Bytes() int { return len(f.list) + len(f.names) }

// excludedCounts counts candidates by the index of their reason in ExcludeReasons.
type excludedCounts [NumExcludeReasons]uint32

// NumExcludeReasons is the number of reasons.
const NumExcludeReasons = 9

// ExcludeReasons returns all reasons; "" stands for an unknown one.
func ExcludeReasons() [NumExcludeReasons]ExcludeReason {
	return [NumExcludeReasons]ExcludeReason{"", ExcludedScore, ExcludedDup, ExcludedDocument, ExcludedTopK, ExcludedRerank, ExcludedGrade, ExcludedVariant, ExcludedVersion}
}

func numberOf(reason ExcludeReason) int {
	all := ExcludeReasons()
	return max(0, slices.Index(all[:], reason))
}

// Count returns the number of candidates excluded for a reason.
func (f ExcludedList) Count(reason ExcludeReason) int { return int(f.counts[numberOf(reason)]) }

// Counts returns the number of candidates by reason.
func (f *ExcludedList) Counts() excludedCounts { return f.counts }

// All iterates over the candidates.
func (f ExcludedList) All() iter.Seq[Excluded] {
	return func(yield func(Excluded) bool) {
		r, names := f.unpacker(), nameReader{BinaryReader: BinaryReader{Rest: f.names}}
		for r.more() {
			x := r.next()
			if x.At.Kept && f.names != "" {
				x.Name, x.Section = names.next()
			}
			if !yield(x) {
				return
			}
		}
	}
}

// List returns all candidates.
func (f ExcludedList) List() []Excluded { return slices.Collect(f.All()) }

// Packed encodes all but the names set by WithNames, for ReadExcludedList with the same floor.
func (f ExcludedList) Packed(floor float64) string {
	if f.list != "" && !identical(f.floor, floor) {
		return excludedListOf(f.List(), floor).list
	}
	return f.list
}

// ReadExcludedList decodes what Packed returned; ok is false if it is malformed.
func ReadExcludedList(list string, floor float64) (f ExcludedList, ok bool) {
	f.list, f.floor = list, floor
	r := f.unpacker()
	for r.check = true; r.more(); {
		x := r.next()
		f.counts[numberOf(x.Reason)]++
	}
	return f, !r.Broken
}

// WithNames returns f with the names of those candidates whose texts engines keep. label must call
// its argument with the label of each of them, in order.
func (f ExcludedList) WithNames(label func(add func(Label)) error) (ExcludedList, error) {
	var names excludedNames
	if err := label(func(l Label) { names.add(l.Name, l.Section) }); err != nil {
		return ExcludedList{}, err
	}
	f.names = names.packed()
	return f, nil
}

const (
	// maxPacked limits the bases, and the notes, that can be referred to by number.
	maxPacked = 127
	// lately is the number of latest entries that a new one is compared with.
	lately = 4
	// maxCommon limits the common prefix of consecutive document ids, and so the size to which a
	// short list can decode.
	maxCommon = 63
)

// A note is the reason for which a candidate was excluded.
type note struct {
	reason ExcludeReason
	number int // index of the reason in ExcludeReasons
	least  float64
	detail string
}

// An excludedPacker encodes excluded candidates. An entry has the numbers of its base and its
// note, counted from 1, or 0 followed by a new base or note; the length of the prefix that its
// document id shares with the previous one, and the rest of the id; chunk, scores and place; and
// name and section if there is no place.
type excludedPacker struct {
	b      []byte
	floor  float64
	bases  []string
	notes  []note
	doc    []byte // id in the previous entry
	names  excludedNames
	counts excludedCounts
}

// Reset starts a list of a search with the given floor and reuses the memory of the previous list.
func (p *excludedPacker) Reset(floor float64) {
	clear(p.bases)
	clear(p.notes)
	*p = excludedPacker{b: p.b[:0], floor: floor, bases: p.bases[:0], notes: p.notes[:0], doc: p.doc[:0], names: excludedNames{b: p.names.b[:0]}}
}

// List returns the list of what was added.
func (p *excludedPacker) List() ExcludedList {
	return ExcludedList{list: string(p.b), floor: p.floor, names: p.names.packed(), counts: p.counts}
}

// Add adds a candidate with the given label; Doc, Chunk, Name and Section of x are ignored.
func (p *excludedPacker) Add(x *Excluded, label Label) {
	p.base(x.Knowledge)
	p.counts[p.note(x)]++
	common := 0
	for most := min(len(label.Doc), len(p.doc), maxCommon); common < most && label.Doc[common] == p.doc[common]; {
		common++
	}
	p.doc = append(p.doc[:0], label.Doc...)
	p.b = AppendString(append(p.b, byte(common)), label.Doc[common:])
	p.b = binary.AppendVarint(p.b, int64(label.Chunk))
	scores := Scores{Score: x.Score, Relevance: x.Relevance, Strength: x.Strength, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore}
	if p.b = x.At.Append(scores.Append(p.b, p.floor)); x.At.Kept {
		p.names.add(label.Name, label.Section)
		return
	}
	p.b = AppendString(AppendString(p.b, label.Name), label.Section)
}

func (p *excludedPacker) base(id string) {
	for i := len(p.bases) - 1; i >= max(0, len(p.bases)-lately); i-- {
		if p.bases[i] == id {
			p.b = append(p.b, byte(i+1))
			return
		}
	}
	if p.b = AppendString(append(p.b, 0), id); len(p.bases) < maxPacked {
		p.bases = append(p.bases, id)
	}
}

// note encodes why a candidate was excluded, and returns the number of the reason.
func (p *excludedPacker) note(x *Excluded) int {
	for i := len(p.notes) - 1; i >= max(0, len(p.notes)-lately); i-- {
		if n := &p.notes[i]; n.reason == x.Reason && identical(n.least, x.MinScore) && n.detail == x.Detail {
			p.b = append(p.b, byte(i+1))
			return n.number
		}
	}
	number := numberOf(x.Reason)
	p.b = AppendString(append(p.b, 0), x.Reason)
	if x.Reason == ExcludedScore {
		p.b = AppendFloat(p.b, x.MinScore)
	} else {
		p.b = AppendString(p.b, x.Detail)
	}
	if len(p.notes) < maxPacked {
		p.notes = append(p.notes, note{x.Reason, number, x.MinScore, x.Detail})
	}
	return number
}

// excludedNames encodes the names and sections of excluded candidates, one after the other. Each is
// its length plus one, and its bytes; 0 repeats the one of the previous candidate.
type excludedNames struct {
	b             []byte
	name, section span // of the previous candidate
	named         bool // at least one name or section is not empty
}

// packed returns the encoding; "" if all names and sections are empty.
func (n *excludedNames) packed() string {
	if !n.named {
		return ""
	}
	return string(n.b)
}

// A span is a range of bytes.
type span struct{ from, to int }

// add adds name and section of the next candidate.
func (n *excludedNames) add(name, section []byte) {
	n.text(&n.name, name)
	n.text(&n.section, section)
}

func (n *excludedNames) text(before *span, text []byte) {
	if string(n.b[before.from:before.to]) == string(text) {
		n.b = append(n.b, 0)
		return
	}
	n.b = binary.AppendUvarint(n.b, uint64(len(text))+1)
	from := len(n.b)
	n.b = append(n.b, text...)
	*before, n.named = span{from, len(n.b)}, true
}

// An unpacker decodes what an excludedPacker encoded.
type unpacker struct {
	BinaryReader
	check bool // only validate: document ids are not built
	floor float64
	bases []string
	notes []note
	doc   string // id in the previous entry
	had   int    // length of doc
}

func (f *ExcludedList) unpacker() unpacker {
	return unpacker{BinaryReader: BinaryReader{Rest: f.list}, floor: f.floor}
}

func (r *unpacker) more() bool { return r.Rest != "" }

func (r *unpacker) next() (x Excluded) {
	x.Knowledge = r.base()
	why := r.note()
	x.Reason, x.MinScore, x.Detail = why.reason, why.least, why.detail
	x.Doc, x.Chunk = r.document(), r.Int()
	scores := ReadScores(&r.BinaryReader, r.floor)
	x.Score, x.Relevance, x.Strength, x.Arm, x.ByArm = scores.Score, scores.Relevance, scores.Strength, scores.Arm, scores.ByArm
	x.RerankScore, x.GradeScore = scores.RerankScore, scores.GradeScore
	if x.At = ReadPlace(&r.BinaryReader); !x.At.Kept {
		x.Name, x.Section = r.String(), r.String()
	}
	return x
}

// document reads a document id.
func (r *unpacker) document() string {
	common, rest := int(r.Byte()), r.String()
	if common > min(r.had, maxCommon) {
		r.Fail()
		return ""
	}
	if r.had = common + len(rest); r.check {
		return ""
	}
	if r.doc = r.doc[:common] + rest; common == 0 {
		r.doc = rest
	}
	return r.doc
}

func (r *unpacker) base() string {
	if n := int(r.Byte()); n > 0 {
		if n > len(r.bases) {
			r.Fail()
			return ""
		}
		return r.bases[n-1]
	}
	id := r.String()
	if len(r.bases) < maxPacked {
		r.bases = append(r.bases, id)
	}
	return id
}

func (r *unpacker) note() (why note) {
	if n := int(r.Byte()); n > 0 {
		if n > len(r.notes) {
			r.Fail()
			return why
		}
		return r.notes[n-1]
	}
	if why.reason = ExcludeReason(r.String()); why.reason == ExcludedScore {
		why.least = r.Float()
	} else {
		why.detail = r.String()
	}
	if len(r.notes) < maxPacked {
		r.notes = append(r.notes, why)
	}
	return why
}

// A nameReader decodes excludedNames.
type nameReader struct {
	BinaryReader
	name, section string
}

func (r *nameReader) next() (name, section string) {
	r.name, r.section = r.text(r.name), r.text(r.section)
	return r.name, r.section
}

func (r *nameReader) text(before string) string {
	n := r.Uvarint()
	if n == 0 || n-1 > uint64(len(r.Rest)) {
		return before
	}
	text := r.Rest[:n-1]
	r.Rest = r.Rest[n-1:]
	return text
}

// AppendString appends the length of a string and the string.
func AppendString[S ~string | ~[]byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendFloat appends a number in 8 bytes.
func AppendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// appendFloat32 appends a number in 4 bytes.
func appendFloat32(b []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

// A BinaryReader decodes values from the front of Rest. After malformed input it is Broken and
// returns zero values. The strings that it returns share the memory of Rest.
type BinaryReader struct {
	Rest   string // not yet decoded
	Broken bool
}

// Fail makes the BinaryReader broken.
func (r *BinaryReader) Fail() { r.Rest, r.Broken = "", true }

// Byte reads a byte.
func (r *BinaryReader) Byte() byte {
	if r.Rest == "" {
		r.Fail()
		return 0
	}
	b := r.Rest[0]
	r.Rest = r.Rest[1:]
	return b
}

// Uvarint reads what binary.AppendUvarint wrote.
func (r *BinaryReader) Uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.Rest) && i < binary.MaxVarintLen64; i++ {
		c := r.Rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break // beyond 64 bits
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.Rest = r.Rest[i+1:]
			return v
		}
	}
	r.Fail()
	return 0
}

// Int reads what binary.AppendVarint wrote.
func (r *BinaryReader) Int() int {
	u := r.Uvarint()
	return int(int64(u>>1) ^ -int64(u&1)) //nolint:gosec // zigzag
}

// String reads what AppendString wrote.
func (r *BinaryReader) String() string {
	n := r.Uvarint()
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return ""
	}
	s := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return s
}

// Float reads what AppendFloat wrote.
func (r *BinaryReader) Float() float64 {
	const size = 8
	if len(r.Rest) < size {
		r.Fail()
		return 0
	}
	bits := binary.LittleEndian.Uint64([]byte(r.Rest[:size]))
	r.Rest = r.Rest[size:]
	return math.Float64frombits(bits)
}

// Float32 reads what AppendFloat32 wrote.
func (r *BinaryReader) Float32() float32 {
	const size = 4
	if len(r.Rest) < size {
		r.Fail()
		return 0
	}
	bits := binary.LittleEndian.Uint32([]byte(r.Rest[:size]))
	r.Rest = r.Rest[size:]
	return math.Float32frombits(bits)
}

// Count reads the length, plus one, of a list whose elements take at least size bytes; ok is false
// for 0, a nil list.
func (r *BinaryReader) Count(size int) (n int, ok bool) {
	u := r.Uvarint()
	if u == 0 {
		return 0, false
	}
	if u-1 > uint64(len(r.Rest)/size) {
		r.Fail()
		return 0, false
	}
	return int(u - 1), true
}
