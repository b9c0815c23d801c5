package knowledge

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// keptFilters is the number of filters whose matching texts a Content caches; policies reuse a few
// filters. Each takes one bit per text.
const keptFilters = 16

// allowed returns, per segment, the texts of the documents that match a filter, for
// bm25.Index.Search; nil allows all.
func (c *Content) allowed(ctx context.Context, f *filter.Filter) ([]bm25.Bitmap, error) {
	if f == nil {
		return nil, nil
	}
	key := sha256.Sum256([]byte(f.String())) // long filters are kept only as a digest
	if allowed, ok := c.filters.find(key); ok {
		return allowed, nil
	}
	allowed, every := make([]bm25.Bitmap, len(c.segments)), true
	for i, s := range c.segments {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var all bool
		allowed[i], all = s.Allowed(f)
		every = every && all
	}
	if every {
		allowed = nil
	}
	c.filters.keep(key, allowed)
	return allowed, nil
}

// tell reports err to ContentOptions.Damaged if it is a DamageError.
func (c *Content) tell(err error) {
	if damage := (*index.DamageError)(nil); errors.As(err, &damage) && c.options.Damaged != nil {
		c.options.Damaged(damage)
	}
}

// A filterCache maps filters to the texts they allow.
type filterCache struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte][]bm25.Bitmap // at most keptFilters
}

func newFilterCache() filterCache {
	return filterCache{kept: map[[sha256.Size]byte][]bm25.Bitmap{}}
}

func (fc *filterCache) find(key [sha256.Size]byte) (allowed []bm25.Bitmap, ok bool) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	allowed, ok = fc.kept[key]
	return allowed, ok
}

func (fc *filterCache) keep(key [sha256.Size]byte, allowed []bm25.Bitmap) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	fc.kept[key] = allowed
	for other := range fc.kept { // evict an arbitrary other entry
		if len(fc.kept) > keptFilters && other != key {
			delete(fc.kept, other)
		}
	}
}
