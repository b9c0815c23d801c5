package redis_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/cache/redis"
)

// TestMain waits a little longer than goleak does: after many failed dials the library checks only
// once a second whether its pool was closed.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		limit := time.Now().Add(3 * time.Second)
		err := goleak.Find()
		for err != nil && time.Now().Before(limit) {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// patient is the timeout in tests that are not about timing.
const patient = 5 * time.Second

// open opens a DB that is closed at the end of the test.
func open(t testing.TB, o redis.Options) *redis.DB {
	t.Helper()
	db, err := redis.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// working opens a store and checks that its Redis works.
func working(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	db := open(t, o)
	s := db.Store("test")
	asked(t, s)
	await(t, "the store to work", func() bool { return !s.Open() })
	if trouble := db.Trouble(); trouble != nil {
		t.Fatalf("trouble: %q", trouble)
	}
	return s
}

// calm opens a working store with a long timeout.
func calm(t testing.TB, url string) *redis.Store {
	t.Helper()
	return working(t, redis.Options{URL: url, Timeout: patient})
}

// asked waits until s knows whether its Redis works.
func asked(t testing.TB, s *redis.Store) {
	t.Helper()
	select {
	case <-s.Asked():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody asked")
	}
}

// await calls ok until it returns true.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

// keep writes a value; an error fails the test.
func keep(t testing.TB, s *redis.Store, key, val string) {
	t.Helper()
	if err := s.Set(t.Context(), key, []byte(val), time.Minute); err != nil {
		t.Fatalf("set %.40q: %v", key, err)
	}
}

// holds reads a value and compares it.
func holds(t testing.TB, s *redis.Store, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got) != want || (got == nil) != (want == "") {
		t.Errorf("get %.40q: got %.40q, %v, want %.40q", key, got, err, want)
	}
}

// log records what a DB reports.
type log struct {
	mu     sync.Mutex
	lines  []string // of Changed, with + for the beginning and - for the end
	events []redis.Event
}

func (l *log) changed(line string, bad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sign := "-"
	if bad {
		sign = "+"
	}
	l.lines = append(l.lines, sign+line)
}

func (l *log) observe(e redis.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// kinds returns the kinds of the calls so far and clears them.
func (l *log) kinds() []redis.Kind {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds := []redis.Kind{}
	for _, e := range l.events {
		kinds = append(kinds, e.Kind)
	}
	l.events = nil
	return kinds
}

// attach makes o report to l.
func (l *log) attach(o redis.Options) redis.Options {
	o.Observe, o.Changed = l.observe, l.changed
	return o
}
