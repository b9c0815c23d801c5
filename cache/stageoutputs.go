package cache

import (
	"context"
	"encoding/binary"
	"time"
)

// MaxStageOutput limits the size of a stored output, in bytes.
const MaxStageOutput = 256 << 10

// A StageOutputs caches outputs of stages in tiers, with keys from StageOutputKey. It is safe for
// concurrent use.
type StageOutputs struct {
	outputs Tiered[output]
	wait    time.Duration // for all far tiers of a call; 0 without any
}

// An output is the text of a stage and the time at which it expires.
type output struct {
	text []byte
	ends time.Time
}

// NewStageOutputs returns a StageOutputs with the given tiers, nearest first: each is asked if
// those before it do not have the output. A call waits for them at most as long as the Wait of the
// last one, in total. The TTLs of tiers are ignored. observe may be nil.
func NewStageOutputs(tiers []Tier, observe func(Event)) *StageOutputs {
	return &StageOutputs{wait: tiers[len(tiers)-1].Wait, outputs: Tiered[output]{
		Kind: Outputs, Tiers: tiers, Observe: observe, Encode: encode, Decode: decode,
		Remaining: func(o output) time.Duration { return time.Until(o.ends) },
		Size:      func(output) int { return -1 }, // never cached beside the tier, which has the same bytes anyway
	}}
}

// The body of a value is its expiry, in Unix milliseconds as eight little-endian bytes, and the
// text. The expiry applies to all tiers, also if a replica copies a value from a far one.

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

// outputDigestSize is the size of the digest at the start of a key. The rest is the tenant,
// against which values are checked.
const outputDigestSize = len(Key{}.Digest)

// StageOutputKey returns the key for the output of a stage, given its tenant, upstream and whole
// request body. If the upstream is called with the caller's own credentials, upstream must also
// identify these. Different arguments have different keys.
func StageOutputKey(tenant, upstream string, body []byte) string {
	k := NamedKey(Outputs, tenant, upstream, string(body))
	return string(k.Digest[:]) + tenant
}

// Get returns the output stored under key; false if there is none, or not in time. It must not be
// changed.
func (m *StageOutputs) Get(ctx context.Context, key string) (answer []byte, ok bool) {
	ctx, cancel := boundedBy(ctx, m.wait)
	defer cancel()
	o, ok := m.outputs.Get(ctx, key[outputDigestSize:], []byte(key))
	return o.text, ok
}

// Put stores an output for ttl, replacing one with the same key. An empty output, or one larger
// than MaxStageOutput, is not stored. When it returns, all replicas find the output, unless a tier
// failed.
func (m *StageOutputs) Put(ctx context.Context, key string, answer []byte, ttl time.Duration) {
	if len(answer) == 0 || len(answer) > MaxStageOutput || ttl <= 0 {
		return
	}
	ctx, cancel := boundedBy(ctx, m.wait)
	defer cancel()
	m.outputs.Put(ctx, key[outputDigestSize:], []byte(key), output{answer, time.Now().Add(ttl)})
}

// boundedBy limits ctx to the time for far tiers; 0 is no limit.
func boundedBy(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait)
}
