package knowledge

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
)

// keptFilters is the number of filters for which a Content keeps the texts that they
// allow: policies use the same few again and again. Each takes a bit for each text.
const keptFilters = 16

// allowed returns by segment the texts of the documents that a filter chooses, for
// bm25.Index.Search: nil are all.
func (c *Content) allowed(ctx context.Context, f *retrieval.Filter) ([]bm25.Bitmap, error) {
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
		var err error
		if allowed[i], all, err = s.Allowed(f); err != nil {
			c.tell(err)
			return nil, err
		}
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

// A filterCache keeps the texts that the filters used last allow.
type filterCache struct {
	mu   sync.Mutex
	kept []keptFilter // the one used last is last; at most keptFilters
}

type keptFilter struct {
	key     [sha256.Size]byte
	allowed []bm25.Bitmap
}

func (fc *filterCache) find(key [sha256.Size]byte) (allowed []bm25.Bitmap, ok bool) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	i := slices.IndexFunc(fc.kept, func(k keptFilter) bool { return k.key == key })
	if i < 0 {
		return nil, false
	}
	found := fc.kept[i]
	fc.kept = append(slices.Delete(fc.kept, i, i+1), found)
	return found.allowed, true
}

func (fc *filterCache) keep(key [sha256.Size]byte, allowed []bm25.Bitmap) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if slices.ContainsFunc(fc.kept, func(k keptFilter) bool { return k.key == key }) {
		return // another search has added it meanwhile
	}
	if len(fc.kept) == keptFilters {
		fc.kept = slices.Delete(fc.kept, 0, 1)
	}
	fc.kept = append(fc.kept, keptFilter{key, allowed})
}
