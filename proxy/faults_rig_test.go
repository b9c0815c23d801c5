package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/proxy/report"
)

// atBase requires that, when t and its subtests have ended, there are no more goroutines and file
// descriptors than before.
func atBase(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	open := descriptors(t)
	t.Cleanup(func() {
		goleak.VerifyNone(t, append(staying(), before)...)
		for begin := time.Now(); descriptors(t) > open; runtime.Gosched() {
			if time.Since(begin) > patience {
				t.Fatalf("%d descriptors open, before it was %d", descriptors(t), open)
			}
		}
	})
}

// descriptors counts the open file descriptors; 0 on systems where they cannot be counted.
func descriptors(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// gauge returns the value of a gauge without labels.
func gauge(t *testing.T, m *report.Metrics, name string) float64 {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no gauge %s", name)
	return 0
}

// shutdown stops the proxy and waits for its background work.
func shutdown(t *testing.T, g *rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// ask sends a request on c and returns the status of the answer. c stays open.
func (g *rig) ask(t *testing.T, c net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// read fills b from r and returns it as text.
func read(t *testing.T, r io.Reader, b []byte) string {
	t.Helper()
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// quiet returns a log that discards everything.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
