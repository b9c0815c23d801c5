// Package outputs remembers what the stages of staged answers said, so that a question that is asked
// again costs the last of them only. It knows nothing of stages. Losing an output costs a call of a
// model, never correctness.
package outputs

import (
	"context"
	"encoding/binary"
	"time"

	"sidenote/cache"
)

// MaxSize is the size of the largest output that is kept, in bytes.
const MaxSize = 256 << 10

// A Memory keeps outputs of stages, under keys that Key makes, in tiers. It is safe for concurrent use.
type Memory struct {
	outputs cache.Of[output]
	wait    time.Duration // for all far tiers of one call; 0 without any
}

// An output is what a stage said, and when that is forgotten.
type output struct {
	text []byte
	ends time.Time
}

// New returns a Memory of tiers, nearest first: each is asked where those before it do not have the
// output. A call waits for them as long as the Wait of the last one, in all. The lifetimes of tiers
// do not count. observe may be nil.
func New(tiers []cache.Tier, observe func(cache.Event)) *Memory {
	return &Memory{wait: tiers[len(tiers)-1].Wait, outputs: cache.Of[output]{
		Kind: cache.Outputs, Tiers: tiers, Observe: observe, Encode: encode, Decode: decode,
		Left: func(o output) time.Duration { return time.Until(o.ends) },
		Size: func(output) int { return -1 }, // as large as a tier's, which has it anyway
	}}
}

// A value's body is when it ends, in Unix milliseconds as eight bytes, little-endian, and the text. The
// end holds in all tiers, also where a replica takes a value from a far one.

func encode(k cache.Key, o output) []byte {
	body := make([]byte, 0, endSize+len(o.text))
	body = binary.LittleEndian.AppendUint64(body, uint64(o.ends.UnixMilli()))
	return cache.Seal(k, append(body, o.text...))
}

const endSize = 8

func decode(k cache.Key, value []byte) (output, error) {
	body, err := cache.Body(k, value)
	switch {
	case err != nil:
		return output{}, err
	case len(body) <= endSize || len(body) > endSize+MaxSize:
		return output{}, cache.MismatchBody
	}
	return output{body[endSize:], time.UnixMilli(int64(binary.LittleEndian.Uint64(body)))}, nil
}

// digestSize is the size of what a key begins with. The rest is the tenant, which values are checked
// against.
const digestSize = len(cache.Key{}.Digest)

// Key returns the key of what a stage says: to a tenant, to the body of the stage's whole request, by
// an upstream. Upstream names it, and tells apart the credentials that it is asked with where these are
// the caller's own. Different arguments have different keys.
func Key(tenant, upstream string, body []byte) string {
	k := cache.NamedKey(cache.Outputs, tenant, upstream, string(body))
	return string(k.Digest[:]) + tenant
}

// Get returns the output that is kept under a key; false if there is none, or not in time. Nobody
// changes the output.
func (m *Memory) Get(ctx context.Context, key string) (answer []byte, ok bool) {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	o, ok := m.outputs.Kept(ctx, key[digestSize:], []byte(key))
	return o.text, ok
}

// Put keeps an output for ttl, in place of one that is kept under the key. An empty output, or one larger
// than MaxSize, is not kept. When it returns, every replica finds the output, unless a tier failed.
func (m *Memory) Put(ctx context.Context, key string, answer []byte, ttl time.Duration) {
	if len(answer) == 0 || len(answer) > MaxSize || ttl <= 0 {
		return
	}
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	m.outputs.Put(ctx, key[digestSize:], []byte(key), output{answer, time.Now().Add(ttl)})
}

// bounded ends when far tiers have had their time.
func (m *Memory) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, m.wait)
}
