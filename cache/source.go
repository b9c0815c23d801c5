package cache

import (
	"encoding/binary"
	"slices"

	"sidenote/retrieval"
)

// grades are the grades of sources by their number in a body.
var grades = [...]retrieval.Grade{retrieval.GradeNone, retrieval.GradeRelevant, retrieval.GradeAmbiguous, retrieval.GradeIrrelevant}

// The lists of a body have columns: strings that often repeat or share a prefix. A repeated string
// is written as its number, from 1; a new one as 0, the length of the prefix shared with the last
// new one (a byte), and the rest.
const (
	// maxSeen is the number of strings that can be referenced.
	maxSeen = 127
	// maxLately is how many of the last strings a writer searches: bases and documents mostly
	// repeat soon.
	maxLately = 16
	// maxCommon limits what a body can claim to hold by repeating one prefix.
	maxCommon = 63
)

// A columnWriter writes a column.
type columnWriter struct {
	lately [maxLately]string // string i is at i%maxLately
	n      int               // number of strings
	last   string
}

// append writes the next string.
func (c *columnWriter) append(b []byte, s string) []byte {
	for i := c.n - 1; i >= max(0, c.n-maxLately); i-- {
		if c.lately[i%maxLately] == s {
			return append(b, byte(i+1))
		}
	}
	if c.n < maxSeen {
		c.lately[c.n%maxLately] = s
		c.n++
	}
	common := 0
	for most := min(len(s), len(c.last), maxCommon); common < most && s[common] == c.last[common]; {
		common++
	}
	c.last = s
	return retrieval.AppendString(append(b, 0, byte(common)), s[common:])
}

// A columnReader reads the output of a columnWriter.
type columnReader struct {
	seen []string
	last string
}

// next reads the next string.
func (c *columnReader) next(d *decoder) string {
	n := d.Byte()
	if n > 0 {
		if int(n) > len(c.seen) {
			d.Fail()
			return ""
		}
		return c.seen[n-1]
	}
	common := int(d.Byte())
	s := d.String()
	if common > min(len(c.last), maxCommon) {
		d.Fail()
		return ""
	}
	if common > 0 {
		s = c.last[:common] + s
	}
	if c.last = s; len(c.seen) < maxSeen {
		c.seen = append(c.seen, s)
	}
	return s
}

// An encoder appends the parts of a body.
type encoder struct {
	floor float64
	names columnWriter // bases and types
	docs  columnWriter
}

func appendCount(b []byte, n int, isNil bool) []byte {
	if isNil {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(n)+1)
}

func (e *encoder) source(b []byte, s *retrieval.Source) []byte {
	b = e.names.append(b, s.Type)
	b = e.names.append(b, s.Knowledge)
	b = e.docs.append(b, s.Doc)
	b = binary.AppendVarint(b, int64(s.Chunk))
	scores := retrieval.Scores{Score: s.Score, Relevance: s.Relevance, Arm: s.Arm, ByArm: s.ByArm, RerankScore: s.RerankScore, GradeScore: s.GradeScore}
	b = scores.Append(b, e.floor)
	b = append(b, byte(max(0, slices.Index(grades[:], s.Grade))))
	if b = s.At.Append(b); s.At.Kept {
		return b
	}
	for _, text := range [...]string{s.Name, s.Section, s.Text, s.Before, s.After, s.Sketch} {
		b = retrieval.AppendString(b, text)
	}
	return binary.AppendVarint(b, int64(s.Tokens))
}

func (d *decoder) source(s *retrieval.Source) {
	s.Type, s.Knowledge, s.Doc = d.names.next(d), d.names.next(d), d.docs.next(d)
	s.Chunk = d.Int()
	scores := retrieval.ReadScores(&d.BinaryReader, d.floor)
	s.Score, s.Relevance, s.Arm, s.ByArm = scores.Score, scores.Relevance, scores.Arm, scores.ByArm
	s.RerankScore, s.GradeScore = scores.RerankScore, scores.GradeScore
	grade := d.Byte()
	if int(grade) >= len(grades) {
		d.Fail()
		return
	}
	s.Grade = grades[grade]
	if s.At = retrieval.ReadPlace(&d.BinaryReader); s.At.Kept {
		return
	}
	s.Name, s.Section = d.String(), d.String()
	s.Text, s.Before, s.After = d.String(), d.String(), d.String()
	s.Sketch = d.String()
	s.Tokens = d.Int()
}
