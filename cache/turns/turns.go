// Package turns keeps what clients do not see of turns in which a model called our tools, until the
// client's next requests bring the rest. It knows nothing of requests. Losing a turn costs a
// question that the model asks again, never correctness.
package turns

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
	"sidenote/rewrite/toolhistory"
)

// Lifetime is about how long a turn is kept.
const Lifetime = 10 * time.Minute

// An Owner is who may find a turn: the callers of one tenant that may see the same.
type Owner struct {
	Tenant string
	Access string // says what its callers may see
}

// OwnerOf returns the owner of what is found for q: its tenant, filter and bases.
func OwnerOf(q *retrieval.Query) Owner {
	access := appendSized(nil, q.Filter.String())
	for _, base := range q.Bases {
		access = appendSized(access, base.Knowledge)
	}
	return Owner{Tenant: q.Tenant, Access: string(access)}
}

// schema is the version of ids: it changes with what makes them.
const schema = 1

// id identifies the turn of a key, for this owner alone.
func (o Owner) id(k toolhistory.Key) []byte {
	return appendSized(appendSized(append([]byte{schema}, k[:]...), o.Tenant), o.Access)
}

func appendSized(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A Store keeps turns, under owner and key, in tiers. It is safe for concurrent use.
type Store struct {
	turns cache.Of[*toolhistory.Turn]
	wait  time.Duration // for all far tiers of one call; 0 without any
}

// NewStore returns a Store of tiers, nearest first: each is asked where those before it have not
// the turn. A call waits for them as long as the Wait of the last one, in all. observe may be nil.
func NewStore(tiers []cache.Tier, observe func(cache.Event)) *Store {
	return &Store{wait: tiers[len(tiers)-1].Wait, turns: cache.Of[*toolhistory.Turn]{
		Kind: cache.Turns, Tiers: tiers, Observe: observe, Encode: encode, Decode: decode,
		Empty: func(*toolhistory.Turn) bool { return false },
		Size:  func(*toolhistory.Turn) int { return -1 }, // read once or twice, so only the tier keeps it
	}}
}

func encode(k cache.Key, t *toolhistory.Turn) []byte {
	body, err := t.Encode()
	if err != nil {
		return nil
	}
	return cache.Seal(k, body)
}

func decode(k cache.Key, value []byte) (*toolhistory.Turn, error) {
	body, err := cache.Body(k, value)
	if err != nil {
		return nil, err
	}
	t, err := toolhistory.Decode(body)
	if err != nil {
		return nil, cache.MismatchBody
	}
	return t, nil
}

// Keep keeps a turn, in place of one that the owner has under the key. When it returns, every replica
// finds the turn, unless a tier failed. Its error says why the turn is not kept: see Encode of Turn.
func (s *Store) Keep(ctx context.Context, o Owner, k toolhistory.Key, t *toolhistory.Turn) error {
	if _, err := t.Encode(); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.turns.Put(ctx, o.Tenant, o.id(k), t)
	return nil
}

// MaxFound is how much Find finds, in bytes as Size of a turn counts them.
const MaxFound = 512 << 10

// Find returns the turns of an owner with these keys, which are oldest first; nil for those that are not
// there, not in time, or beyond MaxFound in all: the newest are asked for first. What is found stays
// where it is. Nobody changes what it returns.
func (s *Store) Find(ctx context.Context, o Owner, keys []toolhistory.Key) []*toolhistory.Turn {
	found := make([]*toolhistory.Turn, len(keys))
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	size := 0
	for i, k := range slices.Backward(keys) {
		t, ok := s.turns.Kept(ctx, o.Tenant, o.id(k))
		if !ok {
			continue
		}
		if size += t.Size(); size > MaxFound {
			break
		}
		found[i] = t
	}
	return found
}

// bounded ends when far tiers have had their time.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.wait)
}
