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

// keptFilters is the number of filters for which a Content keeps the texts that they
// allow: policies use the same few again and again. Each takes a bit for each text.
const keptFilters = 16

// allowed returns by segment the texts of the documents that a filter chooses, for
// bm25.Index.Search: nil are all.
func (c *Content) allowed(ctx context.Context, f *filter.Filter) ([]bm25.Bitmap, error) {
	if f == nil {
		return nil, nil
	}
	key := sha256.Sum256([]byte(f.String())) // of a long filter only this is kept
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

// tell reports the damage that an error is about, if it is about some.
func (c *Content) tell(err error) {
	if damage := (*index.DamageError)(nil); errors.As(err, &damage) && c.options.Damaged != nil {
		c.options.Damaged(damage)
	}
}

// A filterCache keeps the texts that filters allow.
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
	for other := range fc.kept { // in no order: where there is one too many, any of them goes
		if len(fc.kept) > keptFilters && other != key {
			delete(fc.kept, other)
		}
	}
}
