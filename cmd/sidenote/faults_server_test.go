package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A small pool makes requests wait, and is not treated as a failure of Redis.
func poolExhausted(t *testing.T, s *stage) {
	r := s.bare(t)
	// A call waits up to 3 s for a connection, and then has 3 s for 30 ms, whatever else runs.
	r.begin("pool_size: 2, timeout: 6s", "redis://"+r.fault.Addr())
	r.fault.Latency(30*time.Millisecond, 0)
	const many = 200
	answers := r.burst(many, many, func(i int) int { return never + i })
	l := lostBy(answers)
	t.Logf("%d requests at once lost %v; %.0f calls found no connection, %d connections", many, l, r.errors("pool"), r.fault.Conns())
	// Each may wait 3 s twice; one after another they would wait for minutes.
	if l.most > 40*time.Second {
		t.Errorf("requests lost %v", l)
	}
	if r.errors("pool") == 0 {
		t.Error("there were connections enough")
	}
	eventually(t, func() string { // one that is replaced may not be closed yet
		if n := r.fault.Conns(); n > 2+ledgerConns {
			return fmt.Sprintf("%d connections", n)
		}
		return ""
	})
	if r.saw(func(g glimpse) bool { return !g.well() }) {
		t.Errorf("taken for a fault of Redis: %q", r.glimpse().reasons)
	}
	r.fault.Latency(0, 0)
	allHit(t, r.drive(cycle/2, nil))
	r.released()
}

// writesRefused runs a Redis that refuses writes but not reads for some time.
func (r *rig) writesRefused(begin, end func(), kind, line string) {
	r.t.Helper()
	r.news = 2
	begin()
	answers := r.drive(cycle/2, nil)
	hits := countHits(answers)
	r.t.Logf("%d requests lost %v; %d of the %d in Redis were found, %.0f writes failed",
		len(answers), lostBy(answers), hits, len(answers)/2, r.errors(kind))
	if hits != len(answers)/2 {
		r.t.Errorf("%d of %d found in Redis", hits, len(answers)/2)
	}
	if g := r.glimpse(); g.open > 0 || g.status != "degraded" || !g.says(line+"; what it holds is read, nothing new is kept") {
		r.t.Errorf("%d breakers open, %s %q", g.open, g.status, g.reasons)
	}
	// On a busy machine some calls may be late, find no connection, or not be made.
	var of, late, all float64
	for range 100 { // writes may go on meanwhile, so that these are of different moments
		if of, late, all = r.errors(kind), r.errors("timeout", "pool", "dropped"), r.errors(); of+late == all {
			break
		}
	}
	if of == 0 || of+late != all || late > of {
		r.t.Errorf("%.0f errors of %.0f are of kind %s, %.0f late", of, all, kind, late)
	}
	start := time.Now()
	end()
	for !r.glimpse().well() && time.Since(start) < 40*time.Second {
		r.drive(rate/8, nil) // only a write tells
	}
	r.t.Logf("kept again after %v", r.recovered(start))
}

func outOfMemory(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	r.writesRefused(
		func() {
			r.server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			r.server.Do("CONFIG", "SET", "maxmemory", "1mb")
		},
		func() { r.server.Do("CONFIG", "SET", "maxmemory", "0") },
		"memory", "its memory is full (OOM)")
	r.released()

	r.server.Do("CONFIG", "SET", "maxmemory", "1mb")
	r.news = 0
	r.p = r.serve(t, steady, r.server.URL()) // which meets it full
	if g := r.glimpse(); !g.says("its memory is full") {
		t.Errorf("at the start: %s %q", g.status, g.reasons)
	}
	allHit(t, r.drive(cycle/3, nil))
}

func readOnly(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	r.writesRefused(
		func() { r.server.Do("REPLICAOF", "127.0.0.1", "1") },
		func() { r.server.Do("REPLICAOF", "NO", "ONE") },
		"readonly", "refuses writes (READONLY)")
	r.released()
}

func somebodysScript(t *testing.T, s *stage) {
	r := s.rig(t, usual)
	r.server.Do("CONFIG", "SET", "lua-time-limit", "100") // then it says so
	script := r.connect()
	r.stall(func() { fmt.Fprint(script, "EVAL \"while true do end\" 0\r\n") })
	r.until("told of the script", func(g glimpse) bool { return g.says("busy running a script") })
	if r.errors("timeout", "busy") == 0 {
		t.Error("no call was counted")
	}
	start := time.Now()
	r.server.Do("SCRIPT", "KILL")
	t.Logf("back after %v", r.recovered(start))
	r.released()
}

func flushed(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	at := map[int]func(){}
	for i := 0; i < cycle/2; i += 8 {
		at[i] = func() { r.server.Do("FLUSHALL") }
	}
	answers := r.drive(cycle/2, at)
	t.Logf("%d requests lost %v", len(answers), lostBy(answers))
	if n := countHits(answers); n > 0 {
		t.Errorf("%d answers from an empty Redis", n)
	}
	r.drive(cycle, nil)
	allHit(t, r.drive(cycle/4, nil))
	if r.errors() > r.errors("timeout", "pool", "dropped") || r.saw(func(g glimpse) bool { return !g.well() }) {
		t.Errorf("%.0f errors, %q", r.errors(), r.glimpse().reasons)
	}
	r.released()
}

func tooManyClients(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	var before int64
	var since time.Time
	var others []net.Conn
	answered := func(conn net.Conn) bool {
		fmt.Fprint(conn, "PING\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil && line == "+PONG\r\n"
	}
	r.server.Do("CONFIG", "SET", "maxclients", "10")
	r.stall(func() {
		r.fault.Refuse(true)
		r.fault.Reset()
		for refused := 0; refused < 100; { // a connection that has just been closed may still count
			conn := r.connect()
			if answered(conn) {
				others, refused = append(others, conn), 0
				continue
			}
			conn.Close()
			refused++
		}
		r.fault.Refuse(false)
		before, since = r.fault.Accepted(), time.Now()
	})
	tried, seconds := float64(r.fault.Accepted()-before), time.Since(since).Seconds()
	t.Logf("%d others, %.0f connections tried in %.1f s", len(others), tried, seconds)
	if tried > 20+20*seconds { // a probe of each use, a few times; without breakers, two for each request
		t.Errorf("%.0f connections tried in %.1f s", tried, seconds)
	}
	if r.errors("busy", "refused") == 0 || !r.glimpse().says("going on without it") {
		t.Errorf("%q", r.glimpse().reasons)
	}
	for _, conn := range others {
		conn.Close()
	}
	start := time.Now()
	t.Logf("back after %v", r.recovered(start))
	r.released()
}

const redisPassword = "canary-of-redis"

func accessRevoked(t *testing.T, s *stage) {
	r := s.bare(t)
	// These are exactly the rights that the line about missing rights names.
	user := func(rights ...string) {
		if got := r.server.Do(append([]string{"ACL", "SETUSER", "app"}, rights...)...); got != "OK" {
			t.Fatal(got)
		}
	}
	user("on", ">"+redisPassword, "~sidenote:*", "-@all", "+getrange", "+set")
	r.begin(steady, "redis://app:"+redisPassword+"@"+r.fault.Addr())
	allHit(t, r.drive(10, nil))
	r.stall(func() { user("off"); r.fault.Reset() })
	line := "redis " + r.fault.Addr() + ": refuses the user or password of redis.url; going on without it"
	if g := r.glimpse(); !g.says(line) || r.errors("denied") == 0 {
		t.Errorf("%q, %.0f calls counted as denied", g.reasons, r.errors("denied"))
	}
	_, shown := r.get("/metrics")
	_, state := r.get("/readyz")
	user("on", "resetpass", ">another")
	r.drive(rate/5, nil)
	if g := r.glimpse(); g.open != 2 || !g.says(line) {
		t.Errorf("with another password: %d breakers open, %q", g.open, g.reasons)
	}
	start := time.Now()
	user("resetpass", ">"+redisPassword)
	t.Logf("back after %v", r.recovered(start))
	allHit(t, r.drive(cycle/4, nil))
	log := said(r.p)
	if n := strings.Count(log, `"msg":"`+line); n != 1 {
		t.Errorf("said %d times", n)
	}
	if strings.Contains(shown+state+log, "canary") {
		t.Error("the password is shown")
	}
	r.released()
}
