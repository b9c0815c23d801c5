package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/rewrite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func degraded() *report.Report {
	r := reporttest.Injected()
	r.Reason, r.Rewrite.Reason = rewrite.ReasonTimeout, rewrite.ReasonTimeout
	return r
}

// A lockedBuffer is a log that can be written to by timers.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns what was written since the last call.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

// A degradation is logged once, then counted each minute while it lasts; after a minute without
// one it is logged as new.
func TestDegradationsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		l := &report.Log{Logger: slog.New(slog.NewTextHandler(&out, nil)), Requests: report.LogNone}
		said := func(want ...string) {
			t.Helper()
			synctest.Wait()
			lines := strings.Split(strings.TrimSuffix(out.take(), "\n"), "\n")
			if len(want) == 0 && lines[0] == "" {
				return
			}
			if len(lines) != len(want) {
				t.Fatalf("got %q, want %q", lines, want)
			}
			for i, w := range want {
				if !strings.Contains(lines[i], w) {
					t.Errorf("got %s, want %s", lines[i], w)
				}
			}
		}
		for range 4 {
			l.Record(degraded())
		}
		said(`level=WARN msg="degraded: requests go on without it" stage=retrieval reason=retrieval-timeout`)
		time.Sleep(time.Minute)
		said(`msg="still degraded" stage=retrieval reason=retrieval-timeout requests=3`)
		time.Sleep(time.Minute)
		said()
		l.Record(degraded())
		l.Record(degraded())
		said("requests go on without it")
		l.Close()
		said("requests=1")
		without := reporttest.Injected()
		without.Stages = &report.Stages{Called: []report.Stage{{Name: "critic", Outcome: report.StageTimeout}}}
		l.Record(without)
		said("requests go on without it\" stage=stages reason=timeout")
		l.Close()
	})
}

func TestLogLine(t *testing.T) {
	var out bytes.Buffer
	l := &report.Log{Lines: &out}
	r := reporttest.Injected()
	r.ID, r.Tenant, r.Policy, r.PolicyHash, r.Upstream = "01JD3", "acme", "base", "9f2c0000", "openai"
	r.Route, r.Status, r.Client = route.Chat, 200, report.ClientCompleted
	r.Rewrite.Model.Row = "gpt-5*"
	r.Rewrite.Ledger.Model = "evil\nmodel"
	r.Overhead, r.TTFB, r.Total = 1500*time.Microsecond, time.Second, 2*time.Second
	l.Record(r)
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for key, want := range map[string]any{
		"id": "01JD3", "tenant": "acme", "policy": "base", "policy_hash": "9f2c0000", "upstream": "openai", "model": "gpt-5*",
		"stream": false, "status": 200.0, "outcome": "injected", "reason": "", "sources": 4.0, "context_tokens": 1187.0,
		"context_budget": 2000.0, "exact": "exact", "cache": "hit", "planner": "off", "overhead_ms": 1.5, "retrieval_ms": 3.9,
		"ttfb_ms": 1000.0, "duration_ms": 2000.0, "client": "completed",
	} {
		if got[key] != want {
			t.Errorf("%s: got %v, want %v", key, got[key], want)
		}
	}
	if strings.Contains(out.String(), "evil") || strings.Contains(out.String(), "Leave") {
		t.Errorf("a request's text stands in the log: %s", out.String())
	}
}

func TestLogSaysRoutesOnce(t *testing.T) {
	var out bytes.Buffer
	l := &report.Log{Logger: slog.New(slog.NewTextHandler(&out, nil)), Requests: report.LogErrors}
	for range 3 {
		for _, of := range []route.Kind{route.Assistants, route.Stored} {
			l.Record(&report.Report{Route: of, Outcome: rewrite.Untouched, Reason: rewrite.ReasonRoute, Status: 200, Client: report.ClientCompleted})
		}
	}
	if n := strings.Count(out.String(), "route=assistants"); n != 1 {
		t.Errorf("said %d times: %s", n, out.String())
	}
	if strings.Contains(out.String(), "stored_responses") { // no model answers there
		t.Errorf("reading a stored response is noted: %s", out.String())
	}
}

// Lines arrive complete and in order, however many are combined into one write.
func TestAsyncWriterKeepsOrder(t *testing.T) {
	var out, want bytes.Buffer
	a := report.NewAsyncWriter(&out)
	for i := range 1000 {
		line := fmt.Appendf(nil, "line %d\n", i)
		want.Write(line)
		if _, err := a.Write(line); err != nil {
			t.Fatal(err)
		}
		copy(line, "taken") // after Write the buffer belongs to the caller again
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() || a.Dropped() != 0 {
		t.Errorf("%d of %d bytes arrived, or in another order; %d dropped", out.Len(), want.Len(), a.Dropped())
	}
}

// Many lines are written at once, before the buffer is full; a few wait for others.
func TestAsyncWriterGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := report.NewAsyncWriter(&out)
		for _, step := range []struct{ lines, written int }{{1, 0}, {4095, 4096}, {4095, 4096}, {1, 8192}, {1, 8192}} {
			for range step.lines {
				_, _ = a.Write([]byte("."))
			}
			synctest.Wait()
			if out.Len() != step.written {
				t.Errorf("after %d more lines %d are written, want %d", step.lines, out.Len(), step.written)
			}
		}
		if err := a.Close(t.Context()); err != nil || a.Dropped() != 0 {
			t.Errorf("%v, %d dropped", err, a.Dropped())
		}
	})
}

// P11: if nobody reads the log, lines are dropped and counted, and nothing blocks.
func TestBlockedLogBlocksNobody(t *testing.T) {
	r, w := io.Pipe()
	a := report.NewAsyncWriter(w)
	const lines = 20_000
	for range lines {
		if n, err := a.Write([]byte("line\n")); n != 5 || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if a.Dropped() == 0 {
		t.Fatal("20,000 lines found room before a reader that never came")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Close(ctx); err == nil {
		t.Error("closed while a line was stuck")
	}
	read := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, r)
		read <- n
	}()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if n := <-read; n != 5*(lines-a.Dropped()) {
		t.Errorf("%d bytes arrived of %d lines, %d dropped", n, lines, a.Dropped())
	}
	before := a.Dropped()
	if _, err := a.Write([]byte("late")); err != nil || a.Dropped() != before+1 {
		t.Error("a write after Close is neither dropped nor counted")
	}
}
