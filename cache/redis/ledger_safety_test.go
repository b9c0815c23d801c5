package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// Row R18: a Redis that may lose counts is reported, with the setting to change.
func TestUnsafeRedisR18(t *testing.T) {
	const crash, evicts = "a crash of it loses what budgets counted; set appendonly yes", "it may drop what budgets counted; set maxmemory-policy noeviction"
	for _, c := range []struct {
		args []string
		want redis.Safety
		said []string
	}{
		{[]string{"--appendonly", "yes"}, redis.Safety{Known: true, Durable: true}, nil},
		{nil, redis.Safety{Known: true}, []string{crash}},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, redis.Safety{Known: true, Evicts: true}, []string{crash, evicts}},
		{[]string{"--appendonly", "yes", "--maxmemory-policy", "volatile-ttl"}, redis.Safety{Known: true, Durable: true, Evicts: true}, []string{evicts}},
	} {
		server, told := redistest.Start(t, c.args...), &log{}
		db := open(t, told.attach(redis.Options{URL: server.URL(), Timeout: patient}))
		l := ledger(t, db, nil)
		await(t, "the safety", func() bool { return l.Safety().Known })
		if got := l.Safety(); got != c.want || got.Safe() != (c.said == nil) {
			t.Errorf("%q: got %+v, want %+v", c.args, got, c.want)
		}
		var want []string
		for _, line := range c.said {
			want = append(want, fmt.Sprintf("redis %s: %s", server.Addr(), line))
		}
		if got := db.Trouble(); strings.Join(got, "\n") != strings.Join(want, "\n") || len(told.told()) != len(want) {
			t.Errorf("%q: said are %q and %q, want %q", c.args, got, told.told(), want)
		}
	}
}

// Without limits, a Redis that may lose data is not reported.
func TestUnsafeRedisWithoutLimits(t *testing.T) {
	server, told := redistest.Start(t, "--maxmemory-policy", "allkeys-lru"), &log{}
	db := open(t, told.attach(redis.Options{URL: server.URL(), Timeout: patient}))
	l := workingLedger(t, db.Ledger("budgets", redis.LedgerOptions{Limited: func() bool { return false }}))
	await(t, "the safety", func() bool { return l.Safety().Known })
	if l.Safety().Safe() || len(db.Trouble()) > 0 || len(told.told()) > 0 {
		t.Errorf("safe: %v; said are %q and %q", l.Safety().Safe(), db.Trouble(), told.told())
	}
}

// If a user lacks permissions, the message lists all that are needed.
func TestRightsOfALedger(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	const all = "+getrange +set +eval +evalsha +time +pexpire +hget +hmget +hset +hdel +hexists +hlen " +
		"+hincrby +hgetall +zadd +zrem +zrange +zrangebyscore +zremrangebyrank +zscore +zcard"
	user := append([]string{"ACL", "SETUSER", "bob", "on", ">" + canary, "~sidenote:*"}, strings.Fields(all)...)
	if got := server.Do(user...); got != "OK" {
		t.Fatal(got)
	}
	o := as("bob", server, "")
	o.Timeout = patient
	db := open(t, o)
	l := ledger(t, db, nil)
	asks(t, l, "r1:1", 5, tokensADay)
	settles(t, l, "r1:1", 5, budget.Settled)
	await(t, "the line", func() bool { return len(db.Trouble()) > 0 })
	if got := fmt.Sprint(db.Trouble()); !strings.Contains(got, "whether it keeps budgets cannot be seen; grant +info") || l.Safety().Safe() {
		t.Errorf("without +info: %s", got)
	}
	server.Do("ACL", "SETUSER", "bob", "-evalsha")
	if _, err := l.Reserve(t.Context(), tokensOf("acme", "r2:1", 1, tokensADay)); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("without +evalsha: got %v", err)
	}
	if got := fmt.Sprint(db.Trouble()); !strings.Contains(got, "+evalsha +time +info") || !strings.Contains(got, "budgets cannot be counted") {
		t.Errorf("without +evalsha: %s", got)
	}
}

// Row R18: an evicted record is detected, and restored from what is remembered.
func TestEvictedRecordR18(t *testing.T) {
	server := redistest.Start(t)
	l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
	asks(t, l, "r1:1", 900, tokensADay)
	settles(t, l, "r1:1", 900, budget.Settled)
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	server.Do("CONFIG", "SET", "maxmemory", "2mb")
	limit := time.Now().Add(20 * time.Second)
	for i := 0; server.Do("EXISTS", "sidenote:budget1:{acme}") == "1"; i++ {
		server.Do("SET", fmt.Sprint("other:", i), strings.Repeat("x", 50_000))
		if time.Now().After(limit) {
			t.Fatal("the record was never evicted")
		}
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	if d := asks(t, l, "r2:1", 200, tokensADay); d.Granted || !d.RolledBack {
		t.Errorf("got %+v, want a refusal of 200 of the last 100", d)
	}
}
