package retrieval

// An Explained tells why a search of some bases found what it did. Scores are those of its
// hits, and comparable with one another only.
type Explained struct {
	Floor float64         // least score of the question's answers; 0 is none
	Terms []ExplainedTerm // of the question and the turns that joined it, the weightiest first
	Found []ExplainedHit  // best first, at most as many as the query asks for
}

// An ExplainedTerm is a term as the index has it: a word's stem, or a name as it is written.
type ExplainedTerm struct {
	Text string
	// Score is what the term adds to the score of a hit. Of a question's term it is what a text
	// of usual length that has it once gets for it, about; 0 if no text has it.
	Score float64
}

// An ExplainedHit is a chunk with what makes its score: its terms, the most important first,
// and its document. Of a question with very many terms the rarest are among them only, as in a
// search.
type ExplainedHit struct {
	Knowledge, Doc string
	Chunk          int
	Terms          []ExplainedTerm
	// Document is what is added to the score of terms: because the document as
	// a whole has more of the question; below 0 where the chunk is a further one of it.
	Document float64

	// In bases with vectors, where the score is that of words and cosine fused:
	Arm    Arm     // that says most for the hit; "" where words alone were searched
	Words  float64 // the score of its terms and its document; 0 where it was not found by words
	Cosine float64 // 0 where it has no vector
	Weight float64 // of the cosine; words weigh the rest
}
