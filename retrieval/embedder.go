package retrieval

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Space identifies an embedding space: vectors of one Space are comparable.
type Space struct {
	Model      string
	Dimensions int    // as requested; 0 is the model's default
	Input      string // what else changes the vectors, such as a prefix or the length to cut to
}

// Key returns the storage key of a passage's vector: a digest of the space and the passage. Parts
// are hashed with their lengths, so different parts never give the same input.
func (s Space) Key(passage string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [...]string{"sidenote vector", s.Model, fmt.Sprint(s.Dimensions), s.Input, passage} {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part))
	}
	h.Sum(key[:0])
	return key
}

// String formats the space for people: "text-embedding-3-small/512".
func (s Space) String() string {
	if s.Dimensions == 0 {
		return s.Model
	}
	return fmt.Sprintf("%s/%d", s.Model, s.Dimensions)
}

// EmbedReason says why a search ran without the vector of the question; "" if it had the vector,
// or needed none. It is a closed list and a metric label.
type EmbedReason string

// The reasons.
const (
	EmbedTimeout EmbedReason = "timeout"
	EmbedError   EmbedReason = "error"   // service failed, breaker open, or damaged vectors
	EmbedInvalid EmbedReason = "invalid" // its vector cannot be compared with those of the base
)

// ErrBadVectors says that the answer of an Embedder's service is unusable.
var ErrBadVectors = errors.New("answer cannot be used")

// EmbedReasonOf returns the reason for an error of an Embedder; "" for nil.
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
// Embed returns one vector for each text, in order: all of one length, finite, and not zero. It
// makes one attempt and returns by ctx's deadline. Its error wraps ErrBadVectors if the answer is
// not such a list. Implementations are safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
