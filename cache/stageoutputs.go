package cache

import (
	"context"
	"encoding/binary"
	"time"
)

// MaxStageOutput is the size of the largest output that is kept, in bytes.
const MaxStageOutput = 256 << 10

// A StageOutputs keeps outputs of stages, under keys that Key makes, in tiers. It is safe for concurrent use.
type StageOutputs struct {
	outputs Of[output]
	wait    time.Duration // for all far tiers of one call; 0 without any
}

// An output is what a stage said, and when that is forgotten.
type output struct {
	text []byte
	ends time.Time
}

// NewStageOutputs returns a Memory of tiers, nearest first: each is asked where those before it do not have the
// output. A call waits for them as long as the Wait of the last one, in all. The lifetimes of tiers
// do not count. observe may be nil.
func NewStageOutputs(tiers []Tier, observe func(Event)) *StageOutputs {
	return &StageOutputs{wait: tiers[len(tiers)-1].Wait, outputs: Of[output]{
		Kind: Outputs, Tiers: tiers, Observe: observe, Encode: encode, Decode: decode,
		Left: func(o output) time.Duration { return time.Until(o.ends) },
		Size: func(output) int { return -1 }, // as large as a tier's, which has it anyway
	}}
}

// A value's body is when it ends, in Unix milliseconds as eight bytes, little-endian, and the text. The
// end holds in all tiers, also where a replica takes a value from a far one.

func encode(k Key, o output) []byte {
	body := make([]byte, 0, endSize+len(o.text))
	body = binary.LittleEndian.AppendUint64(body, uint64(o.ends.UnixMilli()))
	return Seal(k, append(body, o.text...))
}

const endSize = 8

func decode(k Key, value []byte) (output, error) {
	body, err := Body(k, value)
	switch {
	case err != nil:
		return output{}, err
	case len(body) <= endSize || len(body) > endSize+MaxStageOutput:
		return output{}, MismatchBody
	}
	return output{body[endSize:], time.UnixMilli(int64(binary.LittleEndian.Uint64(body)))}, nil
}

// outputDigestSize is the size of what a key begins with. The rest is the tenant, which values are checked
// against.
const outputDigestSize = len(Key{}.Digest)

// StageOutputKey returns the key of what a stage says: to a tenant, to the body of the stage's whole request, by
// an upstream. Upstream names it, and tells apart the credentials that it is asked with where these are
// the caller's own. Different arguments have different keys.
func StageOutputKey(tenant, upstream string, body []byte) string {
	k := NamedKey(Outputs, tenant, upstream, string(body))
	return string(k.Digest[:]) + tenant
}

// Get returns the output that is kept under a key; false if there is none, or not in time. Nobody
// changes the output.
func (m *StageOutputs) Get(ctx context.Context, key string) (answer []byte, ok bool) {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	o, ok := m.outputs.Kept(ctx, key[outputDigestSize:], []byte(key))
	return o.text, ok
}

// Put keeps an output for ttl, in place of one that is kept under the key. An empty output, or one larger
// than MaxSize, is not kept. When it returns, every replica finds the output, unless a tier failed.
func (m *StageOutputs) Put(ctx context.Context, key string, answer []byte, ttl time.Duration) {
	if len(answer) == 0 || len(answer) > MaxStageOutput || ttl <= 0 {
		return
	}
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	m.outputs.Put(ctx, key[outputDigestSize:], []byte(key), output{answer, time.Now().Add(ttl)})
}

// bounded ends when far tiers have had their time.
func (m *StageOutputs) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, m.wait)
}
