package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
	"sidenote/cache/usage"
	"sidenote/cache/usage/usagetest"
)

// usageOn returns a working store of usage.
func usageOn(t testing.TB, db *redis.DB) *redis.Usage {
	t.Helper()
	u := db.Usage()
	await(t, "the store to work", func() bool {
		_, err := u.Tenants(t.Context(), usagetest.Month)
		return err == nil
	})
	return u
}

func TestUsage(t *testing.T) {
	server := redistest.Start(t)
	db := open(t, redis.Options{URL: server.URL(), Timeout: patient})
	usagetest.Run(t, func(t *testing.T) usage.Store {
		server.Do("FLUSHALL")
		server.Do("SCRIPT", "FLUSH")
		return usageOn(t, db)
	})
}

// A batch whose answer was lost is not added twice, and replicas do not disturb each other.
func TestUsageIsAddedOnce(t *testing.T) {
	server := redistest.Start(t)
	db := open(t, redis.Options{URL: server.URL(), Timeout: patient})
	one, two := usageOn(t, db), usageOn(t, db)
	first := usagetest.Batch("acme", "one", 7, usagetest.Item("m", "", 10))
	for range 3 {
		usagetest.Add(t, one, first)
	}
	usagetest.Add(t, two, usagetest.Batch("acme", "two", 1, usagetest.Item("m", "", 10)))
	usagetest.Add(t, one, usagetest.Batch("acme", "one", 8, usagetest.Item("m", "", 10)))
	want := usagetest.Item("m", "", 30)
	want.Requests = 3
	usagetest.Want(t, two, "acme", want)
}

// Rows and the list of tenants expire when their month is not kept any more.
func TestUsageExpires(t *testing.T) {
	server := redistest.Start(t)
	u := usageOn(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}))
	usagetest.Add(t, u, usagetest.Batch("acme", "w", 1, usagetest.Item("m", "", 1)))
	left := time.Until(usagetest.Month.Expiry())
	for _, key := range strings.Fields(server.Do("KEYS", "*")) {
		if strings.Contains(key, "probe") {
			continue
		}
		limit := left
		if strings.HasSuffix(key, ":w") {
			limit = 30 * 24 * time.Hour
		}
		var ms int64
		if _, err := fmt.Sscan(server.Do("PTTL", key), &ms); err != nil || ms < (limit-time.Hour).Milliseconds() || ms > (limit+time.Hour).Milliseconds() {
			t.Errorf("%s expires in %d ms, %v; want about %v", key, ms, err, limit)
		}
	}
}

// A record of another type fails alone and is not changed.
func TestUsageOfAnotherType(t *testing.T) {
	server := redistest.Start(t)
	u := usageOn(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}))
	server.Do("SET", "sidenote:usage1:{bad}:"+string(usagetest.Month), "x")
	errs := u.Add(t.Context(), []usage.Batch{
		usagetest.Batch("bad", "w", 1, usagetest.Item("m", "", 1)), usagetest.Batch("good", "w", 2, usagetest.Item("m", "", 1)),
	})
	if len(errs) != 2 || errs[0] == nil || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
	usagetest.Want(t, u, "good", usagetest.Item("m", "", 1))
	if _, err := u.Items(t.Context(), usagetest.Month, "bad"); err == nil {
		t.Error("the string is read as rows")
	}
}

// Without a permission nothing is written, so that a batch counts once it is granted.
func TestRightsOfUsage(t *testing.T) {
	server := redistest.Start(t)
	rights := strings.Fields("+getrange +set +eval +evalsha +pexpire +hset +hexists +hlen +zadd +zrange +hgetall")
	user := append([]string{"ACL", "SETUSER", "bob", "on", ">" + canary, "~sidenote:*"}, rights...)
	if got := server.Do(user...); got != "OK" {
		t.Fatal(got)
	}
	u := usageOn(t, open(t, redis.Options{URL: strings.Replace(server.URL(), "://", "://bob:"+canary+"@", 1), Timeout: patient}))
	batch := usagetest.Batch("acme", "w", 1, usagetest.Item("m", "", 1))
	if errs := u.Add(t.Context(), []usage.Batch{batch}); errs[0] == nil {
		t.Fatal("it works without +hincrby")
	}
	server.Do("ACL", "SETUSER", "bob", "+hincrby")
	usagetest.Add(t, u, batch)
	usagetest.Want(t, u, "acme", usagetest.Item("m", "", 1))
}

// BenchmarkUsage measures a write of what 40 tenants used in 5 rows each.
func BenchmarkUsage(b *testing.B) {
	server := redistest.Start(b)
	u := usageOn(b, open(b, redis.Options{URL: server.URL(), Timeout: patient}))
	number := int64(0)
	for b.Loop() {
		var batches []usage.Batch
		for n := range 40 {
			number++
			var items []usage.Item
			for i := range 5 {
				items = append(items, usagetest.Item("m", fmt.Sprint(i), 10))
			}
			batches = append(batches, usagetest.Batch(fmt.Sprint("t", n), "w", number, items...))
		}
		usagetest.Add(b, u, batches...)
	}
}
