package retrieval

import (
	"encoding/binary"
	"iter"
	"slices"

	"sidenote/retrieval/packed"
	"sidenote/retrieval/score"
)

// Fallen are the candidates of a search that are not among its sources, in their order. There are
// dozens of each new question, which hardly anybody reads: they are written once, as bytes, and
// results, caches and reports share these. The zero Fallen is none.
type Fallen struct {
	list  string  // see packer
	floor float64 // of the search, by which scores became relevances
	// names has the name and the section of each candidate whose text its engine keeps; "" where
	// nobody has read them.
	names  string
	counts fallenCounts
}

// FallenOf returns candidates that fell.
func FallenOf(list []Excluded) Fallen { return fallenOf(list, 0) }

func fallenOf(list []Excluded, floor float64) Fallen {
	var p packer
	var names fallenNames
	p.reset(floor)
	for i := range list {
		x := &list[i]
		if p.add(x); x.At.Kept {
			names.add([]byte(x.Name), []byte(x.Section))
		}
	}
	f := p.fallen()
	f.names = names.packed()
	return f
}

// Len returns how many they are.
func (f Fallen) Len() int {
	n := 0
	for _, of := range f.counts {
		n += int(of)
	}
	return n
}

// Equal tells whether the same candidates fell for the same reasons.
func (f Fallen) Equal(g Fallen) bool { return f.Packed(0) == g.Packed(0) && f.names == g.names }

// Bytes returns about the memory that they take.
func (f Fallen) Bytes() int { return len(f.list) + len(f.names) }

// fallenCounts are how many fell, by the number of the reason.
type fallenCounts [len(excludeReasons{})]uint32

// excludeReasons are the reasons of a search; "" stands for all others.
type excludeReasons = [7]ExcludeReason

func numberedReasons() excludeReasons {
	return excludeReasons{"", ExcludedScore, ExcludedDup, ExcludedDocument, ExcludedTopK, ExcludedRerank, ExcludedGrade}
}

func (c *fallenCounts) add(reason ExcludeReason) {
	reasons := numberedReasons()
	c[max(0, slices.Index(reasons[:], reason))]++
}

// Fell returns how many fell for a reason of this package.
func (f Fallen) Fell(reason ExcludeReason) int {
	for of, n := range f.Counts() {
		if of == reason {
			return n
		}
	}
	return 0
}

// Counts goes through the reasons for which some fell, with their number; "" stands for all that
// are none of this package.
func (f Fallen) Counts() iter.Seq2[ExcludeReason, int] {
	return func(yield func(ExcludeReason, int) bool) {
		for i, reason := range numberedReasons() {
			if n := f.counts[i]; n > 0 && !yield(reason, int(n)) {
				return
			}
		}
	}
}

// All goes through the candidates.
func (f Fallen) All() iter.Seq[Excluded] {
	return func(yield func(Excluded) bool) {
		r, names := f.unpacker(), nameReader{Reader: packed.Reader{Rest: f.names}}
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

// List returns the candidates.
func (f Fallen) List() []Excluded { return slices.Collect(f.All()) }

// Packed returns all but the names that engines have, for ReadFallen with the same floor.
func (f Fallen) Packed(floor float64) string {
	if f.list != "" && !score.Identical(f.floor, floor) {
		return fallenOf(f.List(), floor).list
	}
	return f.list
}

// ReadFallen returns what Packed wrote; false where that is anything else.
func ReadFallen(list string, floor float64) (f Fallen, ok bool) {
	f.list, f.floor = list, floor
	r := f.unpacker()
	for r.check = true; r.more(); {
		x := r.next()
		f.counts.add(x.Reason)
	}
	return f, !r.Broken
}

// Named returns the same with the names that texts have for those that an engine keeps, which are
// these.
func (f Fallen) Named(texts Texts, kept []*Source) (Fallen, error) {
	var names fallenNames
	if err := texts.Names(kept, names.add); err != nil {
		return Fallen{}, err
	}
	f.names = names.packed()
	return f, nil
}

const (
	// maxPacked is the number of bases, and of notes, that are found again.
	maxPacked = 127
	// lately is how many of the last ones are looked at.
	lately = 4
	// maxCommon is up to how many bytes an id of a document has in common with the one before: it
	// bounds what a short list can claim to hold.
	maxCommon = 63
)

// A note says why a candidate fell.
type note struct {
	reason ExcludeReason
	least  float64
	detail string
}

// A packer writes candidates that fell. Of each there are the numbers of its base and of its note,
// from 1, the id of its document behind the number of bytes that it has in common with the one
// before, its chunk, its scores and its place; where it has none, name and section. A base or note
// that is new is 0, and follows.
type packer struct {
	b      []byte
	floor  float64
	bases  []string
	notes  []note
	doc    string // of the one before
	counts fallenCounts
}

// reset begins a list of a search with some floor, in the memory of the one before.
func (p *packer) reset(floor float64) {
	clear(p.bases)
	clear(p.notes)
	*p = packer{b: p.b[:0], floor: floor, bases: p.bases[:0], notes: p.notes[:0]}
}

// fallen returns what was added.
func (p *packer) fallen() Fallen {
	return Fallen{list: string(p.b), floor: p.floor, counts: p.counts}
}

func (p *packer) add(x *Excluded) {
	p.counts.add(x.Reason)
	p.base(x.Knowledge)
	p.note(x)
	common := 0
	for most := min(len(x.Doc), len(p.doc), maxCommon); common < most && x.Doc[common] == p.doc[common]; {
		common++
	}
	p.doc = x.Doc
	p.b = packed.AppendString(append(p.b, byte(common)), x.Doc[common:])
	p.b = binary.AppendVarint(p.b, int64(x.Chunk))
	scores := score.All{Score: x.Score, Relevance: x.Relevance, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore}
	p.b = x.At.Append(scores.Append(p.b, p.floor))
	if !x.At.Kept {
		p.b = packed.AppendString(packed.AppendString(p.b, x.Name), x.Section)
	}
}

func (p *packer) base(id string) {
	for i := len(p.bases) - 1; i >= max(0, len(p.bases)-lately); i-- {
		if p.bases[i] == id {
			p.b = append(p.b, byte(i+1))
			return
		}
	}
	if p.b = packed.AppendString(append(p.b, 0), id); len(p.bases) < maxPacked {
		p.bases = append(p.bases, id)
	}
}

func (p *packer) note(x *Excluded) {
	for i := len(p.notes) - 1; i >= max(0, len(p.notes)-lately); i-- {
		if n := &p.notes[i]; n.reason == x.Reason && score.Identical(n.least, x.Least) && n.detail == x.Detail {
			p.b = append(p.b, byte(i+1))
			return
		}
	}
	p.b = packed.AppendString(append(p.b, 0), x.Reason)
	if x.Reason == ExcludedScore {
		p.b = packed.AppendFloat(p.b, x.Least)
	} else {
		p.b = packed.AppendString(p.b, x.Detail)
	}
	if len(p.notes) < maxPacked {
		p.notes = append(p.notes, note{x.Reason, x.Least, x.Detail})
	}
}
