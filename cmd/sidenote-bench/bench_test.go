package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok { // started by a test
			os.Exit(playRole(role, os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

// The whole command in tiny rounds: every case gets its answers, with the sources
// and events that it should have, or the command fails.
func TestWhole(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads the CPU of other processes, which it can on Linux only")
	}
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -tags="+tags)
	program, err := buildSidenote(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"--sidenote", program, "--rounds", "1", "--round", "10ms", "--connections", "2", "--latencies", "20", "--streams", "20",
		"--stress", "--stress-chats", "200", "--growth", "--page", "--json", "--before", program,
	}, &stdout, &stderr)
	if code != exitDone || stderr.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var r results
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.CPU) != len(works()) || len(r.Latency) == 0 || len(r.Growth) != len(growths()) || r.Memory == nil || r.Stress == nil {
		t.Fatalf("something is missing: %s", &stdout)
	}
	for _, c := range r.CPU {
		if c.Relay <= 0 || c.Sidenote <= 0 || c.Low > c.Ratio || c.Ratio > c.High {
			t.Errorf("%+v", c)
		}
		if before := c.Change; !strings.HasPrefix(c.Name, "staged") && (before == nil || before.Before <= 0 || before.Low > before.Ratio || before.Ratio > before.High) {
			t.Errorf("%s, before: %+v", c.Name, before)
		}
	}
	if r.Stress.Chats != 200 || r.Stress.RelayLost+r.Stress.SidenoteLost > 0 {
		t.Errorf("%+v", *r.Stress)
	}
	if p := r.Page; p == nil || p.Without <= 0 || p.With <= 0 || p.Low > p.More || p.More > p.High {
		t.Errorf("page: %+v", p)
	}
	var table bytes.Buffer
	if err := r.write(&table, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names(works()), "before", "Latency", "Memory", "lost", "Growth", "pages open") {
		if !strings.Contains(table.String(), name) {
			t.Errorf("%q is not in the table:\n%s", name, &table)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--help"}, exitDone, "sidenote-bench --growth"},
		{[]string{"--case", "none such"}, exitUsage, "no case begins so"},
		{[]string{"--rounds", "0"}, exitUsage, "above 0"},
		{[]string{"--log", "some"}, exitUsage, "--log"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, &out)
		}
	}
}

// Requests are JSON of about the size that they are named by.
func TestRequests(t *testing.T) {
	for _, size := range []int{1 * kib, 20 * kib, 200 * kib, 1000 * kib} {
		body := chatOf(size, answerBurst)
		if !json.Valid(body) || len(body) < size*9/10 || len(body) > size*11/10 {
			t.Errorf("%d bytes of %d, valid %t", len(body), size, json.Valid(body))
		}
	}
	for _, n := range []int{3, 10, 1000} {
		var chat struct{ Messages []any }
		if err := json.Unmarshal(chatOfMessages(n, 50*kib), &chat); err != nil || len(chat.Messages) != n {
			t.Errorf("%d messages of %d, %v", len(chat.Messages), n, err)
		}
	}
	seen := map[string]bool{}
	for i := range 24 {
		text := string(document(i))
		if seen[text] || len(text) < 900 || len(text) > 1200 {
			t.Errorf("document %d: %d bytes, seen %t", i, len(text), seen[text])
		}
		seen[text] = true
	}
}

// However an answer's bytes are cut, its events are counted.
func TestCountEvents(t *testing.T) {
	const body = "data: 1\n\ndata: 2\n\n"
	for cut := range len(body) {
		var c client
		c.take([]byte(body[:cut]))
		c.take([]byte(body[cut:]))
		if c.events != 2 {
			t.Errorf("cut at %d: %d events", cut, c.events)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 0.25: 1.75, 1: 4} {
		if got := quantile(values, q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if !slices.Equal(values, []float64{4, 1, 3, 2}) {
		t.Error("the values were moved")
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("of nothing")
	}
}

// A program that is no Sidenote is an error that says what it said.
func TestNoSidenote(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	program := filepath.Join(t.TempDir(), "sidenote")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho not today >&2\nexit 1\n"), 0o700); err != nil { //nolint:gosec // to be run
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--sidenote", program}, &out, &out); code != exitFailed || !strings.Contains(out.String(), "not today") {
		t.Errorf("exit code %d: %s", code, &out)
	}
}
