package retrievaltest

import (
	"context"

	"sidenote/retrieval"
)

// Faulty is a Retriever that calls Before on every call, so that tests can make it fail, hang,
// panic or count.
type Faulty struct {
	Next retrieval.Retriever
	// Before is called first. If it returns an error, Retrieve returns it without calling Next.
	Before func(ctx context.Context, q retrieval.Query) error
}

// Retrieve calls Before, then Next.
func (f Faulty) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if err := f.Before(ctx, q); err != nil {
		return retrieval.Result{}, err
	}
	return f.Next.Retrieve(ctx, q)
}
