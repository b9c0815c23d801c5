package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// safetyEvery is how often a ledger looks whether its Redis still keeps what it counts.
const safetyEvery = time.Minute

// A Safety says whether a Redis keeps what a ledger counts in it.
type Safety struct {
	Known   bool // false until it could be asked
	Durable bool // it writes an append-only file, so kill -9 loses nothing that was acknowledged
	Evicts  bool // it may drop keys when its memory is full
}

// Safe tells whether nothing is known to lose counts.
func (s Safety) Safe() bool { return s.Known && s.Durable && !s.Evicts }

// safety is what a Ledger last found.
type safety struct {
	mu   sync.Mutex
	last Safety
}

// Safety returns what was last found. What is wrong is in the DB's Trouble too, and is
// told to Changed, while anything is limited.
func (l *Ledger) Safety() Safety {
	l.safety.mu.Lock()
	defer l.safety.mu.Unlock()
	return l.safety.last
}

// watchSafety looks now and then until the DB is closed.
func (l *Ledger) watchSafety() {
	l.store.db.probes.repeat(safetyEvery, l.lookForSafety)
}

// lookForSafety asks all servers that hold keys. It returns false if one did not answer,
// in which case what was known stays.
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

// infoField returns the value of a line "name:value" of what INFO says.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
