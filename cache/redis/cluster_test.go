package redis_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// All keys of a tenant are in one slot (row R27), tenants are spread over all nodes, and a lost
// node affects only its own tenants.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	for _, n := range nodes {
		n.Do("ACL", "SETUSER", "bob", "on", ">"+canary, "~sidenote:*", "+getrange", "+set", "+cluster|slots")
		n.Do("ACL", "SETUSER", "eve", "on", ">"+canary, "~sidenote:*", "+getrange", "+set")
	}
	t.Run("may not ask for slots", func(t *testing.T) {
		scene{o: as("eve", nodes[0], "?cluster=true"), line: lacks("+getrange +set +cluster|slots") + without}.check(t)
	})
	t.Run("as one Redis", func(t *testing.T) {
		for _, n := range nodes {
			t.Run("", func(t *testing.T) { oneNode(t, n) })
		}
	})
	s := calm(t, as("bob", nodes[0], "?cluster=true").URL)
	slots := map[string]bool{}
	for i := range 30 {
		tenant := fmt.Sprint("tenant ", i)
		of := map[string]bool{}
		for j := range 5 {
			for _, kind := range []cache.Kind{cache.Candidates, cache.Selected} {
				key := cache.Key{Kind: kind, Tenant: tenant, Digest: sha256.Sum256(fmt.Append(nil, j))}.String()
				keep(t, s, key, key)
				holds(t, s, key, key)
				slot := nodes[0].Do("CLUSTER", "KEYSLOT", "sidenote:"+key)
				of[slot], slots[slot] = true, true
			}
		}
		if len(of) != 1 {
			t.Errorf("the keys of a tenant are in %d slots", len(of))
		}
	}
	if len(slots) < 20 {
		t.Errorf("30 tenants are in %d slots", len(slots))
	}
	for i, n := range nodes {
		if size := n.Do("DBSIZE"); len(size) < 2 {
			t.Errorf("node %d has %s of 300 keys", i, size)
		}
	}
}

// oneNode uses a node of a cluster as a single Redis: Trouble says so, although a third of the
// keys can be used.
func oneNode(t *testing.T, node *redistest.Server) {
	db := open(t, redis.Options{URL: node.URL(), Timeout: patient})
	s := db.Store("test")
	asked(t, s)
	for i := range 30 {
		_, _ = s.Get(t.Context(), fmt.Sprint(i))
		_ = s.Set(t.Context(), fmt.Sprint(i), []byte("v"), time.Minute)
	}
	want := "redis " + node.Addr() + ": is one node of a cluster; write redis.url with ?cluster=true" + without
	if got := db.Trouble(); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A dead node costs each call for it only one attempt, and others nothing.
func TestClusterWithoutANode(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	s := calm(t, nodes[0].URL()+"?cluster=true")
	for i := range 30 {
		keep(t, s, fmt.Sprint(i), "v")
	}
	nodes[2].Kill()
	failed := 0
	start := time.Now()
	for i := range 30 {
		got, err := s.Get(t.Context(), fmt.Sprint(i))
		if err != nil {
			failed++
		} else if string(got) != "v" {
			t.Errorf("got %q", got)
		}
	}
	if failed == 0 || failed > 20 || s.Open() {
		t.Errorf("%d of 30 calls failed, the breaker is open: %v", failed, s.Open())
	}
	if took := time.Since(start); took > patient { // it takes 0.1 ms a call
		t.Errorf("%d failed calls took %v, the timeout of one is %v", failed, took, patient)
	}
	nodes[2].Restart()
	for i := range 30 {
		await(t, "the node to be used again", func() bool {
			return s.Set(t.Context(), fmt.Sprint(i), []byte("v"), time.Minute) == nil
		})
	}
}

// A hanging node costs only the time of the calls for it.
func TestClusterHangs(t *testing.T) {
	t.Parallel()
	addr := ""
	addr = redistest.Lie(t, func(args []string) []byte {
		switch strings.ToLower(args[0]) {
		case "cluster":
			return fmt.Appendf(nil, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%s\r\n", addr[strings.LastIndex(addr, ":")+1:])
		case "hello", "getrange", "set":
			return answers(args)
		}
		return []byte{} // hangs
	})
	const timeout = 300 * time.Millisecond
	s := working(t, redis.Options{URL: "redis://" + addr + "?cluster=true", Timeout: timeout, PoolSize: 50})
	ended := make(chan time.Duration)
	const calls = 20
	for range calls {
		go func() {
			start := time.Now()
			if _, err := s.Get(context.Background(), "k"); err != nil {
				t.Error(err)
			}
			ended <- time.Since(start)
		}()
	}
	for range calls {
		if took := <-ended; took > timeout*calls/2 { // one after another they take twice that
			t.Errorf("a call took %v", took)
		}
	}
}
