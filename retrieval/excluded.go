package retrieval

// ExcludedSource is a candidate that fell, as a source without its text.
func ExcludedSource(x *Excluded) Source {
	src := Source{
		Type: typeRAG, Knowledge: x.Knowledge, Doc: x.Doc, Chunk: x.Chunk, Name: x.Name, Section: x.Section,
		Score: x.Score, Relevance: x.Relevance, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore, At: x.At,
	}
	if x.GradeScore != nil {
		src.Grade = GradeIrrelevant
	}
	return src
}

// DuplicateOf tells whether x fell because s, a candidate too, says the same.
func DuplicateOf(x *Excluded, s *Source) bool { return x.DuplicateOf(s.Knowledge, s.Doc, s.Chunk) }
