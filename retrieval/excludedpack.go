package retrieval

import (
	"encoding/binary"
)

const (
	// maxPacked limits the bases, and the notes, that can be referred to by number.
	maxPacked = 127
	// lately is how many of the latest are compared.
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
