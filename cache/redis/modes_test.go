package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
	"sidenote/retrieval"
)

func TestLinesOfNetworks(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) scene{
		"no such host": func(*testing.T) scene {
			return scene{o: at("no-such-host.invalid"), line: "no such host" + without, also: "its name cannot be looked up" + without}
		},
		"nobody there": func(*testing.T) scene { return scene{o: at("127.0.0.1:1"), line: "connection refused" + without} },
		"no socket": func(t *testing.T) scene {
			return scene{o: redis.Options{URL: "unix://:" + canary + "@" + t.TempDir() + "/none.sock"}, line: noSocket}
		},
		"packets are dropped": func(t *testing.T) scene {
			return scene{o: redis.Options{URL: at(redistest.FullBacklog(t)).URL, Timeout: redis.DefaultTimeout}, line: "cannot be connected to within 250ms" + without}
		},
		"closes at once": func(t *testing.T) scene {
			return scene{o: at(redistest.Lie(t, func([]string) []byte { return nil })), line: closes}
		},
		"no Sentinel there": func(*testing.T) scene {
			return scene{o: at("127.0.0.1:1?master_name=main"), line: "connection refused (127.0.0.1:1)" + without}
		},
		"no node there": func(*testing.T) scene {
			return scene{o: at("127.0.0.1:1?addr=127.0.0.1:2"), line: "connection refused (127.0.0.1:1)" + without, also: "connection refused (127.0.0.1:2)" + without}
		},
		"plain to TLS": func(t *testing.T) scene {
			s, _ := redistest.StartTLS(t)
			return scene{o: at(s.Addr()), line: closes}
		},
		"untrusted certificate": func(t *testing.T) scene {
			s, _ := redistest.StartTLS(t)
			return scene{o: secret(s), line: "its TLS certificate is not trusted; see redis.ca" + without}
		},
		"another authority": func(t *testing.T) scene {
			s, _ := redistest.StartTLS(t)
			_, ca := redistest.StartTLS(t)
			o := secret(s)
			o.CA = read(t, ca)
			return scene{o: o, line: "its TLS certificate is not trusted; see redis.ca" + without}
		},
		"wants a certificate": func(t *testing.T) scene {
			s, ca := redistest.StartTLS(t)
			s.Do("CONFIG", "SET", "tls-auth-clients", "yes")
			o := secret(s)
			o.CA = read(t, ca)
			return scene{
				o: o, line: "wants a TLS certificate of its clients; its tls-auth-clients must be no or optional" + without,
				also: "closes the connection, as it does if it wants a certificate of ours or has too many clients" + without,
			}
		},
	} {
		t.Run(name, func(t *testing.T) { begin(t).check(t) })
	}
}

// secret is the URL of a server with TLS, and a password.
func secret(s *redistest.Server) redis.Options {
	return redis.Options{URL: "rediss://:" + canary + "@" + s.Addr()}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, ca := redistest.StartTLS(t, "--requirepass", "secret")
	for _, addr := range []string{server.Addr(), strings.Replace(server.Addr(), "127.0.0.1", "localhost", 1)} {
		s := working(t, redis.Options{URL: "rediss://:secret@" + addr, CA: read(t, ca), Timeout: patient})
		keep(t, s, addr, "v")
		holds(t, s, addr, "v")
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "r") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "s")
	server := redistest.Start(t, "--unixsocket", file, "--requirepass", "secret")
	s := calm(t, "unix://:secret@"+file+"?db=2")
	keep(t, s, "k", "v")
	holds(t, s, "k", "v")
	if got := server.Do("INFO", "keyspace"); !strings.Contains(got, "db2:") || strings.Contains(got, "db0:") {
		t.Errorf("keys are in %q", got)
	}
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := calm(t, "redis://"+server.Addr()+"/1"), calm(t, "redis://"+server.Addr()+"/2")
	keep(t, one, "k", "of 1")
	keep(t, two, "k", "of 2")
	holds(t, one, "k", "of 1")
	holds(t, two, "k", "of 2")
}

// An old Redis knows no HELLO.
func TestOldRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret", "--rename-command", "HELLO", "")
	s := calm(t, "redis://:secret@"+server.Addr())
	keep(t, s, "k", "v")
	holds(t, s, "k", "v")
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--requirepass", "secret", "--masterauth", "secret")
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--requirepass", "secret", "--masterauth", "secret", "--replicaof", host, port)
	replica.WaitFor("master_link_status:up", "INFO", "replication")
	sentinel := redistest.StartSentinel(t, master, "main")
	sentinel.WaitFor("slaves=1", "INFO", "sentinel")
	sentinel.Do("ACL", "SETUSER", "default", "resetpass", ">"+canary)
	sentinel.Password = canary
	url := "redis://:secret@" + sentinel.Addr() + "?addr=127.0.0.1:1&sentinel_password=" + canary + "&master_name="
	t.Run("no password for it", func(t *testing.T) {
		scene{o: redis.Options{URL: "redis://:secret@" + sentinel.Addr() + "?master_name=main"}, line: "wants a password; put it into redis.url (a Sentinel's as sentinel_password)" + without}.check(t)
	})
	t.Run("unknown master", func(t *testing.T) {
		scene{o: redis.Options{URL: url + "other"}, line: "that Sentinel knows no such master; see master_name in redis.url" + without}.check(t)
	})
	t.Run("as a Redis", func(t *testing.T) {
		scene{o: redis.Options{URL: "redis://:" + canary + "@" + sentinel.Addr()}, line: "does not know GETRANGE; a Sentinel wants ?master_name=NAME in redis.url" + without}.check(t)
	})
	s := working(t, redis.Options{URL: url + "main", Timeout: time.Second})
	keep(t, s, "k", "v")
	holds(t, s, "k", "v")
	replica.WaitFor("v", "GET", "sidenote:k") // or it would be lost with the master
	master.Kill()
	for !s.Open() {
		_, _ = s.Get(t.Context(), "k")
	}
	sentinel.WaitFor(replica.Addr()[len(host)+1:], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
	replica.WaitFor("role:master", "INFO", "replication")
	failedOver := time.Now()
	await(t, "the new master to be used", func() bool { return !s.Open() })
	took := time.Since(failedOver)
	holds(t, s, "k", "v")
	keep(t, s, "k", "new")
	if got := replica.Do("GET", "sidenote:k"); got != "new" {
		t.Errorf("the new master has %q", got)
	}
	t.Logf("the new master was used %v after it was one", took)
	if took > 3*time.Second {
		t.Errorf("that took %v", took)
	}
}

// All keys of a tenant are in one slot (FAULTS.md, R27), tenants are on all nodes,
// and one that leaves takes only its own away.
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
				key := cache.NewKey(kind, retrieval.Query{Tenant: tenant, Text: fmt.Sprint(j)}).String()
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

// oneNode uses a node of a cluster as if it were all: it says so, though a third
// of the keys can be used.
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

// A node that hangs takes the time of the calls for it, and no more.
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
		if took := <-ended; took > timeout*3/2 {
			t.Errorf("a call took %v", took)
		}
	}
}
