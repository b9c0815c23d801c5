package server

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis/redistest"
	"sidenote/proxy/report/reporttest"
)

// asked is the request of a stage in these tests.
var asked = []byte(`{"model":"m","messages":[{"role":"user","content":"how long?"}]}`)

// outputsOn makes a memory of outputs on a Redis, and waits until that has answered.
func outputsOn(t *testing.T, url, more string) *Engine {
	t.Helper()
	e := replica(t, url, more)
	e.Outputs()
	awaitRedis(t, e, cache.Outputs)
	return e
}

// putOutput stores an output for a tenant.
func putOutput(t *testing.T, e *Engine, tenant, text string, ttl time.Duration) {
	t.Helper()
	e.Outputs().Put(t.Context(), cache.StageOutputKey(tenant, "api", asked), []byte(text), ttl)
}

// getOutput returns the stored output of a tenant, or "".
func getOutput(t *testing.T, e *Engine, tenant string) string {
	t.Helper()
	text, ok := e.Outputs().Get(t.Context(), cache.StageOutputKey(tenant, "api", asked))
	if ok != (len(text) > 0) {
		t.Fatalf("found %q, %t", text, ok)
	}
	return string(text)
}

// What one replica stores the other finds, for the same tenant only and until it expires, under a
// key that reveals only the tenant. Lookups are counted.
func TestOutputsAreShared(t *testing.T) {
	server := redistest.Start(t)
	one, two := outputsOn(t, server.URL(), ""), outputsOn(t, server.URL(), "")
	putOutput(t, one, "acme", "a draft", 10*time.Minute)
	if got := getOutput(t, two, "umbrella"); got != "" {
		t.Errorf("another tenant finds %q", got)
	}
	if got := getOutput(t, two, "acme"); got != "a draft" {
		t.Fatalf("the other replica finds %q", got)
	}
	for e, want := range map[*Engine]float64{one: 0, two: 4} { // two keys, in memory and in Redis
		if got := reporttest.Count(t, e.Metrics, "sidenote_cache_requests_total", string(cache.Outputs)); got != want {
			t.Errorf("%v look-ups are counted, want %v", got, want)
		}
	}
	key := server.Do("KEYS", "*:outputs:*")
	if !strings.HasPrefix(key, "sidenote:v") || !strings.Contains(key, ":outputs:{acme}:") || strings.Contains(key, "\n") {
		t.Errorf("keys %q", key)
	}
	var seconds int
	if _, err := fmt.Sscan(server.Do("TTL", key), &seconds); err != nil || seconds < 570 || seconds > 600 {
		t.Errorf("%d seconds, %v", seconds, err)
	}
	putOutput(t, two, "umbrella", "theirs", 10*time.Minute)
	if a, b := getOutput(t, one, "acme"), getOutput(t, one, "umbrella"); a != "a draft" || b != "theirs" {
		t.Errorf("found %q and %q", a, b)
	}
	server.Do("DEL", key)
	if getOutput(t, two, "acme") == "" {
		t.Error("what was found once is not kept in memory")
	}
}

// An output in Redis that is damaged, or another tenant's, is a miss, and is replaced by a new
// one.
func TestOutputsThatRedisGarbles(t *testing.T) {
	server := redistest.Start(t)
	one := outputsOn(t, server.URL(), "")
	putOutput(t, one, "acme", "a draft", time.Hour)
	key := server.Do("KEYS", "*:outputs:*")
	putOutput(t, one, "umbrella", "theirs", time.Hour)
	for kind, garble := range map[cache.Mismatch]func(){
		cache.MismatchVersion:  func() { server.Do("SET", key, "nonsense") },
		cache.MismatchChecksum: func() { server.Do("SETRANGE", key, "60", "xxxxxxxx") },
		cache.MismatchTenant:   func() { server.Do("COPY", keyOf(t, server, "umbrella"), key, "REPLACE") },
		cache.MismatchType:     func() { server.Do("DEL", key); server.Do("RPUSH", key, "x") },
	} {
		two := outputsOn(t, server.URL(), "")
		garble()
		if got := getOutput(t, two, "acme"); got != "" {
			t.Errorf("%s: found %q", kind, got)
		}
		if got := reporttest.Count(t, two.Metrics, "sidenote_integrity_mismatch_total", string(kind)); got != 1 {
			t.Errorf("%s: %v mismatches are counted", kind, got)
		}
		putOutput(t, two, "acme", "again", time.Hour)
		if got := getOutput(t, outputsOn(t, server.URL(), ""), "acme"); got != "again" {
			t.Errorf("%s: then found %q", kind, got)
		}
	}
}

// keyOf returns the key of a tenant's only output.
func keyOf(t *testing.T, server *redistest.Server, tenant string) string {
	t.Helper()
	key := server.Do("KEYS", "*:outputs:{"+tenant+"}:*")
	if key == "" || strings.Contains(key, "\n") {
		t.Fatalf("keys %q", key)
	}
	return key
}

// If Redis is killed in between, the replica that stored an output finds it, the other does not,
// and there is no other effect.
func TestOutputsWithoutRedisBetween(t *testing.T) {
	server := redistest.Start(t)
	one, two := outputsOn(t, server.URL(), ""), outputsOn(t, server.URL(), "")
	putOutput(t, one, "acme", "a draft", time.Hour)
	server.Kill()
	if getOutput(t, one, "acme") == "" {
		t.Error("the replica that kept it lost it")
	}
	if got := getOutput(t, two, "acme"); got != "" {
		t.Errorf("the other finds %q", got)
	}
	putOutput(t, two, "acme", "later", time.Hour)
	if getOutput(t, two, "acme") != "later" {
		t.Error("nothing is kept without Redis")
	}
}

// A Redis that hangs costs a few timeouts until it is bypassed.
func TestOutputsOnARedisThatHangs(t *testing.T) {
	server := redistest.Start(t)
	e, _ := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {docs: %q}\nredis: {url: %q, timeout: 100ms}\nstate: {path: %q}\n", t.TempDir(), server.URL(), t.TempDir()))
	e.Outputs()
	awaitRedis(t, e, cache.Outputs)
	server.Stop()
	defer server.Continue()
	start := time.Now()
	for n := range 200 {
		tenant := fmt.Sprint("tenant-", n)
		if got := getOutput(t, e, tenant); got != "" {
			t.Fatalf("found %q", got)
		}
		putOutput(t, e, tenant, "a draft", time.Hour)
		if getOutput(t, e, tenant) == "" {
			t.Fatal("what is kept in memory is not found")
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("400 calls take %v", took)
	}
}

// Without Redis, outputs are kept in memory, in at most an eighth of the cache memory. A process
// that does not use them has no such cache.
func TestOutputsInMemory(t *testing.T) {
	e, _ := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\ncache: {memory: 8MiB}\nknowledge: {docs: %q}\nstate: {path: %q}\n", t.TempDir(), t.TempDir()))
	held := func() (bytes float64, there bool) {
		families, err := e.Metrics.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "sidenote_cache_bytes" && m.GetLabel()[0].GetValue() == string(cache.Outputs) {
					return m.GetGauge().GetValue(), true
				}
			}
		}
		return 0, false
	}
	if _, there := held(); there {
		t.Error("the memory is there before anybody asked for it")
	}
	for n := range 10 {
		tenant := fmt.Sprint("tenant-", n)
		putOutput(t, e, tenant, string(make([]byte, cache.MaxStageOutput)), time.Hour)
		if getOutput(t, e, tenant) == "" {
			t.Error("not found")
		}
	}
	if n, _ := held(); n <= cache.MaxStageOutput || n > 1<<20 {
		t.Errorf("%v bytes are held", n)
	}
}

// With encryption keys, readers of Redis cannot see stage outputs.
func TestOutputsAreEncrypted(t *testing.T) {
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, fmt.Appendf(nil, "one %s\n", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := outputsOn(t, server.URL(), "")
	putOutput(t, plain, "acme", "a secret", time.Hour)
	if value := server.Do("GET", keyOf(t, server, "acme")); !strings.Contains(value, "a secret") {
		t.Fatalf("without keys Redis has %q", value)
	}
	encryption := fmt.Sprintf(", encryption_keys: {file: %q}", file)
	putOutput(t, outputsOn(t, server.URL(), encryption), "acme", "a secret", time.Hour)
	if value := server.Do("GET", keyOf(t, server, "acme")); len(value) < 50 || strings.Contains(value, "secret") {
		t.Errorf("Redis has %q", value)
	}
	if got := getOutput(t, outputsOn(t, server.URL(), encryption), "acme"); got != "a secret" {
		t.Errorf("with the keys another finds %q", got)
	}
}
