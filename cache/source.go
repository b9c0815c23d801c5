package cache

import (
	"encoding/binary"
	"math"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/recent"
)

// The flags of a source.
const (
	sourceKept      = 1 << iota // its engine has the text; else the text follows
	sourceScaled                // the score is a whole number of scoreUnits
	sourceRelevance             // the relevance is that of the score with the result's floor
	sourceNone                  // the relevance is 0
	sourceWords                 // the arm is retrieval.ArmWords; the scores of arms follow
	sourceVector                // likewise ArmVector
	sourceReranked              // a reranker's score follows
	sourceGraded                // the grade follows, and perhaps its score
)

// grades are those of sources by their number, from 1; gradeScored is added to it where a grader's
// score follows.
var grades = [...]retrieval.Grade{"", retrieval.GradeRelevant, retrieval.GradeAmbiguous, retrieval.GradeIrrelevant}

const gradeScored = 1 << 7

// scoreUnit is the unit of the embedded engine's scores. Of a score that is a multiple of it the
// number is written, which takes four bytes in place of eight.
const scoreUnit = 1.0 / (1 << 20)

// columns are what the elements of a body's lists have in common.
type columns struct {
	floor float64
	names column // bases, types, reasons
	docs  column
	notes column // why sources fell
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
	return appendString(append(b, 0, byte(common)), s[common:])
}

// read reads the next string.
func (c *column) read(d *decoder) string {
	n := d.byte()
	if n > 0 {
		if int(n) > c.n {
			d.fail()
			return ""
		}
		return c.seen[n-1]
	}
	common := int(d.byte())
	s := d.string()
	if common > min(len(c.last), maxCommon) {
		d.fail()
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
	least float64 // the last Excluded.Least, which
	noted string  // is written so
}

func (e *encoder) count(n int, isNil bool) {
	if isNil {
		e.b = append(e.b, 0)
		return
	}
	e.b = binary.AppendUvarint(e.b, uint64(n)+1)
}

func (e *encoder) float(f float64) {
	e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(f))
}

func (e *encoder) source(s *retrieval.Source) {
	e.hit(s)
	e.b = e.names.append(e.b, s.Type)
	if s.At.Kept {
		return
	}
	for _, text := range [...]string{s.Name, s.Section, s.Text, s.Before, s.After, s.Sketch} {
		e.b = appendString(e.b, text)
	}
	e.b = binary.AppendVarint(e.b, int64(s.Tokens))
}

// hit writes what sources and what fell have in common.
func (e *encoder) hit(s *retrieval.Source) {
	var flags byte
	if s.At.Kept {
		flags |= sourceKept
	}
	units := int64(0)
	if scaled := s.Score / scoreUnit; math.Abs(scaled) < 1<<53 {
		if units = int64(scaled); identical(float64(units)*scoreUnit, s.Score) {
			flags |= sourceScaled
		}
	}
	switch {
	case identical(s.Relevance, 0):
		flags |= sourceNone
	case identical(s.Relevance, retrieval.Relevance(s.Score, e.floor)):
		flags |= sourceRelevance
	}
	switch s.Arm {
	case retrieval.ArmWords:
		flags |= sourceWords
	case retrieval.ArmVector:
		flags |= sourceVector
	}
	if s.RerankScore != nil {
		flags |= sourceReranked
	}
	grade := byte(max(0, slices.Index(grades[:], s.Grade)))
	if grade > 0 {
		flags |= sourceGraded
	}
	e.b = append(e.b, flags)
	e.b = e.names.append(e.b, s.Knowledge)
	e.b = e.docs.append(e.b, s.Doc)
	e.b = binary.AppendVarint(e.b, int64(s.Chunk))
	if flags&sourceScaled != 0 {
		e.b = binary.AppendVarint(e.b, units)
	} else {
		e.float(s.Score)
	}
	if flags&(sourceNone|sourceRelevance) == 0 {
		e.float(s.Relevance)
	}
	if flags&(sourceWords|sourceVector) != 0 {
		e.b = binary.LittleEndian.AppendUint32(e.b, math.Float32bits(s.ByArm.Words))
		e.b = binary.LittleEndian.AppendUint32(e.b, math.Float32bits(s.ByArm.Vector))
	}
	if s.RerankScore != nil {
		e.float(*s.RerankScore)
	}
	switch {
	case grade == 0:
	case s.GradeScore == nil:
		e.b = append(e.b, grade)
	default:
		e.b = append(e.b, grade|gradeScored)
		e.float(*s.GradeScore)
	}
	if s.At.Kept {
		e.b = binary.AppendVarint(e.b, int64(s.At.Segment))
		e.b = binary.AppendVarint(e.b, int64(s.At.Text))
	}
}

// fallen writes a candidate that fell, and why; most fell for the same reason.
func (e *encoder) fallen(x *retrieval.Excluded) {
	s := x.Source()
	e.hit(&s)
	if !x.At.Kept {
		e.b = appendString(appendString(e.b, x.Name), x.Section)
	}
	e.b = e.names.append(e.b, string(x.Reason))
	note := x.Detail
	if x.Reason == retrieval.ExcludedScore {
		if e.noted == "" || !identical(x.Least, e.least) {
			e.noted, e.least = string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x.Least))), x.Least
		}
		note = e.noted
	}
	e.b = e.notes.append(e.b, note)
}

// identical tells whether two numbers have the same bits.
func identical(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func (d *decoder) source(s *retrieval.Source) {
	d.hit(s)
	if s.Type = d.names.read(d); s.At.Kept {
		return
	}
	s.Name, s.Section = d.string(), d.string()
	s.Text, s.Before, s.After = d.string(), d.string(), d.string()
	s.Sketch = d.string()
	s.Tokens = d.int()
}

func (d *decoder) hit(s *retrieval.Source) {
	flags := d.byte()
	s.At.Kept = flags&sourceKept != 0
	switch {
	case flags&sourceWords != 0:
		s.Arm = retrieval.ArmWords
	case flags&sourceVector != 0:
		s.Arm = retrieval.ArmVector
	}
	s.Knowledge, s.Doc = d.names.read(d), d.docs.read(d)
	s.Chunk = d.int()
	if flags&sourceScaled != 0 {
		s.Score = float64(d.int()) * scoreUnit
	} else {
		s.Score = d.float()
	}
	switch {
	case flags&sourceNone != 0:
	case flags&sourceRelevance != 0:
		s.Relevance = retrieval.Relevance(s.Score, d.floor)
	default:
		s.Relevance = d.float()
	}
	if flags&(sourceWords|sourceVector) != 0 {
		s.ByArm = retrieval.ArmScores{Words: d.float32(), Vector: d.float32()}
	}
	if flags&sourceReranked != 0 {
		score := d.float()
		s.RerankScore = &score
	}
	if flags&sourceGraded != 0 {
		d.grade(s)
	}
	if s.At.Kept {
		s.At.Segment, s.At.Text = d.int(), d.int()
	}
}

func (d *decoder) grade(s *retrieval.Source) {
	grade := d.byte()
	if grade&gradeScored != 0 {
		score := d.float()
		s.GradeScore = &score
	}
	n := int(grade &^ gradeScored)
	if n == 0 || n >= len(grades) {
		d.fail()
		return
	}
	s.Grade = grades[n]
}

func (d *decoder) fallen(x *retrieval.Excluded) {
	var s retrieval.Source
	d.hit(&s)
	*x = retrieval.Excluded{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk, Score: s.Score, Relevance: s.Relevance, Arm: s.Arm, ByArm: s.ByArm, RerankScore: s.RerankScore, GradeScore: s.GradeScore, At: s.At}
	if s.Grade != x.Source().Grade {
		d.fail()
	}
	if !x.At.Kept {
		x.Name, x.Section = d.string(), d.string()
	}
	x.Reason = retrieval.ExcludeReason(d.names.read(d))
	note := d.notes.read(d)
	switch {
	case x.Reason != retrieval.ExcludedScore:
		x.Detail = note
	case len(note) != 8:
		d.fail()
	default:
		x.Least = math.Float64frombits(binary.LittleEndian.Uint64([]byte(note)))
	}
}
