package redis_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/cache/budget/budgettest"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

var tokensADay = budget.Limits{budget.TokensPerDay: 1000}

// asks reserves tokens of the tenant acme.
func asks(t testing.TB, l budget.Ledger, id string, tokens int64, limits budget.Limits) budget.Decision {
	t.Helper()
	d, err := l.Reserve(t.Context(), tokensOf("acme", id, tokens, limits))
	if err != nil {
		t.Fatalf("reserve %s: %v", id, err)
	}
	return d
}

func tokensOf(tenant, id string, tokens int64, limits budget.Limits) budget.Reservation {
	return budget.Reservation{
		Tenant: tenant, ID: id, Kind: budget.Chat, Lease: time.Minute, Limits: limits,
		Estimate: budget.Amount{Requests: 1, Tokens: tokens},
	}
}

func settles(t testing.TB, l budget.Ledger, id string, tokens int64, want budget.Outcome) {
	t.Helper()
	got, err := l.Settle(t.Context(), budget.Settlement{
		Ticket: budget.Ticket{Tenant: "acme", ID: id}, Actual: budget.Amount{Requests: 1, Tokens: tokens},
	})
	if err != nil || got[0] != want {
		t.Fatalf("settle %s: got %v, %v, want %s", id, got, err, want)
	}
}

// day returns the tokens spent and held today.
func day(t testing.TB, l budget.Reporter) (spent, held int64) {
	t.Helper()
	u, err := l.Usage(t.Context(), "acme", budget.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Day.Spent.Tokens, u.Day.Held.Tokens
}

// Row R13: if Redis forgets scripts at any moment, nothing is charged twice.
func TestScriptFlushR13(t *testing.T) {
	server := redistest.Start(t)
	l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
	const workers = 8
	each, every := 625, 50*time.Millisecond
	if testing.Short() {
		each, every = 125, 10*time.Millisecond
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("w%d-%d:1", w, i)
				d, err := l.Reserve(t.Context(), tokensOf("acme", id, 10, budget.Limits{}))
				if err != nil || !d.Granted {
					t.Errorf("reserve %s: %+v, %v", id, d, err)
				}
				s := budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Requests: 1, Tokens: 3}}
				if got, err := l.Settle(t.Context(), s, s); err != nil || got[0] != budget.Settled || got[1] != budget.Repeated {
					t.Errorf("settle %s: %v, %v", id, got, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for working := true; working; {
		server.Do("SCRIPT", "FLUSH")
		select {
		case <-done:
			working = false
		case <-time.After(every):
		}
	}
	if spent, held := day(t, l); spent != int64(workers*each*3) || held != 0 {
		t.Errorf("%d spent and %d held, want %d and none", spent, held, workers*each*3)
	}
}

// Row R15: a key that is not a valid record grants nothing, and is not changed.
func TestForeignKeysR15(t *testing.T) {
	server := redistest.Start(t)
	record := "sidenote:budget1:{acme}"
	today := strconv.FormatInt(budgettest.NewClock().Now().Unix()/86400, 10)
	for _, c := range []struct {
		what  string
		spoil []string
		calls string // that read the spoilt key
	}{
		{"text in a counter", []string{"HSET", record, "d" + today, "abc"}, "reserve settle renew usage"},
		{"text among counters", []string{"HSET", record, "d" + today, `[1,2,"abc",4,5,6,7,8]`}, "reserve settle renew usage"},
		{"a negative counter", []string{"HSET", record, "d" + today, "[0,-5,0,0,0,0,0,0]"}, "reserve settle renew usage"},
		{"a fraction", []string{"HSET", record, "d" + today, "[0,1.5,0,0,0,0,0,0]"}, "reserve settle renew usage"},
		{"no number", []string{"HSET", record, "d" + today, "[0,NaN,0,0,0,0,0,0]"}, "reserve settle renew usage"},
		{"too few", []string{"HSET", record, "state", "[1,2]"}, "reserve settle renew usage"},
		{"more than can be", []string{"HSET", record, "d" + today, "[9007199254740993,0,0,0,0,0,0,0]"}, "reserve settle renew usage"},
		{"a kind in text", []string{"HSET", record, "d" + today + ":chat", "x"}, "settle usage"},
		{"a string for the record", []string{"SET", record, "abc"}, "reserve settle renew usage"},
		{"a string for the leases", []string{"SET", record + ":leases", "abc"}, "reserve settle renew usage"},
		{"a string for the open ones", []string{"SET", record + ":open", "abc"}, "reserve settle renew"},
		{"a string for the settled ones", []string{"SET", record + ":settled", "abc"}, "reserve settle renew usage"},
		{"another lease", []string{"HSET", record + ":open", "r1:1", "abc"}, "settle"},
	} {
		server.Do("FLUSHALL")
		l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
		asks(t, l, "r1:1", 100, tokensADay)
		if reply := server.Do(c.spoil...); strings.HasPrefix(reply, "-") {
			t.Fatalf("%s: %s", c.what, reply)
		}
		before := server.Do("DEBUG", "DIGEST")
		settlement := budget.Settlement{Ticket: budget.Ticket{Tenant: "acme", ID: "r1:1"}}
		for call, do := range map[string]func() error{
			"reserve": func() error {
				_, err := l.Reserve(t.Context(), tokensOf("acme", "r2:1", 1, tokensADay))
				return err
			},
			"settle": func() error { _, err := l.Settle(t.Context(), settlement); return err },
			"renew":  func() error { _, err := l.Renew(t.Context(), settlement.Ticket, time.Minute); return err },
			"usage":  func() error { _, err := l.Usage(t.Context(), "acme", tokensADay); return err },
		} {
			if err := do(); strings.Contains(c.calls, call) && !errors.Is(err, budget.ErrCorrupt) {
				t.Errorf("%s: %s: got %v, want ErrCorrupt", c.what, call, err)
			} else if after := server.Do("DEBUG", "DIGEST"); strings.Contains(c.calls, call) && after != before {
				t.Errorf("%s: %s has written", c.what, call)
			} else {
				before = after
			}
		}
		if d, err := l.Reserve(t.Context(), tokensOf("other", "r1:1", 1, tokensADay)); err != nil || !d.Granted {
			t.Errorf("%s: another tenant: %+v, %v", c.what, d, err)
		}
	}
}

// Row R19: a Redis that restarts with an old snapshot does not grant again what was spent since.
// Row R20: nor does one that was emptied. Reservations that were lost while open are charged when
// they are settled.
func TestOldSnapshotR19R20(t *testing.T) {
	for name, lose := range map[string]func(*redistest.Server){
		"snapshot": (*redistest.Server).Restart,
		"flush":    func(s *redistest.Server) { s.Do("FLUSHALL") },
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			clock := budgettest.NewClock()
			first := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), clock)
			second := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), clock)
			limits := budget.Limits{budget.TokensPerDay: 1000, budget.TokensPerMinute: 900}
			asks(t, first, "r1:1", 100, limits)
			settles(t, first, "r1:1", 100, budget.Settled)
			stale := asks(t, first, "stale:1", 50, limits) // open in the snapshot
			if got := server.Do("SAVE"); got != "OK" {
				t.Fatal(got)
			}
			ends(t, first, stale, 40)
			asks(t, second, "r2:1", 300, limits)
			settles(t, second, "r2:1", 300, budget.Settled)
			early, late := asks(t, first, "r3:1", 350, limits), asks(t, first, "r4:1", 50, limits) // open when the record is lost
			lose(server)
			await(t, "Redis", func() bool {
				_, err := first.Usage(t.Context(), "acme", limits)
				return err == nil && !first.Open() && !second.Open()
			})
			ends(t, second, early, 10) // the first call after the loss, by a replica that did not make the reservation
			if spent, held := day(t, first); spent != 450 || held != 0 {
				t.Errorf("after the first settlement %d spent and %d held, want 450 and none", spent, held)
			}
			d := asks(t, first, "r5:1", 600, limits)
			if d.Granted {
				t.Errorf("%+v, want a refusal of 600 of 1,000", d)
			}
			ends(t, first, late, 20)
			if d := asks(t, first, "r6:1", 150, budget.Limits{budget.TokensPerDay: 1000}); !d.Granted || d.RolledBack {
				t.Errorf("150 more: %+v", d)
			}
			if d := asks(t, second, "r7:1", 400, limits); d.Granted {
				t.Errorf("another replica: %+v, want a refusal of 400 of 380", d)
			}
			if spent, held := day(t, first); spent != 470 || held != 150 {
				t.Errorf("%d spent and %d held, want 470 and 150", spent, held)
			}
			clock.Add(24 * time.Hour)
			if d := asks(t, second, "r8:1", 900, limits); !d.Granted || d.RolledBack {
				t.Errorf("the next day: %+v", d)
			}
		})
	}
}

// ends settles a granted reservation twice.
func ends(t testing.TB, l budget.Ledger, d budget.Decision, tokens int64) {
	t.Helper()
	for _, want := range []budget.Outcome{budget.Settled, budget.Repeated} {
		got, err := l.Settle(t.Context(), budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Requests: 1, Tokens: tokens}})
		if err != nil || got[0] != want {
			t.Errorf("settle %s: got %v, %v, want %s", d.Ticket.ID, got, err, want)
		}
	}
}

// A replica restores what was spent at the last settlement, whatever was reserved before, and
// whichever replica settled.
func TestLostCountsAreThoseOfTheLastSettlement(t *testing.T) {
	limits := budget.Limits{budget.TokensPerDay: 100_000, budget.TokensPerMinute: 50_000}
	for name, c := range map[string]struct {
		calls int
		asked bool // the first call after the loss is a reservation, else a settlement
	}{
		"one request":               {calls: 1, asked: true},
		"a burst":                   {calls: 9, asked: true},
		"a burst, and a settlement": {calls: 9},
	} {
		t.Run(name, func(t *testing.T) {
			server, clock := redistest.Start(t), budgettest.NewClock()
			replicas := []*redis.Ledger{
				ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), clock),
				ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), clock),
			}
			var granted []budget.Decision
			for i := range c.calls {
				granted = append(granted, asks(t, replicas[i%2], fmt.Sprintf("r%d:1", i), 528, limits))
			}
			waiting := asks(t, replicas[0], "waiting:1", 528, limits)
			for i, d := range granted {
				ends(t, replicas[i%2], d, 60)
			}
			if c.asked {
				ends(t, replicas[(c.calls-1)%2], waiting, 60)
			}
			server.Do("FLUSHALL")
			want := int64(60*c.calls + 60)
			for i, l := range replicas {
				if !c.asked {
					ends(t, l, waiting, 60)
					break
				}
				asks(t, l, fmt.Sprintf("after%d:1", i), 0, limits)
			}
			if spent, held := day(t, replicas[1]); spent != want || held != 0 {
				t.Errorf("%d spent and %d held, want %d and none", spent, held, want)
			}
			u, err := replicas[1].Usage(t.Context(), "acme", limits)
			if left := u.Levels[budget.TokensPerMinute].Left; err != nil || c.asked && left != 50_000-want {
				t.Errorf("%d tokens left by the minute, %v, want %d", left, err, 50_000-want)
			}
		})
	}
}

// Row R19: if rollbacks are to be refused, a replica that has seen more grants nothing and changes
// nothing, even with an allowance; a new one accepts the current counts, and all grant again when
// the Redis has its counts back.
func TestOldSnapshotRefusedR19(t *testing.T) {
	server := redistest.Start(t)
	clock := budgettest.NewClock()
	start := func() *redis.Ledger {
		db := open(t, redis.Options{URL: server.URL(), Timeout: patient})
		return workingLedger(t, db.Ledger("budgets", redis.LedgerOptions{Now: clock.Now, RefuseLost: true}))
	}
	first := start()
	asks(t, first, "r1:1", 100, tokensADay)
	settles(t, first, "r1:1", 100, budget.Settled)
	record := "sidenote:budget1:{acme}"
	old := server.Do("HGET", record, "state")
	asks(t, first, "r2:1", 300, tokensADay)
	settles(t, first, "r2:1", 300, budget.Settled)
	late := server.Do("HGET", record, "state")

	server.Do("HSET", record, "state", old)
	allowed := budget.NewFallback(first, budget.NewMemory(clock.Now), func(budget.Settlement) { t.Error("abandoned") })
	for i := range 2 { // a refusal does not change what it remembers
		r := tokensOf("acme", fmt.Sprintf("r3-%d:1", i), 1, tokensADay)
		r.Allowance = tokensADay
		if d, err := allowed.Reserve(t.Context(), r); !errors.Is(err, budget.ErrLost) || d.Granted || !d.RolledBack {
			t.Errorf("the replica that remembers: %+v, %v", d, err)
		}
	}
	if got := server.Do("HGET", record, "state"); got != old {
		t.Errorf("the record is %s, want %s", got, old)
	}
	if d := asks(t, start(), "r4:1", 0, tokensADay); !d.Granted || d.RolledBack {
		t.Errorf("a new replica: %+v", d)
	}
	server.Do("HSET", record, "state", late)
	if d := asks(t, first, "r5:1", 1, tokensADay); !d.Granted || d.RolledBack {
		t.Errorf("with what was lost: %+v", d)
	}
}

// Row R25: while the disk cannot be written, nothing is granted; afterwards everything continues.
func TestMisconfR25(t *testing.T) {
	server := redistest.Start(t, "--enable-protected-configs", "yes")
	dir := t.TempDir()
	l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
	asks(t, l, "r1:1", 100, tokensADay)
	if got := server.Do("CONFIG", "SET", "dir", dir); got != "OK" {
		t.Fatal(got)
	}
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil { // no file can replace it
		t.Fatal(err)
	}
	server.Do("CONFIG", "SET", "save", "3600 1000000")
	server.Do("BGSAVE")
	server.WaitFor("rdb_last_bgsave_status:err", "INFO", "persistence")
	if _, err := l.Reserve(t.Context(), tokensOf("acme", "r2:1", 1, tokensADay)); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("reserve: got %v, want an error", err)
	}
	if _, err := l.Settle(t.Context(), budget.Settlement{Ticket: budget.Ticket{Tenant: "acme", ID: "r1:1"}}); err == nil {
		t.Error("settled on a disk that cannot be written")
	}
	server.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	settles(t, l, "r1:1", 60, budget.Settled)
	if spent, held := day(t, l); spent != 60 || held != 0 {
		t.Errorf("%d spent and %d held, want 60 and none", spent, held)
	}
}

// Row R1: a killed Redis with an append-only file loses nothing that was acknowledged, and nothing
// stays held; also if the end of its file is missing, because it may answer up to two seconds
// before writing while a sync is slow.
func TestKilledRedisR1(t *testing.T) {
	t.Run("as it is", func(t *testing.T) { killsRedis(t, 0) })
	t.Run("without its end", func(t *testing.T) { killsRedis(t, 40_000) })
}

func killsRedis(t *testing.T, missing int64) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
	clock := budgettest.NewClock()
	l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), clock)
	const callers = 8
	var settled, open atomic.Int64 // tokens
	var all sync.WaitGroup
	enough := make(chan struct{})
	for w := range callers {
		all.Go(func() {
			for i := 0; ; i++ {
				d, err := l.Reserve(t.Context(), tokensOf("acme", fmt.Sprintf("w%d-%d:1", w, i), 10, budget.Limits{}))
				if err != nil {
					open.Add(10) // it may be held, and is then charged
					return
				}
				if _, err = l.Settle(t.Context(), budget.Settlement{Ticket: d.Ticket, Actual: budget.Amount{Tokens: 7}}); err != nil {
					open.Add(10)
					return
				}
				if settled.Add(7) == 7*500 {
					close(enough)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-enough:
	case <-ended:
		t.Fatalf("all calls failed after %d tokens", settled.Load())
	}
	dir := strings.Fields(server.Do("CONFIG", "GET", "dir"))
	server.Kill()
	<-ended
	files, err := filepath.Glob(filepath.Join(dir[len(dir)-1], "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatal(dir, files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[0], info.Size()-missing); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	await(t, "Redis", func() bool { return !l.Open() })
	clock.Add(time.Minute)
	// The next reservation restores what is missing; amounts held then count in full.
	if d := asks(t, l, "after:1", 0, budget.Limits{}); missing > 0 && !d.RolledBack {
		t.Error("nothing is missing")
	}
	settles(t, l, "after:1", 0, budget.Settled)
	u, err := l.Usage(t.Context(), "acme", budget.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	most := settled.Load() + open.Load() + callers*(10-7)
	if spent := u.Day.Spent.Tokens; spent < settled.Load() || spent > most || u.Day.Held.Tokens != 0 || u.Parallel != 0 {
		t.Errorf("%+v, %d open; want %d spent, and %d at most", u.Day, u.Parallel, settled.Load(), most)
	}
}

// Days and months are those of Go's calendar for a long time to come.
func TestCalendarP15(t *testing.T) {
	server := redistest.Start(t)
	now := time.Date(2026, 1, 31, 23, 59, 59, 999e6, time.UTC)
	l := open(t, redis.Options{URL: server.URL(), Timeout: patient}).Ledger("budgets", redis.LedgerOptions{Now: func() time.Time { return now }})
	await(t, "the ledger to work", func() bool { return !l.Open() })
	for i := range 500 {
		asks(t, l, fmt.Sprintf("r%d:1", i), 5, budget.Limits{})
		settles(t, l, fmt.Sprintf("r%d:1", i), 5, budget.Settled)
		for _, want := range []int64{5, 0} {
			u, err := l.Usage(t.Context(), "acme", budget.Limits{})
			if err != nil || u.Day.Spent.Tokens != want || u.Month.Spent.Tokens != want {
				t.Fatalf("%v: %+v, %v, want %d spent", now, u, err, want)
			}
			now = now.Add(time.Millisecond)
		}
		now = time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, -1e6, time.UTC)
	}
	n, err := strconv.Atoi(server.Do("HLEN", "sidenote:budget1:{acme}"))
	if err != nil || n > 10 {
		t.Errorf("the record has %d fields after 41 years, %v", n, err)
	}
	if ttl, err := strconv.Atoi(server.Do("TTL", "sidenote:budget1:{acme}")); err != nil || ttl < 60*86400 || ttl > 66*86400 {
		t.Errorf("the record lives for %d s, %v, want two months", ttl, err)
	}
}

// The record of a tenant stays small, and expires completely after its last call.
func TestLedgerKeysStaySmall(t *testing.T) {
	server := redistest.Start(t)
	l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
	asks(t, l, "open:1", 1, budget.Limits{}) // so that keys are never empty
	for i := range 600 {
		asks(t, l, fmt.Sprintf("r%d:1", i), 1, budget.Limits{})
		settles(t, l, fmt.Sprintf("r%d:1", i), 1, budget.Settled)
	}
	record := "sidenote:budget1:{acme}"
	if n, err := strconv.Atoi(server.Do("ZCARD", record+":settled")); err != nil || n < 256 || n > 272 {
		t.Errorf("%d settled IDs are remembered, %v, want 256 and a few", n, err)
	}
	settles(t, l, "r400:1", 1, budget.Repeated)
	if keys := strings.Fields(server.Do("KEYS", record+"*")); len(keys) != 4 {
		t.Errorf("the keys are %q", keys)
	}
	for _, key := range []string{"", ":leases", ":open", ":settled"} {
		if ttl, err := strconv.Atoi(server.Do("TTL", record+key)); err != nil || ttl < 86400 || ttl > 66*86400 {
			t.Errorf("%s lives for %d s, %v", record+key, ttl, err)
		}
	}
}

// Row R27: the keys of a tenant have one hash tag, so a cluster keeps them together.
func TestLedgerInAClusterR27(t *testing.T) {
	nodes := redistest.StartCluster(t, 3)
	l := ledger(t, open(t, redis.Options{URL: nodes[0].URL() + "?cluster=true", Timeout: patient}), nil)
	for i := range 20 {
		tenant := fmt.Sprint("tenant-", i)
		d, err := l.Reserve(t.Context(), tokensOf(tenant, "r1:1", 5, tokensADay))
		if err != nil || !d.Granted {
			t.Fatalf("%s: %+v, %v", tenant, d, err)
		}
	}
	var settlements []budget.Settlement
	for i := range 20 {
		settlements = append(settlements, budget.Settlement{Ticket: budget.Ticket{Tenant: fmt.Sprint("tenant-", i), ID: "r1:1"}})
	}
	got, err := l.Settle(t.Context(), settlements...)
	if err != nil {
		t.Fatal(err)
	}
	for i, outcome := range got {
		if outcome != budget.Settled {
			t.Errorf("tenant %d: %s", i, outcome)
		}
	}
}
