package knowledge

import (
	"context"
	"slices"
	"strings"
)

// Prepare prepares searches of some bases, as far as they are indexed. The channel is closed when
// the attempt to measure their floor has ended.
func (g *Group) Prepare(ids ...string) (measured <-chan struct{}) {
	ids = slices.Sorted(slices.Values(ids))
	if u, _ := g.union(slices.Compact(ids)); u != nil {
		return u.measured
	}
	alone := make(chan struct{}) // a base has its own floor
	close(alone)
	return alone
}

// Changed must be called when the content of a base changes. Unions with it are then rebuilt, or
// dropped if no search used them, because they would keep files open that are no longer in use.
func (g *Group) Changed(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, u := range g.kept {
		i := slices.IndexFunc(u.holders, func(h baseSnapshot) bool { return h.id == id })
		if i < 0 || u.holders[i] == g.holder(id) {
			continue
		}
		if holders := g.holders(strings.Split(key, ",")); u.asked && len(holders) == len(u.holders) {
			g.keep(key, newUnion(holders, u))
			continue
		}
		u.end()
		delete(g.kept, key)
	}
}

// union returns those bases of ids that are indexed, and their union; nil for fewer than two.
func (g *Group) union(ids []string) (*union, []baseSnapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Read the contents under the lock: otherwise a union of an earlier content could replace that
	// of a later one.
	holders := g.holders(ids)
	if len(holders) < 2 {
		return nil, holders
	}
	key := keyOf(holders)
	u := g.kept[key]
	if u == nil || !slices.Equal(u.holders, holders) {
		u = g.keep(key, newUnion(holders, u))
	}
	g.uses++
	u.asked, u.last = true, g.uses
	return u, holders
}

// keyOf joins the ids of bases, which contain no comma.
func keyOf(holders []baseSnapshot) string {
	ids := make([]string, len(holders))
	for i, h := range holders {
		ids[i] = h.id
	}
	return strings.Join(ids, ",")
}

// keep stores a union, in place of an earlier one of the same bases, and starts to measure it. If
// there are too many, it evicts the one least recently used.
func (g *Group) keep(key string, u *union) *union {
	if g.kept == nil {
		g.kept = map[string]*union{}
	}
	if before := g.kept[key]; before != nil {
		before.end()
		u.last = before.last
	}
	g.kept[key] = u
	if len(g.kept) > keptUnions {
		oldest := ""
		for other, k := range g.kept {
			if other != key && (oldest == "" || k.last < g.kept[oldest].last) {
				oldest = other
			}
		}
		g.kept[oldest].end()
		delete(g.kept, oldest)
	}
	g.Start(func(ctx context.Context) {
		g.measuring.Lock()
		defer g.measuring.Unlock()
		u.measure(ctx)
	})
	return u
}

// holders returns those bases of ids that are indexed.
func (g *Group) holders(ids []string) []baseSnapshot {
	holders := make([]baseSnapshot, 0, len(ids))
	for _, id := range ids {
		if h := g.holder(id); h.content != nil {
			holders = append(holders, h)
		}
	}
	return holders
}

// holder returns a base with its current content.
func (g *Group) holder(id string) baseSnapshot {
	if base := g.Base(id); base != nil {
		return baseSnapshot{id, base.Content()}
	}
	return baseSnapshot{id: id}
}
