package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval/services/servicestest"
)

// silentServer returns the address of a server that accepts connections, reads, and never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var conns sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			conns.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
	return l.Addr().String()
}

var mostRetrieval = regexp.MustCompile(`(?m)^retrieval  at most (\S+) a request: a plan, then Redis, then the search, then scores$`)

// serveHanging starts a Sidenote whose planner, Redis, embeddings, vector store and reranker all
// hang. It returns the maximum wait that check prints.
func serveHanging(t *testing.T, dialect string) (p *process, most time.Duration) {
	t.Helper()
	service, store, silent := servicestest.Start(t), newArchive(t, false), silentServer(t)
	leaving := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-leaving
			return
		}
		store.answer(w, r)
	}))
	t.Cleanup(front.Close)
	t.Cleanup(func() { close(leaving) })
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "docs"), 0o755))
	for i := range 6 {
		write(t, filepath.Join(dir, "docs"), fmt.Sprintf("d%d.md", i), fmt.Sprintf("# Title %d\n\nThe parental leave of number %d is %d weeks.\n", i, i, i+10))
	}
	write(t, dir, "redis", "redis://"+silent)
	write(t, dir, "c.yaml", fmt.Sprintf(`upstreams:
  default: {base_url: "%s"}
  silent: {base_url: "http://%s", api_key: {env: SERVICE_KEY}}
  service: {base_url: "%s", api_key: {env: SERVICE_KEY}}
  archive: {base_url: "%s", api_key: {env: SERVICE_KEY}}
embeddings: {upstream: service, model: stub}
knowledge:
  docs: {path: docs, embed: true}
  legal: {engine: vector_store, upstream: archive, id: vs_1}
redis: {url: {file: redis}}
state: state
policies:
  default:
    upstream: default
    retrieval: {deadline: 2s}
    planner: {upstream: silent, model: m, timeout: 300ms}
    rerank: {upstream: silent, model: m, dialect: %s, timeout: 200ms}
`, newRecorder(t).URL, silent, service.URL, front.URL, dialect))
	file := filepath.Join(dir, "c.yaml")
	c := start(t, keyed, "check", "--config", file)
	c.ends(t, exitDone, "retrieval  at most ", "")
	line := mostRetrieval.FindStringSubmatch(c.out.String())
	if line == nil {
		t.Fatalf("check prints\n%s", c.out.String())
	}
	most, err := time.ParseDuration(line[1])
	must(t, err)
	p = serveIn(t, keyed, "--config", file)
	p.embeds(t, 6)
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return func(http.ResponseWriter, servicestest.Request) { <-leaving }
	})
	return p, most
}

// nthQuestion returns a different question for each number, all with the same answer.
func nthQuestion(n int) string {
	return "How many weeks of parental leave" + strings.Repeat("?", n+1)
}

// busyMachine is how much longer than check prints a request with hanging services may take,
// because the machine may be busy. A wait without a limit takes ten seconds or more.
const busyMachine = 5 * time.Second

// With every service hanging, the whole program answers from the word search, says what is missing,
// and waits at most as long as check prints. Another test checks the exact sum in fake time;
// SIDENOTE_LONG=1 measures.
//
// Row K2 of deploy/CONTRIBUTING.md.
func TestEveryServiceHangs(t *testing.T) {
	for _, dialect := range []string{"cohere", "tei", "llm"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel() // with each other, but not with tests that need the processor
			p, most := serveHanging(t, dialect)
			const requests = 24
			statuses := make([]string, requests)
			each(requests, 8, func(i int) {
				began := time.Now()
				statuses[i] = plannedFor(t, p, "key-of-caller", nthQuestion(i))
				if took := time.Since(began); took > most+busyMachine {
					t.Errorf("request %d took %v, check prints %v", i, took, most)
				}
			})
			var all []string
			for _, status := range statuses {
				if !strings.HasPrefix(status, "injected; ") || !strings.Contains(status, "; degraded=embed; embed=") {
					t.Errorf("status %s", status)
				}
				for _, helper := range []string{"planner", "embed", "rerank"} {
					if !strings.Contains(status, "; "+helper+"=timeout; ") && !strings.Contains(status, "; "+helper+"=error; ") {
						t.Errorf("%s: status %s", helper, status)
					}
				}
				all = append(all, status)
			}
			if !slices.ContainsFunc(all, func(s string) bool {
				return strings.Contains(s, "; embed=timeout; late=4; planner=timeout; ") && strings.Contains(s, "; rerank=timeout; ")
			}) {
				t.Errorf("no request has waited for all services: %s", strings.Join(all, "\n"))
			}
		})
	}
}

// The figures: the additional time of requests with every service hanging, compared to a Sidenote
// without services, at the 99th percentile.
func TestHangingServicesMeasured(t *testing.T) {
	if os.Getenv("SIDENOTE_LONG") == "" {
		t.Skip("takes minutes and a machine at rest; SIDENOTE_LONG=1 runs it")
	}
	plain := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", handbook(t))
	measure := func(p *process, n int) []time.Duration {
		took := make([]time.Duration, n)
		for i := range took {
			began := time.Now()
			plannedFor(t, p, "key-of-caller", nthQuestion(i))
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took
	}
	without := measure(plain, 200)
	for _, dialect := range []string{"cohere", "tei", "llm"} {
		p, most := serveHanging(t, dialect)
		with := measure(p, 200)
		added := with[len(with)*99/100] - without[len(without)/2]
		t.Logf("%s: added p50 %v, p99 %v, most %v; check prints %v", dialect, with[len(with)/2]-without[len(without)/2], added, with[len(with)-1]-without[len(without)/2], most)
		if added > most+10*time.Millisecond {
			t.Errorf("%s: added p99 %v, check prints %v", dialect, added, most)
		}
	}
}
