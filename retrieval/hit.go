package retrieval

import (
	"encoding/binary"
)

// A Hit is a chunk whose text its engine keeps.
type Hit struct {
	At    Place
	Base  int // number of its base among those that were searched
	Score float64
	Arm   Arm       // that speaks most for the chunk, of an engine that has several
	ByArm ArmScores // of such an engine; zero where Arm is none
	Mark
}

// A Place says of a hit where its engine has the text. Only that engine reads the numbers;
// they are worth nothing in another generation of the base.
type Place struct {
	Kept          bool // the engine has the text and reads it on demand; false: it came with the hit
	Segment, Text int
}

// Append appends a place.
func (p Place) Append(b []byte) []byte {
	if !p.Kept {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(p.Segment)+1) //nolint:gosec // counted from 0
	return binary.AppendUvarint(b, uint64(p.Text))   //nolint:gosec // likewise
}

// ReadPlace reads what Append wrote.
func ReadPlace(r *BinaryReader) Place {
	segment := r.Uvarint()
	if segment == 0 {
		return Place{}
	}
	return Place{Kept: true, Segment: int(segment - 1), Text: int(r.Uvarint())} //nolint:gosec // a hint, see Locator
}

// A Mark is what an engine noted of a text when it read it in. Most texts that are no duplicates
// are told apart by it.
type Mark struct {
	Glance   glance
	Bytes    int    // length of the text
	Sum      uint32 // equal texts of one engine have equal sums
	Document int    // its number in the segment: of one document are texts in which both are equal
}

// A Label says of a hit what people call it. Its bytes are the engine's: they are not to be kept.
type Label struct {
	Doc           []byte // id of the document in its base
	Chunk         int    // ordinal of the chunk in its document, from 0
	Name, Section []byte // of the document; the heading path below it
}
