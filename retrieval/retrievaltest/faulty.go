package retrievaltest

import (
	"context"

	"sidenote/retrieval"
)

// Faulty is a Retriever that asks before each call. It is how a test makes an
// engine fail, hang, panic, or count.
type Faulty struct {
	Next retrieval.Retriever
	// Before is called first; its error is the call's, and the call is not made.
	Before func(ctx context.Context, q retrieval.Query) error
}

// Retrieve asks, then retrieves.
func (f Faulty) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if err := f.Before(ctx, q); err != nil {
		return retrieval.Result{}, err
	}
	return f.Next.Retrieve(ctx, q)
}
