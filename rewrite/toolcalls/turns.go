package toolcalls

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
)

// TurnLifetime is about how long a turn is stored.
const TurnLifetime = 10 * time.Minute

// A TurnOwner limits who may find a turn: callers of one tenant with the same access.
type TurnOwner struct {
	Tenant string
	Access string // identifies what these callers may see
}

// TurnOwnerOf returns the owner for a query: its tenant, filter and bases.
func TurnOwnerOf(q *retrieval.Query) TurnOwner {
	access := appendSizedEntry(nil, q.Filter.String())
	for _, base := range q.Bases {
		access = appendSizedEntry(access, base.Knowledge)
	}
	return TurnOwner{Tenant: q.Tenant, Access: string(access)}
}

// storeSchema is the version of ids. Increment it when their format changes.
const storeSchema = 1

// id returns the store's key for the turn k of this owner.
func (o TurnOwner) id(k TurnKey) []byte {
	return appendSizedEntry(appendSizedEntry(append([]byte{storeSchema}, k[:]...), o.Tenant), o.Access)
}

func appendSizedEntry(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A TurnStore stores turns by owner and key, in cache tiers. It is safe for concurrent use.
type TurnStore struct {
	turns cache.Tiered[*Turn]
	wait  time.Duration // time limit per call for all remote tiers; 0 if there are none
}

// NewTurnStore returns a TurnStore with the given tiers, nearest first. Each is asked for turns
// that those before it lack. The Wait of the last tier limits the time of a call. observe may be
// nil.
func NewTurnStore(tiers []cache.Tier, observe func(cache.Event)) *TurnStore {
	return &TurnStore{wait: tiers[len(tiers)-1].Wait, turns: cache.Tiered[*Turn]{
		Kind: cache.Turns, Tiers: tiers, Observe: observe, Encode: encodeEntry, Decode: decode,
		Empty: func(*Turn) bool { return false },
		Size:  func(*Turn) int { return -1 }, // read once or twice, so keep it only in the tier
	}}
}

func encodeEntry(k cache.Key, t *Turn) []byte {
	body, err := t.Encode()
	if err != nil {
		return nil
	}
	return cache.Seal(k, body)
}

func decode(k cache.Key, value []byte) (*Turn, error) {
	body, err := cache.Body(k, value)
	if err != nil {
		return nil, err
	}
	t, err := DecodeTurn(body)
	if err != nil {
		return nil, cache.MismatchBody
	}
	return t, nil
}

// Keep stores a turn, replacing the owner's turn with this key. When it returns, every replica
// can find the turn, unless a tier failed. The error says why the turn cannot be stored; see
// Turn.Encode.
func (s *TurnStore) Keep(ctx context.Context, o TurnOwner, k TurnKey, t *Turn) error {
	if _, err := t.Encode(); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.turns.Put(ctx, o.Tenant, o.id(k), t)
	return nil
}

// MaxFoundSize is the maximum total Size of the turns that Find returns, in bytes.
const MaxFoundSize = 512 << 10

// Find returns the owner's turns with these keys, which must be oldest first. A turn is nil if it
// is missing, too late, or would exceed MaxFoundSize; the newest are looked up first. Turns stay
// in the store and must not be modified.
func (s *TurnStore) Find(ctx context.Context, o TurnOwner, keys []TurnKey) []*Turn {
	found := make([]*Turn, len(keys))
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	size := 0
	for i, k := range slices.Backward(keys) {
		t, ok := s.turns.Get(ctx, o.Tenant, o.id(k))
		if !ok {
			continue
		}
		if size += t.Size(); size > MaxFoundSize {
			break
		}
		found[i] = t
	}
	return found
}

// bounded limits the time for the remote tiers.
func (s *TurnStore) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.wait)
}
