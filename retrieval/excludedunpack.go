package retrieval

import ()

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
	x.Score, x.Relevance, x.Arm, x.ByArm = scores.Score, scores.Relevance, scores.Arm, scores.ByArm
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
