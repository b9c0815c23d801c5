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

// How much memory of a server without eviction the cache leaves for others. Replicas do not know
// of each other, so between two checks of the server each one writes only a part of what is free,
// or a small part of the total: up to headroomReplicas of them together cannot use more than the
// free memory and the reserved share.
const (
	headroomShare    = 5                    // 1/headroomShare of the memory is left free
	headroomReplicas = 16                   // replicas that may write at the same time
	leastGrant       = 8 * headroomReplicas // 1/leastGrant of the memory is the small part
	headroomFor      = time.Second
	fullBelow        = 40  // writing stops when less than 1/fullBelow of the memory may be written
	roomAbove        = 20  // and resumes when more than 1/roomAbove may be written
	keyOverhead      = 256 // most bytes that a key takes in addition to its name and value
)

var errHeldBack = fmt.Errorf("redis %s: its memory is nearly full: %w", opSet, cache.ErrSkipped)

// A headroom keeps the cache from filling a server whose memory others need. A full server without
// eviction refuses all writes, including those of budgets, until cached values expire; so the
// cache stops before.
type headroom struct {
	reserved func() bool   // nil: nobody needs the memory
	turn     chan struct{} // holds a value while the fields below are in use

	left   int64     // bytes that may be written before the next check
	looked time.Time // time of the last check; zero if never
	full   bool      // nothing is written

	told atomic.Bool // full was reported
}

const headroomSubject = "headroom"

func newHeadroom(reserved func() bool) *headroom {
	return &headroom{reserved: reserved, turn: make(chan struct{}, 1)}
}

// mayWrite reports whether bytes may be written. It reports to health when writing stops and when
// it resumes.
func (s *Store) mayWrite(ctx context.Context, bytes int) bool {
	h := s.db.headroom
	if h.reserved == nil || !h.reserved() {
		if h.told.Swap(false) {
			s.db.health.clear(headroomSubject)
		}
		return true
	}
	if s.breaker.allow() == 0 {
		return true // the call reports the error
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

// look asks the server how much may be written. If the server does not say, there is no limit:
// errors will show at the write. The caller holds turn.
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

// A memory describes the memory of a server for keys. The zero memory is unlimited.
type memory struct {
	most int64
	free int64 // until only the reserved share is left; negative beyond that
}

// memory returns the memory of the server, or of the one with the least to spare.
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

// forEachMaster calls f for each server that holds keys; in a cluster, concurrently.
func (d *DB) forEachMaster(ctx context.Context, f func(context.Context, goredis.Cmdable) error) error {
	if cluster, ok := d.client.(*goredis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return f(ctx, node) })
	}
	return f(ctx, d.client)
}
