package redis_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
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

// secret returns the URL of a TLS server, with a password.
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

// An old Redis does not know HELLO.
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
	replica.WaitFor("v", "GET", "sidenote:k") // otherwise it would be lost with the master
	master.Kill()
	for !s.Open() {
		_, _ = s.Get(t.Context(), "k")
	}
	sentinel.WaitFor(replica.Addr()[len(host)+1:], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
	replica.WaitFor("role:master", "INFO", "replication")
	await(t, "the new master to be used", func() bool { return !s.Open() })
	holds(t, s, "k", "v")
	keep(t, s, "k", "new")
	if got := replica.Do("GET", "sidenote:k"); got != "new" {
		t.Errorf("the new master has %q", got)
	}
}
