package retrieval

// furtherWeight is the weight of relevances found by a plan's query; the question's weigh 1. A
// model may misunderstand the question, or be manipulated. It was chosen on SciFact, Cranfield and
// the conversations of package followup, with plans made of the right document's title, of the
// halves of the question, of the previous turn, and of two unrelated questions: these last cost at
// most .02 of nDCG@10, and titles gain .06 or more. At .9 they cost .08.
const furtherWeight = 0.8

// fuseQueries merges what the question and the queries of its plan have found: each chunk once,
// with its highest weighted relevance (CombMAX of Fox and Shaw, 1994). Relevances are comparable
// between queries, since each is measured by its query's own floor; ranks are not, and with a sum
// two off-topic queries could outvote the question. If the policy fuses by ranks, the ranks'
// scores are added up. The result reuses the memory of candidates.
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

// byRank returns the score of a rank in the list that one query has found.
func byRank(rank int, further bool) float64 {
	if further {
		return furtherWeight * ReciprocalRank(rank)
	}
	return ReciprocalRank(rank)
}

// passes reports whether a candidate reaches the minimum score of the query that found it.
func (c *candidate) passes() bool { return c.own >= c.threshold }
