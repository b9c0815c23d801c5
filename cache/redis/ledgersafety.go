package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// safetyEvery is the interval at which a ledger checks whether its Redis persists what it counts.
const safetyEvery = time.Minute

// A Safety describes whether a Redis persists what a ledger counts in it.
type Safety struct {
	Known   bool // false until the Redis answered
	Durable bool // it writes an append-only file, so kill -9 loses nothing that was acknowledged
	Evicts  bool // it may evict keys when its memory is full
}

// Safe reports whether the Redis is known not to lose counts.
func (s Safety) Safe() bool { return s.Known && s.Durable && !s.Evicts }

// safety holds the last result of a Ledger's check.
type safety struct {
	mu   sync.Mutex
	last Safety
}

// Safety returns the result of the last check. While there are limits, problems are also in the
// DB's Trouble and reported to Changed.
func (l *Ledger) Safety() Safety {
	l.safety.mu.Lock()
	defer l.safety.mu.Unlock()
	return l.safety.last
}

// watchSafety checks periodically until the DB is closed.
func (l *Ledger) watchSafety() {
	l.store.db.probes.repeat(safetyEvery, l.lookForSafety)
}

// lookForSafety asks all servers that hold keys. It returns false, and keeps the last result, if
// one did not answer.
func (l *Ledger) lookForSafety(ctx context.Context) bool {
	db := l.store.db
	ctx, cancel := context.WithTimeout(ctx, db.probeTimeout())
	defer cancel()
	found := Safety{Known: true, Durable: true}
	var mu sync.Mutex
	err := db.forEachMaster(ctx, func(ctx context.Context, client goredis.Cmdable) error {
		info, err := client.Info(ctx).Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found.Durable = found.Durable && infoField(info, "aof_enabled") == "1"
		found.Evicts = found.Evicts || infoField(info, "maxmemory_policy") != "noeviction"
		return nil
	})
	if err != nil && kindOf(err) != Denied {
		return false
	}
	needed := l.limited == nil || l.limited()
	db.health.set(l.store.subject("rights"), "redis "+db.address+": whether it keeps budgets cannot be seen; grant +info", needed && err != nil)
	if err != nil {
		return true
	}
	db.health.set(l.store.subject("durability"),
		"redis "+db.address+": a crash of it loses what budgets counted; set appendonly yes", needed && !found.Durable)
	db.health.set(l.store.subject("eviction"),
		"redis "+db.address+": it may drop what budgets counted; set maxmemory-policy noeviction", needed && found.Evicts)
	l.safety.mu.Lock()
	defer l.safety.mu.Unlock()
	l.safety.last = found
	return true
}

// infoField returns the value of a line "name:value" in the output of INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
