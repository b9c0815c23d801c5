package redis_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

const (
	without   = "; going on without it"
	readsOnly = "; what it holds is read, nothing new is kept"
	closes    = "closes the connection, as it does if it wants TLS (rediss://) or has too many clients" + without
	noSocket  = "no such socket" + without
)

// A scene is a problem and its expected report.
type scene struct {
	o    redis.Options
	line string // the reported line, without the address
	also string // another line that some systems report instead
	end  func() // repairs it; nil if that is not possible
}

func (s scene) says(lines []string, at string) bool {
	return len(lines) == 1 && (lines[0] == "redis "+at+": "+s.line || s.also != "" && lines[0] == "redis "+at+": "+s.also)
}

// check runs a scene: the line appears, alone and as long as the problem lasts; its beginning and
// end are reported once; and nothing that is reported or returned contains the password.
func (s scene) check(t *testing.T) {
	t.Parallel()
	var l log
	if s.o.Timeout == 0 {
		s.o.Timeout = patient
	}
	db := open(t, l.attach(s.o))
	store := db.Store("test")
	other := db.Store("other") // its problem is the same and is reported once
	var problems []string
	call := func(key string) {
		for _, s := range []*redis.Store{store, other} {
			if _, err := s.Get(t.Context(), key); err != nil {
				problems = append(problems, err.Error())
			}
			if err := s.Set(t.Context(), key, []byte("v"), time.Minute); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	asked(t, store)
	asked(t, other)
	for i := range 10 {
		call(fmt.Sprint("key ", i))
	}
	await(t, fmt.Sprintf("the line %q, but %q", s.line, db.Trouble()), func() bool { return s.says(db.Trouble(), db.Address()) })
	line := db.Trouble()[0]
	if writes := strings.HasSuffix(line, readsOnly); store.Open() == writes {
		t.Errorf("of writes only: %v, and the breaker is open: %v", writes, store.Open())
	}
	if s.end != nil {
		s.end()
		await(t, "the end of the trouble", func() bool {
			call("key")
			return db.Trouble() == nil && !store.Open() && !other.Open()
		})
	}
	told := l.told()
	for _, text := range append(problems, told...) {
		if strings.Contains(text, canary) || strings.ContainsAny(text, "\r\n\x00") {
			t.Errorf("shown: %q", text)
		}
	}
	for sign, want := range map[string]bool{"+": true, "-": s.end != nil} {
		if n := count(told, sign+line); n > 1 || n > 0 != want {
			t.Errorf("told %d times: %s%s", n, sign, line)
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// at returns a URL with a password that must not be shown.
func at(addr string) redis.Options { return redis.Options{URL: "redis://:" + canary + "@" + addr} }

// liar starts a server that sends reply, with %s for the password, and after end answers like an
// empty Redis.
func liar(t *testing.T, reply string) (o redis.Options, end func()) {
	var honest atomic.Bool
	addr := redistest.Lie(t, func(args []string) []byte {
		if honest.Load() || reply[0] == '-' && strings.EqualFold(args[0], "hello") {
			return answers(args)
		}
		return []byte(strings.ReplaceAll(reply, "%s", canary))
	})
	return at(addr), func() { honest.Store(true) }
}

// answers returns the replies of an empty Redis.
func answers(args []string) []byte {
	switch strings.ToLower(args[0]) {
	case "hello":
		return []byte("*0\r\n")
	case "getrange":
		return []byte("$0\r\n\r\n")
	}
	return []byte("+OK\r\n")
}

// Servers that answer, but not like a usable Redis.
func TestLinesOfReplies(t *testing.T) {
	for name, c := range map[string]struct{ reply, line string }{
		"HTTP":               {"HTTP/1.1 400 Bad Request\r\nX: %s\r\n\r\n", "what answers there does not speak the Redis protocol" + without},
		"SSH":                {"SSH-2.0-OpenSSH %s\r\n", "what answers there does not speak the Redis protocol" + without},
		"a huge string":      {"$10000000000\r\n", "what answers there does not speak the Redis protocol" + without},
		"a number":           {":5\r\n", "what answers there does not speak the Redis protocol" + without},
		"an array":           {"*1\r\n*1\r\n$6\r\n%s\r\n", "what answers there does not speak the Redis protocol" + without},
		"loading":            {"-LOADING Redis is loading the dataset in memory\r\n", "loading its data (LOADING)" + without},
		"script":             {"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n", "busy running a script (BUSY)" + without},
		"node of a cluster":  {"-MOVED 866 10.0.0.1:6379\r\n", "is one node of a cluster; write redis.url with ?cluster=true" + without},
		"cluster is down":    {"-CLUSTERDOWN The cluster is down\r\n", "has no master for our keys (CLUSTERDOWN)" + without},
		"too many clients":   {"-ERR max number of clients reached\r\n", "has too many clients" + without},
		"password not set":   {"-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n", "wants no password, and redis.url holds one" + without},
		"not set, Redis 5":   {"-ERR Client sent AUTH, but no password is set\r\n", "wants no password, and redis.url holds one" + without},
		"password, Redis 5":  {"-ERR invalid password\r\n", "refuses the user or password of redis.url" + without},
		"a Sentinel":         {"-ERR unknown command 'getrange', with args beginning with: '%s'\r\n", "does not know GETRANGE; a Sentinel wants ?master_name=NAME in redis.url" + without},
		"an error":           {"-ERR %s\r\n", "answers GETRANGE with an error (ERR)" + without},
		"an unknown error":   {"-WEIRD %s\r\n", "answers GETRANGE with an error (WEIRD)" + without},
		"a stranger's error": {"-CAN%s: told\r\n", "answers GETRANGE with an error (unknown)" + without},
		"an empty error":     {"-\r\n", "answers GETRANGE with an error (unknown)" + without},
	} {
		t.Run(name, func(t *testing.T) {
			o, end := liar(t, c.reply)
			scene{o: o, line: c.line, end: end}.check(t)
		})
	}
}

// States in which a working Redis refuses commands, and their end.
func TestLinesOfServers(t *testing.T) {
	scenes := map[string]func(t *testing.T, s *redistest.Server) scene{
		"wrong password": func(t *testing.T, s *redistest.Server) scene {
			password(s, "right")
			return scene{o: at(s.Addr()), line: "refuses the user or password of redis.url" + without, end: func() { password(s, canary) }}
		},
		"no password": func(t *testing.T, s *redistest.Server) scene {
			password(s, canary)
			return scene{o: redis.Options{URL: s.URL()}, line: "wants a password; put it into redis.url" + without, end: func() { password(s, "") }}
		},
		"no password, another database": func(t *testing.T, s *redistest.Server) scene {
			password(s, canary)
			return scene{o: redis.Options{URL: "redis://" + s.Addr() + "/3"}, line: "wants a password; put it into redis.url" + without, end: func() { password(s, "") }}
		},
		"unknown user": func(t *testing.T, s *redistest.Server) scene {
			return scene{o: as("bob", s, ""), line: "refuses the user or password of redis.url" + without, end: user(s, "bob", "~*", "+@all")}
		},
		"may not read": func(t *testing.T, s *redistest.Server) scene {
			user(s, "bob", "~*", "+set")()
			return scene{o: as("bob", s, ""), line: lacks("+getrange +set") + without, end: user(s, "bob", "+getrange")}
		},
		"may not write": func(t *testing.T, s *redistest.Server) scene {
			user(s, "bob", "~*", "+getrange")()
			return scene{o: as("bob", s, ""), line: lacks("+getrange +set") + readsOnly, end: user(s, "bob", "+set")}
		},
		"may not use our keys": func(t *testing.T, s *redistest.Server) scene {
			user(s, "bob", "~other:*", "+getrange", "+set")()
			return scene{o: as("bob", s, ""), line: lacks("+getrange +set") + without, end: user(s, "bob", "~sidenote:*")}
		},
		"may not select": func(t *testing.T, s *redistest.Server) scene {
			user(s, "bob", "~sidenote:*", "+getrange", "+set")()
			return scene{o: as("bob", s, "/3"), line: lacks("+getrange +set +select") + without, end: user(s, "bob", "+select")}
		},
		"memory": func(t *testing.T, s *redistest.Server) scene {
			s.Do("CONFIG", "SET", "maxmemory", "1")
			return scene{o: at(s.Addr()), line: "its memory is full (OOM)" + readsOnly, end: func() { s.Do("CONFIG", "SET", "maxmemory", "0") }}
		},
		"replica": func(t *testing.T, s *redistest.Server) scene {
			s.Do("REPLICAOF", "127.0.0.1", "1")
			return scene{o: at(s.Addr()), line: "refuses writes (READONLY)" + readsOnly, end: func() { s.Do("REPLICAOF", "NO", "ONE") }}
		},
		"replica alone": func(t *testing.T, s *redistest.Server) scene {
			s.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
			s.Do("REPLICAOF", "127.0.0.1", "1")
			return scene{o: at(s.Addr()), line: "has no master for our keys (MASTERDOWN)" + without, end: func() { s.Do("REPLICAOF", "NO", "ONE") }}
		},
		"too few replicas": func(t *testing.T, s *redistest.Server) scene {
			s.Do("CONFIG", "SET", "min-replicas-to-write", "1")
			return scene{o: at(s.Addr()), line: "refuses writes (NOREPLICAS)" + readsOnly, end: func() { s.Do("CONFIG", "SET", "min-replicas-to-write", "0") }}
		},
		"no such database": func(t *testing.T, s *redistest.Server) scene {
			return scene{o: at(s.Addr() + "/99"), line: "has no database 99; see redis.url" + without}
		},
		"no cluster": func(t *testing.T, s *redistest.Server) scene {
			return scene{o: at(s.Addr() + "?cluster=true"), line: "is no cluster; write redis.url without cluster=true" + without}
		},
		"no Sentinel": func(t *testing.T, s *redistest.Server) scene {
			return scene{o: at(s.Addr() + "?master_name=main"), line: "is no Sentinel; write redis.url without master_name" + without}
		},
		"no TLS": func(t *testing.T, s *redistest.Server) scene {
			return scene{o: redis.Options{URL: "rediss://:" + canary + "@" + s.Addr(), Timeout: redis.DefaultTimeout}, line: "does not answer in TLS; use redis:// or its TLS port" + without}
		},
		"script": func(t *testing.T, s *redistest.Server) scene {
			s.Do("CONFIG", "SET", "busy-reply-threshold", "1")
			say(t, s, "EVAL", "while true do end", "0")
			s.WaitFor("BUSY", "GET", "k")
			return scene{o: at(s.Addr()), line: "busy running a script (BUSY)" + without, end: func() { s.Do("SCRIPT", "KILL") }}
		},
		"frozen": func(t *testing.T, s *redistest.Server) scene {
			s.Stop()
			return scene{o: redis.Options{URL: s.URL(), Timeout: redis.DefaultTimeout}, line: "does not answer within 50ms" + without, end: s.Continue}
		},
		"too many clients": func(t *testing.T, s *redistest.Server) scene {
			conn := say(t, s, "CONFIG", "SET", "maxclients", "1")
			if _, err := io.ReadFull(conn, make([]byte, len("+OK\r\n"))); err != nil {
				t.Fatal(err)
			}
			return scene{
				o: at(s.Addr()), line: "has too many clients" + without, also: closes,
				end: func() { _, _ = io.WriteString(conn, "CONFIG SET maxclients 1000\r\n") },
			}
		},
		"refused": func(t *testing.T, s *redistest.Server) scene {
			f := redistest.NewFault(t, s.Addr())
			f.Refuse(true)
			return scene{o: at(f.Addr()), line: "connection refused" + without, end: func() { f.Refuse(false) }}
		},
	}
	for name, begin := range scenes {
		t.Run(name, func(t *testing.T) { begin(t, redistest.Start(t)).check(t) })
	}
}

func lacks(needed string) string {
	return "the user may not do what is needed; grant " + needed + " ~sidenote:*"
}

func password(s *redistest.Server, text string) {
	s.Do("CONFIG", "SET", "requirepass", text)
	s.Password = text
}

// as returns a URL with a user.
func as(name string, s *redistest.Server, path string) redis.Options {
	return redis.Options{URL: "redis://" + name + ":" + canary + "@" + s.Addr() + path}
}

// user returns a function that grants a user more permissions.
func user(s *redistest.Server, name string, rights ...string) func() {
	return func() { s.Do(slices.Concat([]string{"ACL", "SETUSER", name, "on", ">" + canary}, rights)...) }
}

// say sends a command and leaves the reply on the connection.
func say(t *testing.T, s *redistest.Server, args ...string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return conn
}
