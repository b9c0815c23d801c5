package redis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := 0
	cachetest.Run(t, func(t *testing.T) cache.Store {
		n++
		return working(t, redis.Options{URL: server.URL(), Timeout: patient, Prefix: "p" + strconv.Itoa(n)})
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for prefix, want := range map[string]string{"": "sidenote:k", "own": "own:k", "a:b": "a:b:k"} {
		s := working(t, redis.Options{URL: server.URL(), Timeout: patient, Prefix: prefix})
		keep(t, s, "k", "of "+prefix)
		if got := server.Do("GET", want); got != "of "+prefix {
			t.Errorf("at %s: got %q", want, got)
		}
		holds(t, s, "k", "of "+prefix)
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := calm(t, server.URL())
	for _, ttl := range []time.Duration{time.Hour, 90*time.Second + 500*time.Millisecond, 30 * 24 * time.Hour} {
		if err := s.Set(t.Context(), "k", []byte("v"), ttl); err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.ParseInt(server.Do("PTTL", "sidenote:k"), 10, 64)
		if left := time.Duration(ms) * time.Millisecond; err != nil || left > ttl || left < ttl-5*time.Second {
			t.Errorf("%v are left of %v, %v", left, ttl, err)
		}
	}
	// A ttl shorter than Redis supports must not make a value permanent.
	for _, ttl := range []time.Duration{0, -time.Hour, 1, time.Millisecond} {
		keep(t, s, "k", "old")
		if err := s.Set(t.Context(), "k", []byte("new"), ttl); err != nil {
			t.Fatalf("for %v: %v", ttl, err)
		}
		server.WaitFor("0", "EXISTS", "sidenote:k")
		holds(t, s, "k", "")
	}
}

func TestEmptyIsAbsent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := calm(t, server.URL())
	server.Do("SET", "sidenote:k", "")
	holds(t, s, "k", "")
}

func TestLargestValue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var l log
	s := working(t, l.attach(redis.Options{URL: server.URL(), Timeout: patient}))
	fits := strings.Repeat("v", 1<<20)
	keep(t, s, "k", fits)
	if got := l.kinds(); !slices.Equal(got, []redis.Kind{""}) {
		t.Errorf("events %q", got)
	}
	if err := s.Set(t.Context(), "k", []byte(fits+"v"), time.Minute); err == nil || errors.Is(err, cache.ErrSkipped) {
		t.Errorf("one too large: got %v", err)
	}
	if got := l.kinds(); !slices.Equal(got, []redis.Kind{redis.TooLarge}) {
		t.Errorf("events %q", got)
	}
	holds(t, s, "k", fits)
	server.Do("APPEND", "sidenote:k", "v")
	if got, err := s.Get(t.Context(), "k"); got != nil || !errors.Is(err, cache.MismatchSize) {
		t.Errorf("get one too large: got %d bytes, %v", len(got), err)
	}
	if s.Open() {
		t.Error("the breaker is open")
	}
}

// Not parallel, because it measures allocations.
func TestGiantOfSomebody(t *testing.T) {
	server := redistest.Start(t)
	s := calm(t, server.URL())
	server.Do("SETRANGE", "sidenote:k", strconv.Itoa(512<<20-1), "v")
	sent := func() int {
		_, rest, _ := strings.Cut(server.Do("INFO", "stats"), "total_net_output_bytes:")
		n, err := strconv.Atoi(rest[:strings.Index(rest, "\r")])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := sent()
	var err error
	bytes := allocated(func() { _, err = s.Get(t.Context(), "k") })
	if !errors.Is(err, cache.MismatchSize) {
		t.Errorf("got %v", err)
	}
	if bytes > 8<<20 {
		t.Errorf("%d bytes allocated", bytes)
	}
	if n := sent() - before; n > 2<<20 {
		t.Errorf("%d bytes sent", n)
	}
	if got := server.Do("STRLEN", "sidenote:k"); got != strconv.Itoa(512<<20) {
		t.Errorf("%s bytes are left of it", got)
	}
}

// Memory for an announced length is only allocated as bytes arrive, and the connection that
// announced it is closed. Not parallel, because it measures allocations.
func TestHugeClaims(t *testing.T) {
	for name, claim := range map[string]string{
		"string of 10 GB":  "$10000000000\r\n",
		"string of 2 MB":   "$2000000\r\n",
		"array of 10 GB":   "*10000000000\r\n",
		"arrays of arrays": strings.Repeat("*65536\r\n", 10_000),
		"endless arrays":   strings.Repeat("*1\r\n", 1<<20),
		"endless line":     "+" + strings.Repeat("x", 4<<20),
		"endless error":    "-ERR " + strings.Repeat("x", 4<<20),
	} {
		for _, command := range []string{"hello", "getrange"} {
			fault := redistest.NewFault(t, redistest.Lie(t, func(args []string) []byte {
				if strings.EqualFold(args[0], command) {
					return []byte(claim)
				}
				return answers(args)
			}))
			db := open(t, redis.Options{URL: "redis://" + fault.Addr(), Timeout: patient})
			bytes := allocated(func() { asked(t, db.Store("test")) })
			if most := uint64(4<<20 + 4*len(claim)); bytes > most { // including what the fake server allocates
				t.Errorf("%s to %s: %d bytes allocated", name, command, bytes)
			}
			want := "redis " + fault.Addr() + ": what answers there does not speak the Redis protocol" + without
			if got := db.Trouble(); len(got) != 1 || got[0] != want {
				t.Errorf("%s to %s: trouble %q", name, command, got)
			}
			await(t, "the connection to be cut", func() bool { return fault.Conns() == 0 })
			if err := db.Close(); err != nil { // so that it does not disturb the next case
				t.Error(err)
			}
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestListOfSomebody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var l log
	s := working(t, l.attach(redis.Options{URL: server.URL(), Timeout: patient}))
	server.Do("LPUSH", "sidenote:k", "b", "a")
	for range 20 {
		if got, err := s.Get(t.Context(), "k"); got != nil || !errors.Is(err, cache.MismatchType) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if got := server.Do("LRANGE", "sidenote:k", "0", "-1"); got != "a\nb" {
		t.Errorf("the list is now %q", got)
	}
	if s.Open() || len(l.told()) > 0 {
		t.Errorf("breaker open: %v, told %q", s.Open(), l.told())
	}
	if got := slices.Compact(l.kinds()); !slices.Equal(got, []redis.Kind{redis.Type}) {
		t.Errorf("events %q", got)
	}
}

// Other applications' keys are unchanged afterwards, whatever happened, and only the commands
// listed in the manual were sent.
func TestForeignKeysAreNotTouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("SET", "text", "v", "EX", "1000")
	server.Do("SET", "sidenote", "v")
	server.Do("SET", "sidenotes:k1", "v")
	server.Do("SET", "k1", "v")
	server.Do("SET", "probe:{test}", "v")
	server.Do("SET", "{sidenote}:k1", "v")
	server.Do("LPUSH", "list", "a", "b")
	server.Do("SADD", "set", "a", "b")
	server.Do("HSET", "hash", "a", "b")
	server.Do("ZADD", "zset", "1", "a")
	server.Do("XADD", "stream", "1-1", "a", "b")
	for i := range 100 {
		server.Do("SET", fmt.Sprint("other:", i), fmt.Sprint(i))
	}
	before := foreign(server)
	if len(before) < 110 {
		t.Fatalf("only %d foreign keys", len(before))
	}
	server.Do("CONFIG", "RESETSTAT")

	db := open(t, redis.Options{URL: server.URL(), Timeout: patient})
	s, other := db.Store("test"), db.Store("other")
	await(t, "the stores", func() bool { return !s.Open() && !other.Open() })
	for i := range 300 {
		key := fmt.Sprint("k", i%30)
		if err := s.Set(t.Context(), key, []byte(key), time.Duration(i%3)*time.Second); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		_, _ = other.Get(ctx, key)
		cancel()
	}
	if after := foreign(server); !maps.Equal(after, before) {
		t.Errorf("before:\n%q\nafter:\n%q", before, after)
	}
	for line := range strings.Lines(server.Do("INFO", "commandstats")) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !slices.Contains([]string{"hello", "getrange", "set", "keys", "dump", "ttl", "info", "config|resetstat", "# Commandstats\r\n"}, name) {
			t.Errorf("%s was called", name)
		}
	}
}

// foreign returns all keys that are not Sidenote's, with their values.
func foreign(s *redistest.Server) map[string]string {
	all := map[string]string{}
	for key := range strings.SplitSeq(s.Do("KEYS", "*"), "\n") {
		if !strings.HasPrefix(key, "sidenote:") {
			all[key] = fmt.Sprint(s.Do("DUMP", key), s.Do("TTL", key) == "-1")
		}
	}
	return all
}

// A call ends with its context, with the timeout or at once, and its error says which.
func TestEndOfCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fault := redistest.NewFault(t, server.Addr())
	var l log
	s := working(t, l.attach(redis.Options{URL: "redis://" + fault.Addr(), Timeout: 500 * time.Millisecond}))
	keep(t, s, "k", "v")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ended, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: got %v", err)
	}
	fault.Blackhole(true)
	for _, c := range []struct {
		deadline, least time.Duration
	}{
		{0, 500 * time.Millisecond},
		{100 * time.Millisecond, 100 * time.Millisecond},
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if c.deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, c.deadline)
		}
		start := time.Now()
		_, err := s.Get(ctx, "k")
		took := time.Since(start)
		cancel()
		if err == nil || errors.Is(err, cache.ErrSkipped) || took < c.least {
			t.Errorf("with a deadline of %v: got %v after %v", c.deadline, err, took)
		}
	}
	fault.Blackhole(false)
	if got := l.kinds(); !slices.Equal(got, []redis.Kind{"", "caller_gone", redis.Timeout, "caller_gone"}) {
		t.Errorf("events %q", got)
	}
}
