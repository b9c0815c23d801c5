package retrieval

import "context"

// A Passage is a range of chunks of one document.
type Passage struct {
	Knowledge, Doc string
	First, End     int // ordinals of its chunks, End exclusive; an End beyond the document means its end
}

// A Reader reads further chunks of documents that a search has found.
type Reader interface {
	// Passage returns the chunks of p, in order, as sources without scores and neighbours.
	//
	// q must be able to find the document: it is in one of q.Bases, whose generations are ignored,
	// and passes q.Filter. Otherwise the error is ErrNoHit, whether the document is hidden or does
	// not exist. Other errors wrap ErrUnavailable.
	Passage(ctx context.Context, q Query, p Passage) ([]Source, error)
}
