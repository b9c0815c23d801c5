package toolcalls

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
)

// TurnLifetime is about how long a turn is kept.
const TurnLifetime = 10 * time.Minute

// A TurnOwner is who may find a turn: the callers of one tenant that may see the same.
type TurnOwner struct {
	Tenant string
	Access string // says what its callers may see
}

// TurnOwnerOf returns the owner of what is found for q: its tenant, filter and bases.
func TurnOwnerOf(q *retrieval.Query) TurnOwner {
	access := appendSizedEntry(nil, q.Filter.String())
	for _, base := range q.Bases {
		access = appendSizedEntry(access, base.Knowledge)
	}
	return TurnOwner{Tenant: q.Tenant, Access: string(access)}
}

// storeSchema is the version of ids: it changes with what makes them.
const storeSchema = 1

// id identifies the turn of a key, for this owner alone.
func (o TurnOwner) id(k TurnKey) []byte {
	return appendSizedEntry(appendSizedEntry(append([]byte{storeSchema}, k[:]...), o.Tenant), o.Access)
}

func appendSizedEntry(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A TurnStore keeps turns, under owner and key, in tiers. It is safe for concurrent use.
type TurnStore struct {
	turns cache.Of[*Turn]
	wait  time.Duration // for all far tiers of one call; 0 without any
}

// NewTurnStore returns a TurnStore of tiers, nearest first: each is asked where those before it have not
// the turn. A call waits for them as long as the Wait of the last one, in all. observe may be nil.
func NewTurnStore(tiers []cache.Tier, observe func(cache.Event)) *TurnStore {
	return &TurnStore{wait: tiers[len(tiers)-1].Wait, turns: cache.Of[*Turn]{
		Kind: cache.Turns, Tiers: tiers, Observe: observe, Encode: encodeEntry, Decode: decode,
		Empty: func(*Turn) bool { return false },
		Size:  func(*Turn) int { return -1 }, // read once or twice, so only the tier keeps it
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

// Keep keeps a turn, in place of one that the owner has under the key. When it returns, every replica
// finds the turn, unless a tier failed. Its error says why the turn is not kept: see Encode of Turn.
func (s *TurnStore) Keep(ctx context.Context, o TurnOwner, k TurnKey, t *Turn) error {
	if _, err := t.Encode(); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	s.turns.Put(ctx, o.Tenant, o.id(k), t)
	return nil
}

// MaxTurnsFound is how much Find finds, in bytes as Size of a turn counts them.
const MaxTurnsFound = 512 << 10

// Find returns the turns of an owner with these keys, which are oldest first; nil for those that are not
// there, not in time, or beyond MaxFound in all: the newest are asked for first. What is found stays
// where it is. Nobody changes what it returns.
func (s *TurnStore) Find(ctx context.Context, o TurnOwner, keys []TurnKey) []*Turn {
	found := make([]*Turn, len(keys))
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	size := 0
	for i, k := range slices.Backward(keys) {
		t, ok := s.turns.Kept(ctx, o.Tenant, o.id(k))
		if !ok {
			continue
		}
		if size += t.Size(); size > MaxTurnsFound {
			break
		}
		found[i] = t
	}
	return found
}

// bounded ends when far tiers have had their time.
func (s *TurnStore) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.wait)
}
