package retrieval

import (
	"encoding/binary"
)

// A Hit is a chunk found by an engine that keeps its text.
type Hit struct {
	At    Place
	Base  int // index of its base in Result.Bases
	Score float64
	Arm   Arm       // the arm that contributes most to Score, if the engine has several
	ByArm ArmScores // scores by arm; zero if Arm is ArmNone
	Mark
}

// A Place says where the engine keeps the text of a hit. Only that engine interprets the numbers;
// they are invalid in another generation of the base.
type Place struct {
	Kept          bool // the engine reads the text on demand; false: the source has it
	Segment, Text int
}

// Append encodes a place.
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

// A Mark holds what an engine stored about a text at ingest. It tells apart most texts that are
// not duplicates.
type Mark struct {
	Glance   glance
	Bytes    int    // length of the text
	Sum      uint32 // equal texts of one engine have equal sums
	Document int    // its number in the segment; chunks of one document have the same Segment and Document
}

// A Label names a hit for people. Its bytes belong to the engine and must not be retained.
type Label struct {
	Doc           []byte // id of the document in its base
	Chunk         int    // ordinal of the chunk in its document, from 0
	Name, Section []byte // of the document; the heading path below it
}
