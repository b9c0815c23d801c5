package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

// A soak is the length of TestSoak, and its limits.
type soak struct {
	questions int           // at least
	lasts     time.Duration // at least
	cycles    time.Duration // Redis comes and goes, and the folder changes, once in that time
	resident  float64       // most bytes of the process; 0: not demanded, as the test binary is larger
}

// A million different questions, while a folder changes and Redis goes down and comes back: every
// one is answered, and memory, descriptors and goroutines return to their level. The short form has
// a hundred and fifty questions.
func TestSoak(t *testing.T) {
	s, binary := soak{questions: 150, cycles: 200 * time.Millisecond}, "sidenote"
	if os.Getenv("SIDENOTE_LONG") != "" {
		s = soak{questions: 1_000_000, lasts: 10 * time.Minute, cycles: 20 * time.Second, resident: 200e6}
		binary = released(t)
	}
	docs := filepath.Join(t.TempDir(), "library")
	for i := range 80 {
		writeFile(t, filepath.Join(docs, fmt.Sprintf("part-%d/page-%02d.md", i%7, i)), soakPage(i, 0))
	}
	server := redistest.Start(t)
	fault := redistest.NewFault(t, server.Addr())
	p := soaked(t, binary, docs, "redis://"+fault.Addr())

	p.ask(t, 50, func() bool { return true }) // everything has happened once
	p.trouble(t, fault, docs, 1)
	base := p.settled(t, nil)

	stop, ended := make(chan struct{}), make(chan struct{})
	var most, cycles atomic.Int64
	go func() {
		defer close(ended)
		every := time.NewTicker(s.cycles)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				p.trouble(t, fault, docs, int(cycles.Load())+2)
				most.Store(max(most.Load(), int64(p.usage(t).resident)))
				cycles.Add(1)
			case <-stop:
				return
			}
		}
	}()
	begin := time.Now()
	asked := p.ask(t, s.questions, func() bool { return time.Since(begin) >= s.lasts && cycles.Load() >= 2 })
	close(stop)
	<-ended
	last := p.settled(t, &base)
	t.Logf("%d questions in %v, %d times without Redis and with a changed folder: %v → %v, at most %d MB", asked, time.Since(begin).Round(time.Second), cycles.Load(), base, last, most.Load()/1e6)
	if s.resident > 0 && max(float64(most.Load()), last.resident) > s.resident {
		t.Errorf("the process took %d MB", most.Load()/1e6)
	}
}

// soakPage returns a document; edition changes it.
func soakPage(i, edition int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Part %d\n\nEdition %d.\n\n", i, edition)
	for n := range 12 {
		fmt.Fprintf(&b, "Rule %d of part %d says what is to be done in office %d on a day like %d. ", n, i, i*n%97, i*i%89)
	}
	return b.String()
}

// A soakedProcess is a real process under TestSoak.
type soakedProcess struct {
	data, admin string
	client      *http.Client
	next        atomic.Int64 // question
}

// soaked starts Sidenote.
func soaked(t *testing.T, binary, docs, redis string) *soakedProcess {
	t.Helper()
	data, admin, out := free(t), free(t), &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	config := written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {library: %q}\nstate: {path: %q}\nredis: {url: %q}\n"+
		"telemetry: {log: {requests: none}}\npolicies: {default: {retrieval: {deadline: 10s, score_threshold: 0.0001}}}\n", echo(t), docs, t.TempDir(), redis))
	cmd := exec.Command(binary, "serve", "--config", config, "--listen", data, "--admin", admin)
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		close(out.ended)
	})
	out.until(t, "shared on redis")
	transport := &http.Transport{MaxIdleConnsPerHost: soakWorkers}
	t.Cleanup(transport.CloseIdleConnections)
	return &soakedProcess{data: "http://" + data, admin: "http://" + admin, client: &http.Client{Timeout: time.Minute, Transport: transport}}
}

const soakWorkers = 8

// ask sends at least n new questions, and goes on until enough. All must be answered.
func (p *soakedProcess) ask(t *testing.T, n int, enough func() bool) (asked int64) {
	t.Helper()
	first := p.next.Load()
	var all sync.WaitGroup
	for range soakWorkers {
		all.Go(func() {
			for !t.Failed() {
				i := p.next.Add(1)
				if i-first > int64(n) && enough() {
					return
				}
				body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":"What is the rule for office %d on a day like %d, asked for the %dth time?"}]}`, i%97, i%89, i)
				resp, err := p.client.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					t.Errorf("question %d: %v", i, err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if status := resp.Header.Get("Sidenote-Status"); err != nil || resp.StatusCode != 200 || !strings.HasPrefix(status, "injected; sources=") {
					t.Errorf("question %d: %d %s, %v", i, resp.StatusCode, status, err)
				}
			}
		})
	}
	all.Wait()
	return p.next.Load() - first
}

// trouble stops Redis, changes the folder, and starts Redis again.
func (p *soakedProcess) trouble(t *testing.T, fault *redistest.Fault, docs string, n int) {
	fault.Refuse(true)
	i := n % 80
	writeFile(t, filepath.Join(docs, fmt.Sprintf("part-%d/page-%02d.md", i%7, i)), soakPage(i, n))
	p.usage(t) // which takes a moment
	fault.Refuse(false)
}

// A soakUsage is the resources that a process uses.
type soakUsage struct{ goroutines, files, resident float64 }

func (u soakUsage) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f files, %.0f MB", u.goroutines, u.files, u.resident/1e6)
}

func (p *soakedProcess) usage(t *testing.T) (u soakUsage) {
	resp, err := p.client.Get(p.admin + "/metrics")
	if err != nil {
		t.Error(err)
		return u
	}
	defer resp.Body.Close()
	lines, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	of := map[string]*float64{"go_goroutines": &u.goroutines, "process_open_fds": &u.files, "process_resident_memory_bytes": &u.resident}
	for line := range strings.Lines(string(lines)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if to := of[name]; to != nil {
			*to, _ = strconv.ParseFloat(value, 64)
		}
	}
	return u
}

// settled waits until the process is at rest: its work has ended, and it uses no more than at
// first, except for a few connections to Redis and background work.
func (p *soakedProcess) settled(t *testing.T, first *soakUsage) soakUsage {
	t.Helper()
	const few = 12
	p.client.CloseIdleConnections()
	tick, limit := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for before := p.usage(t); ; {
		<-tick.C
		u := p.usage(t)
		switch {
		case u.files == 0 || u.resident == 0:
			t.Fatalf("the metrics tell nothing: %v", u)
		case first == nil && u.goroutines == before.goroutines && u.files == before.files:
			return u
		case first != nil && u.goroutines <= first.goroutines+few && u.files <= first.files+few:
			return u
		}
		before = u
		select {
		case <-limit:
			t.Fatalf("holds on to %v; at first %v", u, first)
		default:
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}
