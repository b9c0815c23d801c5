package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A vector store that fails is skipped after five searches, which metrics and status show; requests
// continue without it, and it is used again when it is back.
func TestStoreThatFails(t *testing.T) {
	up, a := newRecorder(t), newArchive(t, false)
	var down atomic.Bool
	var searches atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			searches.Add(1)
		}
		if down.Load() {
			http.Error(w, `{}`, http.StatusBadGateway)
			return
		}
		a.answer(w, r)
	}))
	t.Cleanup(front.Close)
	p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(`
upstreams: {model: %s/v1, archive: %s}
knowledge: {legal: {engine: vector_store, upstream: archive, id: vs_1}}
policies: {default: {upstream: model, retrieval: {deadline: 10s}}}
`, up.URL, front.URL)))
	n := 0
	ask := func() (injected bool) {
		t.Helper()
		n++ // nobody asks the same
		if status, answer := posted(t, p.data+"/v1/chat/completions", "", strings.Replace(bonusQuestion, "bonus", fmt.Sprintf("bonus of year %d", n), 1)); status != 200 {
			t.Fatalf("%d, %s", status, answer)
		}
		return bytes.Contains(up.last(t).body, []byte("The bonus for"))
	}
	sees := func(open int, ready string) {
		t.Helper()
		if _, metrics := get(t, p.admin+"/metrics"); !strings.Contains(metrics, fmt.Sprintf("sidenote_breaker_open{name=\"vector_store/legal\"} %d\n", open)) {
			t.Errorf("the breaker is not shown as %d", open)
		}
		if code, body := get(t, p.admin+"/readyz"); code != 200 || !strings.Contains(body, ready) {
			t.Errorf("readyz: %d, %s; want %s", code, body, ready)
		}
	}
	if !ask() {
		t.Fatal("nothing was found")
	}
	sees(0, `"status":"ready"`)
	down.Store(true)
	before := searches.Load()
	for range 50 {
		if ask() {
			t.Error("found in a store that is down")
		}
	}
	if got := searches.Load() - before; got != 5 {
		t.Errorf("%d searches of a store that fails, want 5", got)
	}
	sees(1, `"status":"degraded"`)
	sees(1, `"reasons":["knowledge legal: vector store vs_1 at `)
	down.Store(false)
	back := time.Now()
	for !ask() && time.Since(back) < time.Minute {
	}
	if took := time.Since(back); took > 40*time.Second { // of 2 s; a breaker of a minute would show
		t.Errorf("used again after %v", took)
	}
	sees(0, `"status":"ready"`)
}
