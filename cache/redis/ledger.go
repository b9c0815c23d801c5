package redis

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
	"sidenote/cache/budget"
)

//go:embed ledger/*.lua
var scripts embed.FS

// script returns a script of the ledger, concatenated from its parts.
func script(parts ...string) *goredis.Script {
	var text strings.Builder
	for _, part := range parts {
		b, err := scripts.ReadFile("ledger/" + part + ".lua")
		if err != nil {
			panic("BUG: " + err.Error())
		}
		text.Write(b)
	}
	return goredis.NewScript(text.String())
}

// probeScript writes, as the scripts of the ledger do, but to a short-lived key.
var probeScript = goredis.NewScript(`return redis.call('SET', KEYS[1], '1', 'PX', '1000')`)

// ledgerCommands are the permissions that a ledger and a Usage need in addition to those of a Store.
const ledgerCommands = "+eval +evalsha +time +info +pexpire +hget +hmget +hset +hdel +hexists +hlen " +
	"+hincrby +hgetall +zadd +zrem +zrange +zrangebyscore +zremrangebyrank +zscore +zcard"

// LedgerOptions configure a Ledger.
type LedgerOptions struct {
	// Now replaces the clock in tests; nil for the clock of the Redis.
	Now func() time.Time
	// Limited reports whether there are any limits at present; nil if there always are. Without
	// limits it does not matter if the Redis may evict keys or does not answer, and neither is
	// reported as a problem.
	Limited func() bool
	// Meanwhile describes the effect of a failing Redis, for the end of messages; nil for "budgets
	// cannot be counted".
	Meanwhile func() string
	// RefuseLost makes the ledger refuse a tenant (budget.ErrLost), and leave the record
	// unchanged, if the Redis has lost counts that this process has seen. Otherwise it corrects
	// the record.
	RefuseLost bool
}

// A Ledger is a budget.Ledger, Renewer and Reporter that all replicas share on a Redis. Days,
// months, minutes and leases follow the clock of the Redis. Each call is one round trip and takes
// at most the DB's timeout. A call that fails or has no answer after half of that is repeated
// once, which is safe for all calls; the first answer counts. While the breaker is open, calls are
// refused at once.
//
// A tenant has four keys, which share a slot of a cluster and expire 65 days after its last call.
// If the Redis comes back with less spent by a tenant than this process has seen, the next Reserve
// or Settle raises it; see Decision.RolledBack. Amounts that were held then are charged when they
// are settled.
type Ledger struct {
	store *Store
	now   func() time.Time
	nonce string // name for records created by this process
	seen  sightings

	limited func() bool
	onLost  string // argument of reserve.lua
	safety  safety

	reserve, settle, renew, usage *goredis.Script
}

// Ledger returns the budget ledger of a Redis, with its own breaker. Use is its name in metrics.
// It checks in the background whether the Redis persists what is counted.
func (d *DB) Ledger(use string, o LedgerOptions) *Ledger {
	if o.Meanwhile == nil {
		o.Meanwhile = func() string { return "budgets cannot be counted" }
	}
	var quiet func() bool
	if o.Limited != nil {
		quiet = func() bool { return !o.Limited() }
	}
	l := &Ledger{
		store: d.newStore(use, o.Meanwhile, quiet), now: o.Now, limited: o.Limited, nonce: rand.Text(), seen: sightings{all: map[string]sighting{}},
		reserve: script("common", "clock", "restore", "reserve"), settle: script("common", "clock", "restore", "settle"),
		renew: script("common", "clock", "renew"), usage: script("common", "clock", "usage"),
	}
	if o.RefuseLost {
		l.onLost = "refuse"
	}
	l.watchSafety()
	return l
}

// Asked returns a channel that is closed once it is known whether the Redis works.
func (l *Ledger) Asked() <-chan struct{} { return l.store.Asked() }

// Open reports whether the breaker is open, so that calls are refused.
func (l *Ledger) Open() bool { return l.store.Open() }

// keys returns the keys of a tenant. The number in the name is the version of the format; a new
// version starts at zero.
func (l *Ledger) keys(tenant string) []string {
	record := l.store.db.prefix + ":budget1:{" + tenant + "}"
	return []string{record, record + ":leases", record + ":open", record + ":settled"}
}

// time returns the time argument of scripts.
func (l *Ledger) time() string {
	if l.now == nil {
		return ""
	}
	return strconv.FormatInt(l.now().UnixMilli(), 10)
}

// run runs a script. If Redis does not know the script, it says so before running anything, so
// sending the text then does not count twice.
func (l *Ledger) run(ctx context.Context, s *goredis.Script, tenant string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, l.store.db.timeout)
	defer cancel()
	reply, err := twice(ctx, l.store.db.timeout/2, func() (reply any, err error) {
		err = l.store.call(ctx, opScript, func(ctx context.Context) (err error) {
			reply, err = s.Run(ctx, l.store.db.client, l.keys(tenant), args...).Result()
			return err
		})
		return reply, err
	})
	return reply, ledgerError(err)
}

// twice makes a call, and repeats it once if it fails in a way that may be temporary, or has no
// answer after some time. It returns the first answer, or the error of a call that was made. A
// call still in progress then ends by its own deadline.
func twice(ctx context.Context, after time.Duration, call func() (any, error)) (any, error) {
	type attempt struct {
		reply any
		err   error
	}
	attempts, waiting := make(chan attempt, 2), 0
	start := func() {
		waiting++
		go func() {
			reply, err := call()
			attempts <- attempt{reply, err}
		}()
	}
	start()
	timer := time.NewTimer(after)
	defer timer.Stop()
	again, over := timer.C, ctx.Done() // nil: no second call will be made
	var failed error
	for waiting > 0 || again != nil {
		select {
		case a := <-attempts:
			waiting--
			skipped := errors.Is(a.err, cache.ErrSkipped)
			switch {
			case skipped && again == nil: // the first call may have had an effect
				if failed == nil {
					failed = a.err
				}
			case !mayBeOver(a.err):
				return a.reply, a.err
			default:
				failed = a.err
				if again != nil {
					timer.Reset(after / 10)
				}
			}
		case <-again:
			again = nil
			if ctx.Err() == nil {
				start()
			}
		case <-over:
			again, over = nil, nil
		}
	}
	return nil, failed
}

// mayBeOver reports whether a call that failed with err may succeed if repeated at once: the
// connection was lost or could not be made, or a failover is in progress.
func mayBeOver(err error) bool {
	var failed *failure
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.kind {
	case Refused, Timeout, Pool, Busy, ReadOnly:
		return true
	}
	return false
}

// ledgerError converts the error of a call, and recognises a corrupt record.
func ledgerError(err error) error {
	var failed *failure
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cache.ErrSkipped):
		return fmt.Errorf("%w: %w", budget.ErrSkipped, err)
	case errors.Is(err, cache.MismatchType):
		return fmt.Errorf("%w: a key is of another type", budget.ErrCorrupt)
	case errors.As(err, &failed) && strings.HasPrefix(failed.cause.Error(), "LEDGER "):
		return fmt.Errorf("%w: a field is no number", budget.ErrCorrupt)
	}
	return err
}

// Reserve implements budget.Ledger.
func (l *Ledger) Reserve(ctx context.Context, r budget.Reservation) (budget.Decision, error) {
	if err := r.Check(); err != nil {
		return budget.Decision{}, err
	}
	e := r.Estimate
	args := []any{l.time(), r.ID, r.Lease.Milliseconds(), string(r.Kind), e.Requests, e.Tokens, e.Injected, e.Money}
	for _, limit := range r.Limits {
		args = append(args, limit)
	}
	last := l.seen.of(r.Tenant)
	raw, err := l.run(ctx, l.reserve, r.Tenant, append(args, l.nonce, last.name, last.seq, last.rest, l.onLost)...)
	if err != nil {
		return budget.Decision{}, err
	}
	reply, err := readReply(raw)
	if err != nil {
		return budget.Decision{}, err
	}
	if reply.code != codeLost {
		l.seen.keep(r.Tenant, reply.seen, [3]int64(r.Limits[:3]))
	}
	return reply.decide(r)
}

// Settle implements budget.Ledger. It sends settlements in batches.
func (l *Ledger) Settle(ctx context.Context, settlements ...budget.Settlement) ([]budget.Outcome, error) {
	for _, s := range settlements {
		if err := s.Check(); err != nil {
			return nil, err
		}
	}
	outcomes := make([]budget.Outcome, 0, len(settlements))
	for len(settlements) > 0 {
		n := min(len(settlements), maxBatch)
		err := l.store.call(ctx, opScript, func(ctx context.Context) error {
			batch, err := l.settleBatch(ctx, settlements[:n])
			outcomes = append(outcomes, batch...)
			return err
		})
		if err != nil {
			return nil, ledgerError(err)
		}
		settlements = settlements[n:]
	}
	return outcomes, nil
}

const (
	// maxBatch limits the settlements in one round trip, and maxCall those of a tenant in one call
	// of the script, so that the Redis does not block its other clients for long.
	maxBatch = 256
	maxCall  = 32
)

// A settleCall is one call of the script, which settles for one tenant.
type settleCall struct {
	tenant string
	places []int // indexes of its settlements in the batch
	args   []any
}

func (l *Ledger) settleCalls(settlements []budget.Settlement) []*settleCall {
	var calls []*settleCall
	last := make(map[string]*settleCall, len(settlements)) // by tenant: the last call, which may have room
	for i, s := range settlements {
		c := last[s.Tenant]
		if c == nil || len(c.places) == maxCall {
			c = &settleCall{tenant: s.Tenant, args: []any{l.nonce, l.time()}}
			if l.onLost == "" {
				known := l.seen.of(s.Tenant)
				c.args = append(c.args, known.name, known.seq, known.rest)
			} else {
				c.args = append(c.args, "", 0, "") // nothing is corrected
			}
			calls, last[s.Tenant] = append(calls, c), c
		}
		a := s.Actual
		c.places, c.args = append(c.places, i), append(c.args, s.ID, s.Mark, string(s.Kind), a.Requests, a.Tokens, a.Injected, a.Money)
	}
	return calls
}

func (l *Ledger) settleBatch(ctx context.Context, settlements []budget.Settlement) ([]budget.Outcome, error) {
	client, calls := l.store.db.client, l.settleCalls(settlements)
	replies, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, c := range calls {
			l.settle.EvalSha(ctx, p, l.keys(c.tenant), c.args...)
		}
		return nil
	})
	if len(replies) != len(calls) {
		return nil, err
	}
	outcomes := make([]budget.Outcome, len(settlements))
	for i, c := range calls {
		reply := replies[i].(*goredis.Cmd)
		if goredis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply = l.settle.Run(ctx, client, l.keys(c.tenant), c.args...)
		}
		raw, err := reply.Slice()
		if err != nil {
			return nil, err
		}
		codes, seen, err := readSettled(raw, len(c.places))
		if err != nil {
			return nil, err
		}
		l.seen.settled(c.tenant, seen, l.onLost == "")
		for j, place := range c.places {
			outcomes[place] = codes[j]
		}
	}
	return outcomes, nil
}

// Renew implements budget.Renewer.
func (l *Ledger) Renew(ctx context.Context, t budget.Ticket, lease time.Duration) (bool, error) {
	if err := (budget.Settlement{Ticket: t}).Check(); err != nil {
		return false, err
	}
	if lease < 0 || lease > budget.MaxLease {
		return false, fmt.Errorf("%w: lease of %v, want at most %v", budget.ErrInvalid, lease, budget.MaxLease)
	}
	raw, err := l.run(ctx, l.renew, t.Tenant, l.time(), t.ID, lease.Milliseconds(), l.nonce)
	return raw == int64(1), err
}

// Usage implements budget.Reporter.
func (l *Ledger) Usage(ctx context.Context, tenant string, limits budget.Limits) (budget.Usage, error) {
	if err := limits.Check(); err != nil {
		return budget.Usage{}, err
	}
	if err := (budget.Settlement{Ticket: budget.Ticket{Tenant: tenant, ID: "-"}}).Check(); err != nil {
		return budget.Usage{}, err
	}
	for expired := 0; ; {
		raw, err := l.run(ctx, l.usage, tenant, l.time(), limits[0], limits[1], limits[2], l.nonce)
		if err != nil {
			return budget.Usage{}, err
		}
		reply, err := readReply(raw)
		if err != nil {
			return budget.Usage{}, err
		}
		if expired += reply.expired; reply.expired == maxExpired {
			continue // there may be more
		}
		u, err := reply.usage(limits)
		u.Expired = expired
		return u, err
	}
}

// maxExpired is how many expired leases one call charges; see common.lua.
const maxExpired = 100
