package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
)

// How much of a server that does not evict keys the cache leaves for others. Replicas do not
// know of each other, so between two looks at the server each of them writes only a part of
// what is free, or a small part of all memory: up to headroomReplicas of them together cannot
// use more than what is free and the share.
const (
	headroomShare    = 5                    // one part of so many of the memory is left free
	headroomReplicas = 16                   // that write at the same time
	leastGrant       = 8 * headroomReplicas // the small part
	headroomFor      = time.Second
	fullBelow        = 40  // nothing is written while less than this part of the memory may be
	roomAbove        = 20  // and again when more than this part may be
	keyOverhead      = 256 // bytes that a key takes beside its name and value, at most
)

var errHeldBack = fmt.Errorf("redis %s: its memory is nearly full: %w", opSet, cache.ErrSkipped)

// A headroom keeps the cache from filling a server whose memory others need. A full server
// that does not evict keys refuses all writes, also those that count budgets, until values
// of the cache expire; so the cache stops before.
type headroom struct {
	reserved func() bool   // nil: nobody needs the memory
	turn     chan struct{} // holds one while the rest is used

	left   int64     // bytes that may be written before the next look
	looked time.Time // zero: never
	full   bool      // nothing is written

	told atomic.Bool // full was reported
}

const headroomSubject = "headroom"

func newHeadroom(reserved func() bool) *headroom {
	return &headroom{reserved: reserved, turn: make(chan struct{}, 1)}
}

// mayWrite tells whether so many bytes may be written. It reports when that ends and when it
// begins again.
func (s *Store) mayWrite(ctx context.Context, bytes int) bool {
	h := s.db.headroom
	if h.reserved == nil || !h.reserved() {
		if h.told.Swap(false) {
			s.db.health.clear(headroomSubject)
		}
		return true
	}
	if s.breaker.allow() == 0 {
		return true // the call says so
	}
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-h.turn }()
	need := int64(bytes)*5/4 + keyOverhead
	if old := time.Since(h.looked) >= headroomFor; old || !h.full && need > h.left {
		s.look(ctx)
	}
	if h.full || need > h.left {
		return false
	}
	h.left -= need
	return true
}

// look asks the server how much may be written. Where it does not say, all may: what is wrong
// with it shows when it is written to. The turn is held.
func (s *Store) look(ctx context.Context) {
	h := s.db.headroom
	m, err := s.db.memory(ctx)
	h.looked = time.Now()
	if err != nil || m.most == 0 {
		h.left, h.full = math.MaxInt64, false
	} else {
		h.left = max(m.free/headroomReplicas, m.most/leastGrant)
		h.full = m.free < m.most/fullBelow || h.full && m.free < m.most/roomAbove
	}
	h.told.Store(h.full)
	s.db.health.set(headroomSubject, "redis "+s.db.address+": its memory is nearly full, and budgets need the rest; "+readsOnly, h.full)
}

// A memory says what memory a server has for keys. The zero memory is not bounded.
type memory struct {
	most int64
	free int64 // until only the share of others is left; negative beyond that
}

// memory returns that of the server, or of the one that has the least to spare.
func (d *DB) memory(ctx context.Context) (least memory, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var mu sync.Mutex
	err = d.forEachMaster(ctx, func(ctx context.Context, client goredis.Cmdable) error {
		info, err := client.Info(ctx, "memory").Result()
		if err != nil || infoField(info, "maxmemory_policy") != "noeviction" {
			return err
		}
		most, err1 := strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
		used, err2 := strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
		free := most - most/headroomShare - used
		mu.Lock()
		defer mu.Unlock()
		if most > 0 && (least.most == 0 || free < least.free) {
			least = memory{most, free}
		}
		return errors.Join(err1, err2)
	})
	return least, err
}

// forEachMaster calls f for each server that holds keys, of a cluster concurrently.
func (d *DB) forEachMaster(ctx context.Context, f func(context.Context, goredis.Cmdable) error) error {
	if cluster, ok := d.client.(*goredis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return f(ctx, node) })
	}
	return f(ctx, d.client)
}
