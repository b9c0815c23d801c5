package retrieval

import (
	"encoding/binary"
)

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
	number int // of the reason
	least  float64
	detail string
}

// A excludedPacker writes candidates that fell. Of each there are the numbers of its base and of its note,
// from 1, the id of its document behind the number of bytes that it has in common with the one
// before, its chunk, its scores and its place; where it has none, name and section. A base or note
// that is new is 0, and follows.
type excludedPacker struct {
	b      []byte
	floor  float64
	bases  []string
	notes  []note
	doc    []byte // of the one before
	names  fallenNames
	counts excludedCounts
}

// Reset begins a list of a search with some floor, in the memory of the one before.
func (p *excludedPacker) Reset(floor float64) {
	clear(p.bases)
	clear(p.notes)
	*p = excludedPacker{b: p.b[:0], floor: floor, bases: p.bases[:0], notes: p.notes[:0], doc: p.doc[:0], names: fallenNames{b: p.names.b[:0]}}
}

// Fallen returns what was added.
func (p *excludedPacker) Fallen() ExcludedList {
	return ExcludedList{list: string(p.b), floor: p.floor, names: p.names.packed(), counts: p.counts}
}

// Add adds a candidate with its label, which stands in place of that in x.
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
	scores := Scores{Score: x.Score, Relevance: x.Relevance, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore}
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

// note writes why a candidate fell, and returns the number of the reason.
func (p *excludedPacker) note(x *Excluded) int {
	for i := len(p.notes) - 1; i >= max(0, len(p.notes)-lately); i-- {
		if n := &p.notes[i]; n.reason == x.Reason && identical(n.least, x.Least) && n.detail == x.Detail {
			p.b = append(p.b, byte(i+1))
			return n.number
		}
	}
	number := numberOf(x.Reason)
	p.b = AppendString(append(p.b, 0), x.Reason)
	if x.Reason == ExcludedScore {
		p.b = AppendFloat(p.b, x.Least)
	} else {
		p.b = AppendString(p.b, x.Detail)
	}
	if len(p.notes) < maxPacked {
		p.notes = append(p.notes, note{x.Reason, number, x.Least, x.Detail})
	}
	return number
}

// fallenNames are the names of documents and sections of candidates that fell, one after the other.
// Each is its length, plus one, and itself; 0 is that of the candidate before.
type fallenNames struct {
	b             []byte
	name, section span // of the one before
	named         bool // one has a name or a section
}

// packed returns them; "" where none has one.
func (n *fallenNames) packed() string {
	if !n.named {
		return ""
	}
	return string(n.b)
}

// A span is a part of bytes.
type span struct{ from, to int }

// add adds those of the next candidate.
func (n *fallenNames) add(name, section []byte) {
	n.text(&n.name, name)
	n.text(&n.section, section)
}

func (n *fallenNames) text(before *span, text []byte) {
	if string(n.b[before.from:before.to]) == string(text) {
		n.b = append(n.b, 0)
		return
	}
	n.b = binary.AppendUvarint(n.b, uint64(len(text))+1)
	from := len(n.b)
	n.b = append(n.b, text...)
	*before, n.named = span{from, len(n.b)}, true
}
