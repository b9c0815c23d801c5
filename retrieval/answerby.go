package retrieval

import (
	"context"
	"time"
)

type answerByKey struct{}

// withAnswerBy returns ctx with its deadline as a value, so that a search that continues after its
// caller has left still knows when the caller wanted the answer.
func withAnswerBy(ctx context.Context) context.Context {
	by, _ := ctx.Deadline()
	return context.WithValue(ctx, answerByKey{}, by)
}

// AnswerBy returns when the caller of a search stops waiting; an engine may skip a slow optional
// part to answer before. known is false if there is no such time.
func AnswerBy(ctx context.Context) (by time.Time, known bool) {
	by, known = ctx.Value(answerByKey{}).(time.Time)
	return by, known
}
