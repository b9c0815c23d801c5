package retrieval

// furtherWeight is what the relevance counts of what a plan's query found, where that of the
// question counts 1: a model may misunderstand the question, or be led to. Chosen on SciFact,
// Cranfield and the conversations of package followup, with plans made of the right document's
// title, of the question's halves, of the turn before, and of two questions about something else:
// these last cost .02 of nDCG@10 at most, and titles bring .06 and more. At .9 they cost .08.
const furtherWeight = 0.8

// fuseQueries makes one list of what the question and the queries of its plan have found: each
// chunk once, as it was found by the query to which it is most relevant, weighted (CombMAX of Fox
// and Shaw, 1994). Relevances compare between queries, as each is measured by its query's own
// floor; ranks do not, and a sum would let two queries that are beside the point outvote the
// question. Where the policy fuses by ranks, what lists give to a chunk is added up instead. The list
// is in the memory of candidates.
func (s *selection) fuseQueries(candidates []candidate) []candidate {
	type chunk struct {
		knowledge, doc string
		n              int
	}
	at, fused := make(map[chunk]int, len(candidates)), candidates[:0]
	for _, c := range candidates {
		if c.further {
			c.relevance *= furtherWeight
		}
		doc, n := s.answers.identity(&c)
		of := chunk{c.knowledge, doc, n}
		i, again := at[of]
		if again {
			c.ranks += fused[i].ranks
			fused[i].ranks = c.ranks
		}
		switch {
		case !again:
			at[of] = len(fused)
			fused = append(fused, c)
		case c.passes() && !fused[i].passes(), c.passes() == fused[i].passes() && c.relevance > fused[i].relevance:
			fused[i] = c
		}
	}
	clear(candidates[len(fused):])
	return fused
}

// byRank is what a candidate of a rank gets of a list that a query has found.
func byRank(rank int, further bool) float64 {
	if further {
		return furtherWeight * ReciprocalRank(rank)
	}
	return ReciprocalRank(rank)
}

// passes tells whether a candidate reaches the least score of the query that found it.
func (c *candidate) passes() bool { return c.own >= c.threshold }
