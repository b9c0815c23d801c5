package retrieval

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Space names vectors that compare with one another.
type Space struct {
	Model      string
	Dimensions int    // as they are asked for; 0 is the model's own number
	Input      string // what else changes the vector of a passage, such as a prefix or the length it is cut to
}

// Key returns what the vector of a passage is kept by: a digest of the space and the
// passage. Parts are written with their lengths, so no two mean the same.
func (s Space) Key(passage string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [...]string{"sidenote vector", s.Model, fmt.Sprint(s.Dimensions), s.Input, passage} {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part))
	}
	h.Sum(key[:0])
	return key
}

// String returns the space for people: "text-embedding-3-small/512".
func (s Space) String() string {
	if s.Dimensions == 0 {
		return s.Model
	}
	return fmt.Sprintf("%s/%d", s.Model, s.Dimensions)
}

// EmbedReason says why a search had to do without the vector of the question; "" where it had it, or
// needed none. It is a closed list and a metric label.
type EmbedReason string

// The reasons.
const (
	EmbedTimeout EmbedReason = "timeout"
	EmbedError   EmbedReason = "error"   // the service failed, or is known to, or vectors of a base are damaged
	EmbedInvalid EmbedReason = "invalid" // its answer is no vector to compare with those of the base
)

// ErrBadVectors is an answer of an Embedder's service that cannot be used.
var ErrBadVectors = errors.New("answer cannot be used")

// EmbedReasonOf says why there is no vector.
func EmbedReasonOf(err error) EmbedReason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrBadVectors):
		return EmbedInvalid
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return EmbedTimeout
	}
	return EmbedError
}

// An Embedder makes vectors of questions, to be compared with those of passages.
//
// Embed returns as many vectors as texts, in their order: all of one length, finite, and not
// zero. It asks once, and returns by ctx's deadline. Its error wraps ErrBadVectors where the answer
// is no such list. Implementations are safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
