package server

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cache"
	"sidenote/cache/redis/redistest"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/rewrite/model"
)

// replica returns an engine that uses the Redis at url, and waits for it; more is added to the
// redis section of its configuration.
func replica(t *testing.T, url, more string) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidenote.yaml")
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {docs: %q}\nredis: {url: %q, timeout: 5s%s}\n", t.TempDir(), url, more)
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.DescribeSharing(t.Context())
	return s
}

var calibrated = model.CalibrationKey{Upstream: "secret-upstream", Row: "gpt-5*", Name: "gpt-5-secret"}

func (e *Engine) billed(n, billed int) {
	for range n {
		e.exchange.Tracker.Observe(calibrated, 1000, billed)
	}
}

// known returns what a replica has learned about the model.
func (e *Engine) known(t *testing.T) model.CalibrationEntry {
	t.Helper()
	all := e.exchange.Tracker.All()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	return all[0]
}

// What one replica observed, the other knows after its next exchange. The last exchange is at
// shutdown.
func TestCalibrationIsShared(t *testing.T) {
	server := redistest.Start(t)
	one, two := replica(t, server.URL(), ""), replica(t, server.URL(), "")
	one.billed(20, 1100)
	two.billed(1, 1101)
	if v := two.known(t).Value; v != (model.CalibrationValue{}) {
		t.Fatalf("after one answer: %+v", v)
	}
	one.exchange.Once(t.Context())
	two.exchange.Once(t.Context())
	if e := two.known(t); e.Samples != 21 || e.Value.Offset != 100 {
		t.Errorf("%+v", e)
	}
	one.exchange.Once(t.Context())
	if one.known(t) != two.known(t) {
		t.Errorf("%+v and %+v", one.known(t), two.known(t))
	}
	key := server.Do("KEYS", "*calibration:*")
	if !strings.HasPrefix(key, "sidenote:v") || strings.Contains(key, "secret") || strings.Contains(key, "\n") {
		t.Errorf("keys %q", key)
	}
	ttl := server.Do("TTL", key)
	var seconds int
	if _, err := fmt.Sscan(ttl, &seconds); err != nil || seconds < 7*24*3600-600 || seconds > 7*24*3600 {
		t.Errorf("TTL %q", ttl)
	}
	one.billed(30, 1200)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two.exchange.Once(t.Context())
	if e := two.known(t); e.Samples != 51 || e.Value.Offset != 200 {
		t.Errorf("after the other's end: %+v", e)
	}
}

// With encryption keys the values in Redis are unreadable. A value of another key or another
// encryption key, or a damaged one, is a miss.
func TestCalibrationForeignValues(t *testing.T) {
	server := redistest.Start(t)
	keys := func(letter string) string {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, fmt.Appendf(nil, "key-%s %s\n", letter, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(letter), 32))), 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(", encryption_keys: {file: %q}", file)
	}
	one := replica(t, server.URL(), keys("a"))
	one.billed(20, 1100)
	one.exchange.Once(t.Context())
	name := "sidenote:" + cache.NamedKey(cache.Calibration, calibrated.Upstream, calibrated.Row, calibrated.Name, "").String()
	other := "sidenote:" + cache.NamedKey(cache.Calibration, calibrated.Upstream, calibrated.Row, "gpt-4o", "").String()
	// knows returns the samples of a replica after its next exchange, including two of its own.
	knows := func(more string) int {
		s := replica(t, server.URL(), more)
		s.billed(2, 1100)
		s.exchange.Once(t.Context())
		return s.known(t).Samples
	}
	copied := func() { server.Do("COPY", name, other, "REPLACE") }
	copied()
	if n := knows(keys("a")); n != 22 {
		t.Fatalf("%d samples with the key", n)
	}
	if n := knows(keys("b")); n != 2 {
		t.Errorf("%d samples with another key", n)
	}
	server.Do("SET", name, "garbage")
	if n := knows(keys("a")); n != 2 {
		t.Errorf("%d samples of garbage", n)
	}
	server.Do("COPY", other, name, "REPLACE")
	if n := knows(keys("a")); n != 22 {
		t.Errorf("%d samples of what was copied back", n)
	}
	s := replica(t, server.URL(), keys("a"))
	s.exchange.Tracker.Observe(model.CalibrationKey{Upstream: calibrated.Upstream, Row: calibrated.Row, Name: "gpt-4o"}, 1000, 1100)
	s.exchange.Once(t.Context())
	if e := s.exchange.Tracker.All()[0]; e.Samples != 1 {
		t.Errorf("%d samples of another model", e.Samples)
	}
	// A value of another Redis type belongs to another program and stays.
	server.Do("DEL", name)
	server.Do("RPUSH", name, "theirs")
	if n := knows(keys("a")); n != 2 || server.Do("TYPE", name) != "list" {
		t.Errorf("%d samples of a list, which is now a %s", n, server.Do("TYPE", name))
	}
}

// Without Redis, learned values stay local; they are shared when Redis is back.
func TestCalibrationWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	one, two := replica(t, server.URL(), ""), replica(t, server.URL(), "")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "1") // reads work, writes fail
	one.billed(20, 1100)
	one.exchange.Once(t.Context())
	if e := one.known(t); e.Samples != 20 || server.Do("KEYS", "*:calibration:*") != "" {
		t.Fatalf("%+v", e)
	}
	server.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	one.exchange.Once(t.Context())
	two.billed(1, 1100)
	two.exchange.Once(t.Context())
	if e := two.known(t); e.Samples != 21 {
		t.Errorf("%+v", e)
	}
	server.Kill()
	two.billed(1, 1100)
	two.exchange.Once(t.Context())
	if e := two.known(t); e.Samples != 22 {
		t.Errorf("%+v", e)
	}
}
