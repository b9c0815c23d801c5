package cache

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"sidenote/retrieval"
)

// Questions cache the vectors of questions. They are kept only in this process, so that questions
// of users are never in a store that others can read.
type Questions struct {
	embedder retrieval.Embedder
	space    func() retrieval.Space
	cache    Tiered[[]float32]
}

// NewQuestions returns Questions that embed with embedder and are cached in tier. space returns
// the current space of the embedder. observe may be nil.
func NewQuestions(embedder retrieval.Embedder, space func() retrieval.Space, tier Tier, observe func(Event)) *Questions {
	return &Questions{embedder, space, Tiered[[]float32]{
		Kind: Embedded, Tiers: []Tier{tier}, Observe: observe,
		Encode: encodeVector, Decode: decodeVector, Empty: func([]float32) bool { return false },
	}}
}

// Question returns the vector of a tenant's question, which must not be changed. Concurrent
// callers share one request, which continues when they leave, so that a late vector is there for
// the next request. Errors are not cached; they are the embedder's or wrap ctx's cause.
func (c *Questions) Question(ctx context.Context, tenant, text string) ([]float32, error) {
	space := c.space()
	id := retrieval.AppendString([]byte{schema}, string(Embedded))
	for _, part := range [...]string{tenant, space.Model, fmt.Sprint(space.Dimensions), space.Input, text} {
		id = retrieval.AppendString(id, part)
	}
	var l Lookup[[]float32]
	if v, hit := c.cache.Decoded(ctx, tenant, id, &l); hit {
		return v, nil
	}
	f, landed := c.cache.Load(ctx, id, l, Search[[]float32]{Find: func(ctx context.Context) ([]float32, bool, error) {
		vectors, err := c.embedder.Embed(ctx, []string{text})
		if err == nil && len(vectors) != 1 {
			err = fmt.Errorf("%d vectors of one question", len(vectors))
		}
		if err != nil {
			return nil, false, err
		}
		return vectors[0], true, nil
	}})
	if !landed {
		return nil, fmt.Errorf("%s: no vector in time: %w", Embedded, context.Cause(ctx))
	}
	return f.Value, f.Err
}

func encodeVector(k Key, v []float32) []byte {
	body := make([]byte, 0, 4*len(v))
	for _, c := range v {
		body = binary.LittleEndian.AppendUint32(body, math.Float32bits(c))
	}
	return Seal(k, body)
}

func decodeVector(k Key, value []byte) ([]float32, error) {
	body, err := Body(k, value)
	if err != nil {
		return nil, err
	}
	if len(body)%4 != 0 {
		return nil, MismatchBody
	}
	v := make([]float32, len(body)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return v, nil
}
