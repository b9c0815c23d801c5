package retrieval

// A candidate is a chunk on its way through selection. Its hit or source belongs to an
// answer that others may be reading: it is never changed.
type candidate struct {
	hit       *Hit    // of a text that its engine keeps; nil where the source has the text
	source    *Source // nil of a hit that was no source yet
	knowledge string  // id of its base
	from      int     // number of its answer
	at        int     // its number among all candidates as they were found
	own       float64 // the score of its engine
	relevance float64 // comparable over bases
	ranks     float64 // what several lists give to its ranks, where they are fused by them
	beyond    float64 // the score of an engine without a floor, which says more where it is above 1
	threshold float64 // least score in its base
	score     float64 // that a Reranker gave
	judged    bool    // by a Reranker
	further   bool    // its answer is to a query of a plan
	text      *content
}

// A fell is a candidate that fell, and why.
type fell struct {
	*candidate
	reason ExcludeReason
	detail string
}

// write makes x, which has no label, the candidate as it is written.
func (f *fell) write(x *Excluded) {
	x.Knowledge, x.Score, x.Relevance, x.RerankScore = f.knowledge, f.own, f.relevance, f.rerankScore()
	x.Reason, x.Detail, x.Least = f.reason, f.detail, 0
	if f.reason == ExcludedScore {
		x.Least = f.threshold
	}
	if h := f.hit; h != nil {
		x.Arm, x.ByArm, x.At = h.Arm, h.ByArm, h.At
	} else {
		x.Arm, x.ByArm, x.At = f.source.Arm, f.source.ByArm, f.source.At
	}
}

// A content is what a text is compared by where a glance does not tell.
type content struct {
	sketch Sketch
	made   bool     // the engine had no sketch
	terms  []string // where it was made: as they come
	sorted []string // the different ones; nil until they are compared
}

// set returns the different terms, sorted.
func (c *content) set() []string {
	if c.sorted == nil {
		c.sorted = termSet(c.terms)
	}
	return c.sorted
}

// result is the source as the answer has it; of a hit its text is still to be read.
func (c *candidate) result() Source {
	var src Source
	if c.source != nil {
		src = *c.source
	} else {
		src = Source{Type: typeRAG, Knowledge: c.knowledge, Score: c.own, Arm: c.hit.Arm, ByArm: c.hit.ByArm, At: c.hit.At}
	}
	src.Relevance, src.RerankScore = c.relevance, c.rerankScore()
	return src
}

// rerankScore is the score of a Reranker for an answer, which outlives the candidate.
func (c *candidate) rerankScore() *float64 {
	if !c.judged {
		return nil
	}
	score := c.score
	return &score
}
