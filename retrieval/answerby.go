package retrieval

import (
	"context"
	"time"
)

type answerByKey struct{}

// withAnswerBy returns ctx with its deadline as a value: a flight that goes on when its caller
// leaves still knows by when the caller would like an answer.
func withAnswerBy(ctx context.Context) context.Context {
	by, _ := ctx.Deadline()
	return context.WithValue(ctx, answerByKey{}, by)
}

// AnswerBy returns when the caller of a search stops waiting: an engine that can do without a
// slow part of it answers before. false where that is not known.
func AnswerBy(ctx context.Context) (by time.Time, known bool) {
	by, known = ctx.Value(answerByKey{}).(time.Time)
	return by, known
}
