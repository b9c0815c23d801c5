package redis_test

import (
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sidenote/cache/budget"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// Row R25: if the disk has no room for the append-only file (simulated by a limit on the size of
// the server's files), nothing is granted or settled; when there is room again everything
// continues, and what was acknowledged is there after a crash.
func TestFullDiskR25(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ) // inherited by the server, which then gets an error instead of the signal
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
	found := regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(server.Do("INFO", "server"))
	if found == nil {
		t.Fatal("the server does not tell its process")
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	var roomy unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &roomy); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: roomy.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
	asks(t, l, "r1:1", 50, tokensADay)
	settles(t, l, "r1:1", 50, budget.Settled)
	asks(t, l, "r2:1", 100, tokensADay)
	limit(1)
	asks(t, l, "r3:1", 10, tokensADay) // it is written after that
	server.WaitFor("aof_last_write_status:err", "INFO", "persistence")
	for range 3 {
		if _, err := l.Reserve(t.Context(), tokensOf("acme", "r4:1", 7, tokensADay)); err == nil || !strings.Contains(err.Error(), "readonly") {
			t.Errorf("reserve: got %v, want an error", err)
		}
	}
	if _, err := l.Settle(t.Context(), budget.Settlement{Ticket: budget.Ticket{Tenant: "acme", ID: "r2:1"}}); err == nil {
		t.Error("settled on a disk that cannot be written")
	}
	limit(roomy.Cur)
	server.WaitFor("aof_last_write_status:ok", "INFO", "persistence")
	server.Do("CONFIG", "SET", "appendfsync", "always") // with everysec a write may be delayed by 2 s
	settles(t, l, "r2:1", 60, budget.Settled)
	settles(t, l, "r3:1", 7, budget.Settled)
	if spent, held := day(t, l); spent != 117 || held != 0 {
		t.Errorf("%d spent and %d held, want 117 and none", spent, held)
	}
	server.Kill()
	server.Restart()
	again := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
	if spent, held := day(t, again); spent != 117 || held != 0 {
		t.Errorf("after a crash %d spent and %d held, want 117 and none", spent, held)
	}
}
