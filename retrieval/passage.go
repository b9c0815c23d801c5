package retrieval

import "context"

// A Passage is a run of chunks of one document.
type Passage struct {
	Knowledge, Doc string
	First, End     int // ordinals of its first chunk and of the one behind its last; beyond the document is its end
}

// A Reader reads on in documents of which something was found.
type Reader interface {
	// Passage returns the chunks of p as sources without scores and neighbours, in their order.
	//
	// The document must be one that q may find: of q.Bases, whose generations do not matter, and
	// let pass by q.Filter. Whatever is not is ErrNoHit, be it hidden or not there at all. Other
	// errors wrap ErrUnavailable.
	Passage(ctx context.Context, q Query, p Passage) ([]Source, error)
}
