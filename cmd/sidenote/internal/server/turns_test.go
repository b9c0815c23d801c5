package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis/redistest"
	"sidenote/proxy/report/reporttest"
	"sidenote/rewrite/toolcalls"
)

var (
	owner = toolcalls.TurnOwner{Tenant: "acme", Access: "all"}
	keyed = []toolcalls.TurnKey{{1}, {2}}
)

// keepTurn stores a turn under the first key.
func keepTurn(t *testing.T, e *Engine, text string) {
	t.Helper()
	err := e.Turns().Keep(t.Context(), owner, keyed[0], &toolcalls.Turn{
		Calls:   []toolcalls.HistoryCall{{JSON: json.RawMessage(`{"id":"c","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}`)}},
		Results: []json.RawMessage{json.RawMessage(`{"role":"tool","tool_call_id":"c","content":"` + text + `"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// findTurn returns the result stored under the first key, or "".
func findTurn(t *testing.T, e *Engine) string {
	t.Helper()
	found := e.Turns().Find(t.Context(), owner, keyed)
	if len(found) != 2 || found[1] != nil {
		t.Fatalf("found %v", found)
	}
	if found[0] == nil {
		return ""
	}
	return string(found[0].Results[0])
}

// turnsOn returns an engine with a turn store on a Redis that has answered.
func turnsOn(t *testing.T, url, more string) *Engine {
	t.Helper()
	e := replica(t, url, more)
	awaitTurns(t, e)
	return e
}

// awaitTurns creates the turn store and waits until Redis has answered.
func awaitTurns(t *testing.T, e *Engine) {
	t.Helper()
	e.Turns()
	awaitRedis(t, e, cache.Turns)
}

// awaitRedis waits until lookups of a kind use Redis.
func awaitRedis(t *testing.T, e *Engine, kind cache.Kind) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); skipsRedis(t, e, kind); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("Redis is never asked")
		}
	}
}

// skipsRedis reports whether lookups of a kind bypass Redis; also true if there is no such metric.
func skipsRedis(t *testing.T, e *Engine, kind cache.Kind) bool {
	t.Helper()
	families, err := e.Metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "sidenote_breaker_open" && m.GetLabel()[0].GetValue() == "redis/"+string(kind) {
				return m.GetGauge().GetValue() != 0
			}
		}
	}
	return true
}

// What one replica stores the other finds at once, for ten minutes, under a key that reveals only
// the tenant. Lookups are counted.
func TestTurnsAreShared(t *testing.T) {
	server := redistest.Start(t)
	one, two := turnsOn(t, server.URL(), ""), turnsOn(t, server.URL(), "")
	keepTurn(t, one, "secret")
	if got := findTurn(t, two); !strings.Contains(got, "secret") {
		t.Fatalf("the other replica finds %q", got)
	}
	key := server.Do("KEYS", "*:turns:*")
	if !strings.HasPrefix(key, "sidenote:v") || !strings.Contains(key, ":turns:{acme}:") || strings.Contains(key, "\n") {
		t.Errorf("keys %q", key)
	}
	var seconds int
	if _, err := fmt.Sscan(server.Do("TTL", key), &seconds); err != nil || seconds < 530 || seconds > 660 {
		t.Errorf("%d seconds, %v", seconds, err)
	}
	for e, want := range map[*Engine]float64{one: 0, two: 4} { // two keys, in memory and in Redis
		if got := reporttest.Count(t, e.Metrics, "sidenote_cache_requests_total", string(cache.Turns)); got != want {
			t.Errorf("%v look-ups are counted, want %v", got, want)
		}
	}
	server.Do("DEL", key)
	if findTurn(t, two) == "" {
		t.Error("what was found once is not kept in memory")
	}
}

// If Redis is killed in between, the replica that stored a turn finds it, the other does not, and
// there is no other effect.
func TestTurnsWithoutRedisBetween(t *testing.T) {
	server := redistest.Start(t)
	one, two := turnsOn(t, server.URL(), ""), turnsOn(t, server.URL(), "")
	keepTurn(t, one, "text")
	server.Kill()
	if findTurn(t, one) == "" {
		t.Error("the replica that kept it lost it")
	}
	if got := findTurn(t, two); got != "" {
		t.Errorf("the other finds %q", got)
	}
	keepTurn(t, two, "later")
	if findTurn(t, two) == "" {
		t.Error("nothing is kept without Redis")
	}
}

// A Redis that hangs costs its timeout once, not for each turn.
func TestTurnsOnARedisThatHangs(t *testing.T) {
	server := redistest.Start(t)
	e, _ := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {docs: %q}\nredis: {url: %q, timeout: 300ms}\nstate: {path: %q}\n", t.TempDir(), server.URL(), t.TempDir()))
	awaitTurns(t, e)
	server.Stop()
	defer server.Continue()
	start := time.Now()
	keepTurn(t, e, "text")
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("to keep a turn takes %v", took)
	}
	start = time.Now()
	many := make([]toolcalls.TurnKey, 100)
	for i := range many {
		many[i] = toolcalls.TurnKey{byte(i + 1)}
	}
	found := e.Turns().Find(t.Context(), owner, many)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("to seek 100 turns takes %v", took)
	}
	if found[0] == nil {
		t.Error("what is kept in memory is not found")
	}
}

// Without Redis, turns are kept in memory. A process that does not use turns has no store.
func TestTurnsInMemory(t *testing.T) {
	e, _ := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {docs: %q}\nstate: {path: %q}\n", t.TempDir(), t.TempDir()))
	held := func() (bytes float64, there bool) {
		families, err := e.Metrics.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "sidenote_cache_bytes" && m.GetLabel()[0].GetValue() == string(cache.Turns) {
					return m.GetGauge().GetValue(), true
				}
			}
		}
		return 0, false
	}
	if _, there := held(); there {
		t.Error("the store is there before anybody asked for it")
	}
	keepTurn(t, e, "text")
	if findTurn(t, e) == "" {
		t.Error("not found")
	}
	if n, _ := held(); n <= 0 {
		t.Errorf("%v bytes are held", n)
	}
}

// With encryption keys, readers of Redis cannot see turns.
func TestTurnsAreEncrypted(t *testing.T) {
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, fmt.Appendf(nil, "one %s\n", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := turnsOn(t, server.URL(), "")
	keepTurn(t, plain, "a secret")
	if value := server.Do("GET", server.Do("KEYS", "*:turns:*")); !strings.Contains(value, "a secret") {
		t.Fatalf("without keys Redis has %q", value)
	}
	e := turnsOn(t, server.URL(), fmt.Sprintf(", encryption_keys: {file: %q}", file))
	keepTurn(t, e, "a secret")
	if value := server.Do("GET", server.Do("KEYS", "*:turns:*")); len(value) < 50 || strings.Contains(value, "secret") || strings.Contains(value, "search") {
		t.Errorf("Redis has %q", value)
	}
	if got := findTurn(t, turnsOn(t, server.URL(), fmt.Sprintf(", encryption_keys: {file: %q}", file))); !strings.Contains(got, "a secret") {
		t.Errorf("with the keys another finds %q", got)
	}
}
