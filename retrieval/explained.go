package retrieval

// An Explained tells why a search of some bases found its hits. Its scores are comparable only
// with one another.
type Explained struct {
	Floor float64         // minimum score for answers to the question; 0: none
	Terms []ExplainedTerm // of the question and the turns that joined it, highest score first
	Hits  []ExplainedHit  // best first, at most as many as the query asks for
}

// An ExplainedTerm is a term of the index: the stem of a word, or a name as written.
type ExplainedTerm struct {
	Text string
	// Score is what the term adds to the score of a hit. In Explained.Terms it is about what a
	// text of average length gets for one occurrence; 0 if no text has the term.
	Score float64
}

// An ExplainedHit is a chunk and what its score is made of: its terms, highest score first, and
// its document. If the question has very many terms, only the rarest are included, as in a search.
type ExplainedHit struct {
	Knowledge, Doc string
	Chunk          int
	Terms          []ExplainedTerm
	// Document is what is added to the score of the terms because the document as a whole matches
	// more of the question; negative if the chunk is a further one of its document.
	Document float64

	// In bases with vectors, where the score fuses words and cosine:
	Arm    Arm     // the one that contributes most; "" if only words were searched
	Words  float64 // score of its terms and its document; 0 if not found by words
	Cosine float64 // 0 without a vector
	Weight float64 // of the cosine; words have the rest
}
