package cache

import (
	"context"
	"encoding/json"
	"time"
)

// HistoryLifetime is how long a value of a History is kept. Upstreams hold conversations longer; a
// turn after that is treated as the first.
const HistoryLifetime = 24 * time.Hour

// maxHistory limits the size of a stored value, in bytes. Results of tools and sources are most of it.
const maxHistory = 512 << 10

// A Link is what the next turn of a conversation that an upstream holds needs of the turns before
// it.
type Link struct {
	Questions []string `json:"questions,omitempty"` // the user's texts, last first
	Given     []uint64 `json:"given,omitempty"`     // hashes of the texts of sources in turns that the upstream keeps

	// Of a turn whose tool calls were answered in rounds:
	Last    string            `json:"last,omitempty"`    // id of the last round's response, if the client got another one
	Results []json.RawMessage `json:"results,omitempty"` // items with results that the upstream waits for and the client does not have
}

// A History stores what later turns of conversations need in tiers, by tenant, by what its callers
// may see, and by an id of the turn. Values are encoded as JSON. It is safe for concurrent use.
type History[T any] struct {
	kind   Kind
	values Tiered[T]
	wait   time.Duration // for all far tiers of a call; 0 without any
}

// NewHistory returns a History of a kind with the given tiers, nearest first. A call waits for them
// at most as long as the Wait of the last one, in total. observe may be nil.
func NewHistory[T any](kind Kind, tiers []Tier, observe func(Event)) *History[T] {
	return &History[T]{kind: kind, wait: tiers[len(tiers)-1].Wait, values: Tiered[T]{
		Kind: kind, Tiers: tiers, Observe: observe, Encode: encodeHistory[T], Decode: decodeHistory[T],
		Empty: func(T) bool { return false },
		Size:  func(T) int { return -1 }, // read once or twice, so kept only in the tier
	}}
}

func encodeHistory[T any](k Key, v T) []byte {
	body, err := json.Marshal(v)
	if err != nil || len(body) > maxHistory {
		return nil
	}
	return Seal(k, body)
}

func decodeHistory[T any](k Key, value []byte) (v T, err error) {
	body, err := Body(k, value)
	if err != nil {
		return v, err
	}
	if len(body) > maxHistory || json.Unmarshal(body, &v) != nil {
		var none T
		return none, MismatchBody
	}
	return v, nil
}

// entryID identifies a value. access identifies what the callers may see.
func (h *History[T]) entryID(access, id string) []byte {
	return appendNames(h.kind, []string{access, id})
}

// Find returns the value of a turn; false if there is none, or not in time.
func (h *History[T]) Find(ctx context.Context, tenant, access, id string) (T, bool) {
	ctx, cancel := boundedBy(ctx, h.wait)
	defer cancel()
	return h.values.Get(ctx, tenant, h.entryID(access, id))
}

// Each calls do with the values of turns that are found in time, in the order of ids, until do returns
// false. i is the index of the id.
func (h *History[T]) Each(ctx context.Context, tenant, access string, ids []string, do func(i int, v T) bool) {
	ctx, cancel := boundedBy(ctx, h.wait)
	defer cancel()
	for i, id := range ids {
		if v, ok := h.values.Get(ctx, tenant, h.entryID(access, id)); ok && !do(i, v) {
			return
		}
	}
}

// Keep stores the value of a turn, unless it is too large. When it returns, all replicas find the
// value, unless a tier failed.
func (h *History[T]) Keep(ctx context.Context, tenant, access, id string, v T) {
	ctx, cancel := boundedBy(ctx, h.wait)
	defer cancel()
	h.values.Put(ctx, tenant, h.entryID(access, id), v)
}
