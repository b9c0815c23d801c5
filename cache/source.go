package cache

import (
	"encoding/binary"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/hit"
	"sidenote/retrieval/packed"
	"sidenote/retrieval/recent"
	"sidenote/retrieval/score"
)

// grades are those of sources, by their number.
var grades = [...]retrieval.Grade{retrieval.GradeNone, retrieval.GradeRelevant, retrieval.GradeAmbiguous, retrieval.GradeIrrelevant}

// columns are what the elements of a body's lists have in common.
type columns struct {
	floor float64
	names column // bases and types
	docs  column
}

// A column writes strings of which many are equal, or begin as the one before. A string that came
// before is its number, from 1; a new one is 0, what it has in common with the last new one (a
// byte) and the rest.
type column struct {
	seen   [maxSeen]string
	n      int // of them
	last   string
	slot   [columnSlots]uint8 // number of a string by its hash; 0 for none
	lately [2]uint8           // numbers of those that came last: a base and a reason mostly come again
}

const (
	columnSlots = 256
	// maxSeen is the number of strings that are found again.
	maxSeen = 127
	// maxCommon bounds what a body can claim to hold by repeating the same beginning.
	maxCommon = 63
)

// append writes the next string.
func (c *column) append(b []byte, s string) []byte {
	for _, n := range c.lately {
		if n > 0 && c.seen[n-1] == s {
			return append(b, n)
		}
	}
	at := recent.HashText(s) % columnSlots
	if n := c.slot[at]; n > 0 && c.seen[n-1] == s {
		c.lately = [2]uint8{n, c.lately[0]}
		return append(b, n)
	}
	if c.n < maxSeen {
		c.seen[c.n] = s
		c.n++
		c.slot[at] = uint8(c.n)
		c.lately = [2]uint8{c.slot[at], c.lately[0]}
	}
	common := 0
	for most := min(len(s), len(c.last), maxCommon); common < most && s[common] == c.last[common]; {
		common++
	}
	c.last = s
	return packed.AppendString(append(b, 0, byte(common)), s[common:])
}

// read reads the next string.
func (c *column) read(d *decoder) string {
	n := d.Byte()
	if n > 0 {
		if int(n) > c.n {
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
	if c.last = s; c.n < maxSeen {
		c.seen[c.n] = s
		c.n++
	}
	return s
}

// An encoder writes a body.
type encoder struct {
	b []byte
	columns
}

func (e *encoder) count(n int, isNil bool) {
	if isNil {
		e.b = append(e.b, 0)
		return
	}
	e.b = binary.AppendUvarint(e.b, uint64(n)+1)
}

func (e *encoder) source(s *retrieval.Source) {
	e.b = e.names.append(e.b, s.Type)
	e.b = e.names.append(e.b, s.Knowledge)
	e.b = e.docs.append(e.b, s.Doc)
	e.b = binary.AppendVarint(e.b, int64(s.Chunk))
	scores := score.All{Score: s.Score, Relevance: s.Relevance, Arm: s.Arm, ByArm: s.ByArm, RerankScore: s.RerankScore, GradeScore: s.GradeScore}
	e.b = scores.Append(e.b, e.floor)
	e.b = append(e.b, byte(max(0, slices.Index(grades[:], s.Grade))))
	if e.b = s.At.Append(e.b); s.At.Kept {
		return
	}
	for _, text := range [...]string{s.Name, s.Section, s.Text, s.Before, s.After, s.Sketch} {
		e.b = packed.AppendString(e.b, text)
	}
	e.b = binary.AppendVarint(e.b, int64(s.Tokens))
}

func (d *decoder) source(s *retrieval.Source) {
	s.Type, s.Knowledge, s.Doc = d.names.read(d), d.names.read(d), d.docs.read(d)
	s.Chunk = d.Int()
	scores := score.Read(&d.Reader, d.floor)
	s.Score, s.Relevance, s.Arm, s.ByArm = scores.Score, scores.Relevance, scores.Arm, scores.ByArm
	s.RerankScore, s.GradeScore = scores.RerankScore, scores.GradeScore
	grade := d.Byte()
	if int(grade) >= len(grades) {
		d.Fail()
		return
	}
	s.Grade = grades[grade]
	if s.At = hit.ReadPlace(&d.Reader); s.At.Kept {
		return
	}
	s.Name, s.Section = d.String(), d.String()
	s.Text, s.Before, s.After = d.String(), d.String(), d.String()
	s.Sketch = d.String()
	s.Tokens = d.Int()
}
