package main

import (
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

// TestRedisFaults has the rows of deploy/CONTRIBUTING.md about a cache on Redis. They measure this
// one process, so they do not run in parallel.
func TestRedisFaults(t *testing.T) {
	s := newStage(t)
	for _, row := range []struct {
		name string
		run  func(*testing.T, *stage)
	}{
		{"R1 killed under load", killed},
		{"R2 stopped", stopped},
		{"R3 continued", continued},
		{"R4 blackhole", blackhole},
		{"R5 blackhole at the start", blackholeAtStart},
		{"R6 refused at the start", refusedAtStart},
		{"R7 latency", latency},
		{"R8 cut replies", cutReplies},
		{"R9 pool exhausted", poolExhausted},
		{"R10 out of memory", outOfMemory},
		{"R11 read only", readOnly},
		{"R12 somebody's script", somebodysScript},
		{"R14 wrong type", wrongType},
		{"R16 corrupted values", corrupted},
		{"R17 another tenant's values", othersValues},
		{"R20 flushed", flushed},
		{"R23 too many clients", tooManyClients},
		{"R24 access revoked", accessRevoked},
		{"R26 clients leave", clientsLeave},
		{"R27 one slot for a tenant", oneSlot},
	} {
		t.Run(row.name, func(t *testing.T) { row.run(t, s) })
	}
}

// patience is how long a request may be delayed under Sidenote's default timeout.
const patience = 60 * time.Millisecond

// stall breaks Redis under load. Until the breakers have opened, each request is delayed by at most
// patience, from then on by almost nothing.
func (r *rig) stall(broken func()) {
	r.t.Helper()
	const healthy = 30
	answers := r.drive(2*healthy, map[int]func(){healthy: broken})
	well, before := lostBy(answers[:healthy]), lostBy(answers[healthy:])
	r.bearable(before, patience)
	both := func() bool { return r.glimpse().open == 2 }
	// A breaker that opened before because the machine was busy needs a second.
	for tries := 0; !both() && tries < 8; tries++ {
		answers = append(answers, r.drive(rate/4, nil)...)
	}
	last := r.unasked(rate)
	after := lostBy(last)
	r.unnoticed(after)
	r.t.Logf("%d requests lost: while all was well %v, then %v, with open breakers %v", len(answers)+len(last), well, before, after)
	if g := r.glimpse(); g.open != 2 || g.status != "degraded" {
		r.t.Errorf("%d breakers open, want 2: %s", g.open, g.status)
	}
}

// unasked sends requests, most of which must not call a Redis that is known to be down: each of
// them would call it twice.
func (r *rig) unasked(requests int) []answer {
	r.t.Helper()
	failed := r.errors()
	answers := r.drive(requests, nil)
	if n := r.errors() - failed; n > float64(requests)/2 {
		r.t.Errorf("%.0f calls of a Redis that is known to be down, by %d requests", n, requests)
	}
	return answers
}

// countHits counts the answers that came from a cache.
func countHits(answers []answer) (n int) {
	for i := range answers {
		if strings.Contains(answers[i].got.status, "; cache=hit;") {
			n++
		}
	}
	return n
}

// allHit returns an error unless all answers were cache hits.
func allHit(t *testing.T, answers []answer) {
	t.Helper()
	if n := countHits(answers); n < len(answers) {
		t.Errorf("%d of %d answers came from a cache", n, len(answers))
	}
}

func killed(t *testing.T, s *stage) {
	r := s.bare(t)
	r.begin(usual, r.server.URL())
	var back time.Time
	var hits float64
	answers := r.drive(140, map[int]func(){
		30: r.server.Kill,
		70: func() {
			hits = r.hits("selected")
			r.server.Restart() // empty
			back = time.Now()
		},
	})
	t.Logf("%d requests lost %v; back after %v", len(answers), lostBy(answers), r.recovered(back))
	r.bearable(lostBy(answers), patience)
	if !r.saw(func(g glimpse) bool { return g.status == "degraded" && g.open > 0 && g.says("connection refused") }) {
		t.Error("never degraded")
	}
	if r.errors("refused") == 0 {
		t.Error("no call was counted as refused")
	}
	r.burst(2*cycle, 8, func(i int) int { return i % cycle }) // on a busy machine all others may have come before it was back
	if r.hits("selected") == hits {
		t.Error("nothing was found in Redis after the restart")
	}
	r.released()
}

func stopped(t *testing.T, s *stage) {
	r := s.rig(t, usual)
	r.stall(r.server.Stop)
	if r.errors("timeout") == 0 || !r.glimpse().says("within") {
		t.Error("nothing tells that it does not answer")
	}
	start := time.Now()
	r.server.Continue()
	t.Logf("back after %v", r.recovered(start))
	r.released()
}

// Late replies of Redis to earlier requests are not given to other requests.
func continued(t *testing.T, s *stage) {
	r := s.rig(t, "pool_size: 20, timeout: 500ms")
	const many = 2 * cycle
	r.burst(many-cycle, 8, func(i int) int { return cycle + i }) // for Redis to hold that many
	r.server.Stop()
	r.burst(3*pool, 3*pool, func(i int) int { return i })
	r.drive(rate, nil)
	start := time.Now()
	r.server.Continue()
	took := r.recovered(start)
	hits := r.hits("selected")
	answers := r.burst(many, 16, func(i int) int { return i })
	hits = r.hits("selected") - hits
	t.Logf("back after %v, then %.0f of %d answers from Redis", took, hits, len(answers))
	if hits < many/2 {
		t.Error("Redis is hardly asked")
	}
	if took > 40*time.Second { // of a few probes a second; a breaker of a minute would show
		t.Errorf("took %v to come back", took)
	}
	if n := r.count("integrity_mismatch_total"); n > 0 {
		t.Errorf("%.0f replies were to other requests", n)
	}
	r.released()
}

func blackhole(t *testing.T, s *stage) {
	r := s.rig(t, usual)
	r.stall(func() { r.fault.Blackhole(true) })
	// Growth would show here already: 160 requests and a few probes met the blackhole.
	if u := r.usage(); u.goroutines > r.base.goroutines+pool {
		t.Errorf("%d goroutines while Redis is away, %d before", u.goroutines, r.base.goroutines)
	}
	start := time.Now()
	r.fault.Blackhole(false)
	t.Logf("back after %v", r.recovered(start))
	r.released()
}

func blackholeAtStart(t *testing.T, s *stage) {
	r := s.bare(t)
	start := time.Now()
	r.begin(usual, "redis://"+redistest.FullBacklog(t))
	took := time.Since(start)
	answers := r.unasked(3 * rate / 2)
	t.Logf("%d requests lost %v; serves after %v", len(answers), lostBy(answers), took)
	if g := r.glimpse(); g.status != "degraded" || !g.says("going on without it") {
		t.Errorf("%s %q", g.status, g.reasons)
	}
	r.unnoticed(lostBy(answers))
	r.released()
}

func refusedAtStart(t *testing.T, s *stage) {
	r := s.bare(t)
	r.fault.Refuse(true)
	r.begin(steady, "redis://"+r.fault.Addr())
	answers := r.unasked(cycle / 2)
	if g := r.glimpse(); g.status != "degraded" || !g.says("connection refused") {
		t.Errorf("%s %q", g.status, g.reasons)
	}
	r.unnoticed(lostBy(answers))
	start := time.Now()
	r.fault.Refuse(false)
	t.Logf("%d requests lost %v; there after %v", len(answers), lostBy(answers), r.recovered(start))
	for i, key := range keys(r.server, "selected:*") {
		if i%2 == 0 { // so that what they were selected from is of use
			r.server.Do("DEL", key)
		}
	}
	r.drive(cycle, nil)
	if whole, part := r.hits("selected"), r.hits("candidates"); whole+part != cycle || min(whole, part) < cycle/4 {
		t.Errorf("of %d answers, %.0f came from Redis and %.0f from candidates there", cycle, whole, part)
	}
	r.released()
}

// A Redis that is slow, and sometimes too slow, stays in use. How often its breaker opens is tested
// in fake time, by TestSlowRedisDoesNotFlap of cache/redis. All times are four times the row's, so
// that delays of the machine do not matter.
func latency(t *testing.T, s *stage) {
	r := s.rig(t, "pool_size: 40, timeout: 200ms")
	r.fault.Latency(160*time.Millisecond, 120*time.Millisecond)
	answers := r.drive(3*rate, nil)
	l := lostBy(answers)
	t.Logf("%d requests lost %v; %.0f of them found in Redis, %.0f calls were too slow",
		len(answers), l, r.hits("selected"), r.errors("timeout"))
	r.bearable(l, 200*time.Millisecond)
	if r.hits("selected") == 0 || r.errors("timeout") == 0 {
		t.Error("all or nothing was too slow")
	}
	r.fault.Latency(0, 0)
	r.recovered(time.Now())
	r.released()
}

// A reply that is cut anywhere is not mistaken for a complete one.
func cutReplies(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	at := map[int]func(){}
	for i, bytes := range []int64{1, 3, 5, 6, 40, 200, 400, 401, 700, 1000, 1500, 2500} {
		at[(i+1)*12] = func() { r.fault.CutAfter(bytes) }
	}
	answers := r.drive(13*12, at)
	t.Logf("%d requests lost %v; %.0f found in Redis, %.0f calls cut", len(answers), lostBy(answers), r.hits("selected"), r.errors("refused"))
	if r.errors("refused") < 5 || r.hits("selected") < 15 {
		t.Error("all or nothing was cut")
	}
	if n := r.count("integrity_mismatch_total"); n > 0 {
		t.Errorf("%.0f parts of replies were taken for the whole", n)
	}
	start := time.Now()
	r.fault.CutAfter(0)
	t.Logf("back after %v", r.recovered(start))
	r.released()
}
