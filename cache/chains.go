package cache

import (
	"context"
	"encoding/json"
	"time"
)

// ChainLifetime is how long a link is kept. Upstreams hold conversations longer; a turn after that
// is searched by its own words.
const ChainLifetime = 24 * time.Hour

// MaxLink limits the size of a stored link, in bytes. Results of tools are most of it.
const MaxLink = 512 << 10

// A Link is what the next turn of a conversation that an upstream holds needs of the turns before
// it.
type Link struct {
	Questions []string `json:"questions,omitempty"` // the user's texts, last first
	Given     []uint64 `json:"given,omitempty"`     // hashes of the texts of sources in turns that the upstream keeps

	// Of a turn whose tool calls were answered in rounds:
	Last    string            `json:"last,omitempty"`    // id of the last round's response, if the client got another one
	Results []json.RawMessage `json:"results,omitempty"` // items with results that the upstream waits for and the client does not have
}

// Chains stores links in tiers, by tenant, by what its callers may see, and by the id of a response
// or a conversation. It is safe for concurrent use.
type Chains struct {
	links Tiered[Link]
	wait  time.Duration // for all far tiers of a call; 0 without any
}

// NewChains returns Chains with the given tiers, nearest first. A call waits for them at most as
// long as the Wait of the last one, in total. observe may be nil.
func NewChains(tiers []Tier, observe func(Event)) *Chains {
	return &Chains{wait: tiers[len(tiers)-1].Wait, links: Tiered[Link]{
		Kind: Links, Tiers: tiers, Observe: observe, Encode: encodeLink, Decode: decodeLink,
		Empty: func(Link) bool { return false },
		Size:  func(Link) int { return -1 }, // read once or twice, so kept only in the tier
	}}
}

func encodeLink(k Key, l Link) []byte {
	body, err := json.Marshal(l)
	if err != nil || len(body) > MaxLink {
		return nil
	}
	return Seal(k, body)
}

func decodeLink(k Key, value []byte) (l Link, err error) {
	body, err := Body(k, value)
	if err != nil {
		return l, err
	}
	if len(body) > MaxLink || json.Unmarshal(body, &l) != nil {
		return Link{}, MismatchBody
	}
	return l, nil
}

// linkID identifies a link. access identifies what the callers may see.
func linkID(access, id string) []byte { return appendNames(Links, []string{access, id}) }

// Find returns the link of a response or conversation; false if there is none, or not in time.
func (c *Chains) Find(ctx context.Context, tenant, access, id string) (Link, bool) {
	ctx, cancel := boundedBy(ctx, c.wait)
	defer cancel()
	return c.links.Get(ctx, tenant, linkID(access, id))
}

// Keep stores the link of a response or conversation, unless it is larger than MaxLink. When it
// returns, all replicas find the link, unless a tier failed.
func (c *Chains) Keep(ctx context.Context, tenant, access, id string, l Link) {
	ctx, cancel := boundedBy(ctx, c.wait)
	defer cancel()
	c.links.Put(ctx, tenant, linkID(access, id), l)
}
