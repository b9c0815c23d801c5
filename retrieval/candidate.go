package retrieval

// A candidate is a chunk during selection. Its hit or source belongs to an answer that may be
// shared, so it must not be modified.
type candidate struct {
	hit       *Hit    // if the engine keeps the text; nil if the source has it
	source    *Source // nil for a hit of a Finder
	knowledge string  // id of its base
	from      int     // index of its answer
	at        int     // its index among all candidates as found
	own       float64 // score of its engine
	relevance float64 // comparable between bases
	ranks     float64 // sum of its reciprocal ranks, with FusionRanks
	beyond    float64 // score of an engine without a floor, for ties where relevance is capped below 1
	threshold float64 // minimum score in its base
	score     float64 // from a Reranker
	judged    bool    // scored by a Reranker
	further   bool    // found by a query of a plan
	text      *content
}

// A fell is an excluded candidate and the reason.
type exclusion struct {
	*candidate
	reason ExcludeReason
	detail string
}

// write fills in x, except for the label.
func (f *exclusion) write(x *Excluded) {
	x.Knowledge, x.Score, x.Relevance, x.RerankScore = f.knowledge, f.own, f.relevance, f.rerankScore()
	x.Reason, x.Detail, x.MinScore = f.reason, f.detail, 0
	if f.reason == ExcludedScore {
		x.MinScore = f.threshold
	}
	if h := f.hit; h != nil {
		x.Arm, x.ByArm, x.At = h.Arm, h.ByArm, h.At
	} else {
		x.Arm, x.ByArm, x.At = f.source.Arm, f.source.ByArm, f.source.At
	}
}

// A content is what a text is compared by if its glance does not decide.
type content struct {
	sketch Sketch
	made   bool     // sketched here, since the engine had no sketch
	terms  []string // if made: its terms, in order
	sorted []string // distinct terms; nil until compared
}

// set returns the distinct terms, sorted.
func (c *content) set() []string {
	if c.sorted == nil {
		c.sorted = termSet(c.terms)
	}
	return c.sorted
}

// result returns the source for the answer; the text of a hit is still to be read.
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

// rerankScore returns a copy of the rerank score, since an answer outlives the candidate.
func (c *candidate) rerankScore() *float64 {
	if !c.judged {
		return nil
	}
	score := c.score
	return &score
}
