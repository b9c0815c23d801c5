package retrieval

// ExcludedSource converts an excluded candidate to a source without text.
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

// DuplicateOf reports whether x was excluded as a duplicate of s.
func DuplicateOf(x *Excluded, s *Source) bool { return x.DuplicateOf(s.Knowledge, s.Doc, s.Chunk) }
