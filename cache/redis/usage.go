package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/cache/usage"
)

// A Usage is a usage.Store that all replicas share on a Redis. Additions are integers of 64 bits
// and atomic. The rows of a month expire when it is not kept any more. It is as durable as the
// Redis: counts that the Redis loses are not restored.
type Usage struct {
	store *Store
	count *goredis.Script
}

// Usage returns the store of usage on a Redis, with its own breaker.
func (d *DB) Usage() *Usage {
	quiet := func() bool { return true } // usage.Counter reports failures
	return &Usage{store: d.newStore("usage", nil, quiet), count: script("count")}
}

// key returns the key of a tenant and month. The number in the name is the version of the format.
func (u *Usage) key(m usage.Month, tenant string) string {
	return u.store.db.prefix + ":usage1:{" + tenant + "}:" + string(m)
}

// index returns the key of the sorted set of tenants with usage in a month.
func (u *Usage) index(m usage.Month) string {
	return u.store.db.prefix + ":usage1:tenants:" + string(m)
}

// Add implements usage.Store, in round trips of maxBatch batches.
func (u *Usage) Add(ctx context.Context, batches []usage.Batch) []error {
	var errs []error
	for some := range slices.Chunk(batches, maxBatch) {
		each := make([]error, len(some))
		err := u.store.call(ctx, opScript, func(ctx context.Context) error { return u.add(ctx, some, each) })
		for i := range each {
			if each[i] == nil {
				each[i] = err
			}
		}
		errs = append(errs, each...)
	}
	return errs
}

// add adds batches in one round trip. It sets the errors of single batches in each, and returns
// one that concerns all.
func (u *Usage) add(ctx context.Context, batches []usage.Batch, each []error) error {
	client := u.store.db.client
	counted := make([]*goredis.Cmd, len(batches))
	keys := func(b usage.Batch) []string {
		rows := u.key(b.Month, b.Tenant)
		return []string{rows, rows + ":" + b.Writer}
	}
	_, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for m, tenants := range tenantsOf(batches) {
			p.ZAdd(ctx, u.index(m), tenants...)
			p.PExpire(ctx, u.index(m), time.Until(m.Expiry()))
		}
		for i, b := range batches {
			counted[i] = u.count.EvalSha(ctx, p, keys(b), countArgs(b)...)
		}
		return nil
	})
	for i, reply := range counted {
		if reply == nil {
			return err
		}
		if goredis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply = u.count.Eval(ctx, client, keys(batches[i]), countArgs(batches[i])...)
		}
		switch err := reply.Err(); {
		case err == nil:
		case kindOf(err) == Type:
			each[i] = fmt.Errorf("usage of %s: %w", batches[i].Tenant, cache.MismatchType)
		default:
			return err
		}
	}
	return nil
}

func tenantsOf(batches []usage.Batch) map[usage.Month][]goredis.Z {
	all := map[usage.Month][]goredis.Z{}
	for _, b := range batches {
		all[b.Month] = append(all[b.Month], goredis.Z{Member: b.Tenant})
	}
	return all
}

func countArgs(b usage.Batch) []any {
	args := []any{b.Number, usage.MaxRows, time.Until(b.Month.Expiry()).Milliseconds()}
	for _, i := range b.Items {
		args = append(args, string(i.Kind), i.Model+"\t"+i.Key, i.Requests, i.Tokens, i.Injected, i.Money)
	}
	return args
}

// Tenants implements usage.Reader.
func (u *Usage) Tenants(ctx context.Context, m usage.Month) (names []string, err error) {
	err = u.store.call(ctx, opGet, func(ctx context.Context) (err error) {
		names, err = u.store.db.client.ZRange(ctx, u.index(m), 0, -1).Result()
		return err
	})
	slices.Sort(names)
	return names, err
}

// Items implements usage.Reader.
func (u *Usage) Items(ctx context.Context, m usage.Month, tenant string) ([]usage.Item, error) {
	var fields map[string]string
	err := u.store.call(ctx, opGet, func(ctx context.Context) (err error) {
		fields, err = u.store.db.client.HGetAll(ctx, u.key(m, tenant)).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	return itemsOf(fields)
}

// itemsOf returns the items in the fields of a hash, by row.
func itemsOf(fields map[string]string) ([]usage.Item, error) {
	rows := map[usage.Row]budget.Amount{}
	delete(fields, "rows")
	for field, value := range fields {
		part := strings.Split(field, "\t")
		n, err := strconv.ParseInt(value, 10, 64)
		if len(part) != 4 || err != nil || n < 0 {
			return nil, fmt.Errorf("%w: field %.64q of the usage", budget.ErrCorrupt, field)
		}
		row := usage.Row{Kind: budget.Kind(part[1]), Model: part[2], Key: part[3]}
		a := rows[row]
		switch part[0] {
		case "requests":
			a.Requests = n
		case "tokens":
			a.Tokens = n
		case "injected":
			a.Injected = n
		case "money":
			a.Money = n
		}
		rows[row] = a
	}
	var items []usage.Item
	for row, amount := range rows {
		items = append(items, usage.Item{Row: row, Amount: amount})
	}
	slices.SortFunc(items, func(a, b usage.Item) int { return a.Compare(b.Row) })
	return items, nil
}
