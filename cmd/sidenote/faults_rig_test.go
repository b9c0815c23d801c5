package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

// The rows R1 to R27 of deploy/CONTRIBUTING.md: the whole program under a steady load, with a Redis
// and a network to it that fail on request.

const (
	rate = 80 // requests a second
	// cycle is how many questions are asked before the first is repeated. That takes longer than
	// the second for which this process caches an answer, so each question is looked up in Redis.
	cycle = 96
	pool  = 20 // connections of the cache to Redis
	// ledgerConns is how many connections the ledger of budgets has while nothing is limited: for
	// its probe, for checking the server's settings, and to add usage; and for the probe of the usage by
	// month, and to add to it.
	ledgerConns = 5
)

// A stage is what the rows share: an upstream, knowledge, and a Sidenote without Redis, which gives
// the expected answer to each request and its time.
type stage struct {
	dir      string
	upstream string
	client   *http.Client
	plain    *process
	logs     map[*process]*journal
	found    map[string]string // what a replica leaves in Redis

	mu       sync.Mutex
	expected map[string]reply // the answers without Redis to requests that were sent, unless times are compared
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		dir: t.TempDir(), upstream: echo(t), logs: map[*process]*journal{}, found: map[string]string{}, expected: map[string]reply{},
		client: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
	for i, topic := range topics() {
		s.write(t, filepath.Join("library", topic+".md"), fmt.Sprintf("# About %[1]s\n\n## Who may have %[1]s\n\n"+
			"Everybody who has been here for %[2]d weeks may ask for %[1]s.\n\n## Who decides on %[1]s\n\n"+
			"The committee on %[1]s meets every %[2]d weeks; its chair answers before that what is urgent.\n", topic, i+2))
	}
	server := redistest.Start(t)
	s.plain = s.serve(t, "", "")
	r := &rig{stage: s, t: t, p: s.serve(t, steady, server.URL())}
	r.burst(cycle, 8, func(i int) int { return i })
	r.p.stop() // which writes what is not written yet
	for _, key := range keys(server, "*") {
		s.found[key] = server.Do("GET", key)
	}
	server.Kill()
	return s
}

func keys(server *redistest.Server, pattern string) []string {
	return strings.Fields(server.Do("KEYS", "sidenote:v12:"+pattern))
}

// A rig is a Sidenote on a Redis that a test breaks.
type rig struct {
	*stage
	t      *testing.T
	server *redistest.Server
	fault  *redistest.Fault // between p and server
	p      *process

	news         int // each question of a number divisible by that was never asked before; 0: none
	asked, fresh int

	mu   sync.Mutex
	seen []glimpse
	base resources
}

// bare returns a rig without Sidenote, whose Redis holds what a replica has cached. The arguments
// are the server's.
func (s *stage) bare(t *testing.T, args ...string) *rig {
	t.Helper()
	server := redistest.Start(t, args...)
	r := &rig{stage: s, t: t, server: server, fault: redistest.NewFault(t, server.Addr())}
	conn := r.connect()
	for key, value := range s.found {
		fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, len(value), value)
	}
	want := strings.Repeat("+OK\r\n", len(s.found))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("filling Redis: %v", err)
	}
	conn.Close()
	return r
}

// connect opens a connection of another client.
func (r *rig) connect() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Addr())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// Settings of Redis: the usual ones, and those for rows that are not about time, with a timeout
// that does not expire on a busy machine.
const (
	usual  = "pool_size: 20"
	steady = "pool_size: 20, timeout: 5s"
)

// rig returns a complete rig at rest.
func (s *stage) rig(t *testing.T, settings string) *rig {
	t.Helper()
	r := s.bare(t)
	r.begin(settings, "redis://"+r.fault.Addr())
	return r
}

// begin starts the tested Sidenote, which has cached nothing itself. What it uses now is compared
// with what it uses in the end.
func (r *rig) begin(settings, url string) {
	r.t.Helper()
	r.p = r.serve(r.t, settings, url)
	r.burst(len(topics()), 8, func(i int) int { return never/2 + i })
	r.base = r.usage()
}

// serve starts a Sidenote that caches answers for only a second, and lets them take as long as a
// busy machine needs. It uses the Redis at url, if any.
func (s *stage) serve(t *testing.T, settings, url string) *process {
	t.Helper()
	yaml := "cache: {ttl: 1s}\npolicies: {default: {retrieval: {deadline: 5s}}}\n"
	if url != "" {
		yaml += "redis: {url: {file: " + s.write(t, "redis-url", url) + "}, " + settings + "}\n" // it may hold a password
	}
	return serve(t, "--config", s.write(t, "sidenote.yaml", yaml), "--upstream", s.upstream,
		"--knowledge", filepath.Join(s.dir, "library"))
}

func (s *stage) write(t *testing.T, name, text string) (file string) {
	t.Helper()
	file = filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// echo is an upstream that answers with what it was sent. It and its clients keep no idle
// connections, so that those counted in the end are to Redis.
func echo(t *testing.T) string {
	u := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	}))
	u.Config.SetKeepAlivesEnabled(false)
	u.Start()
	t.Cleanup(u.Close)
	return u.URL
}

// topics have a document each.
func topics() []string {
	return strings.Fields("badges bicycles budgets cars catering childcare coaching desks expenses gifts headsets " +
		"holidays insurance keys laptops lockers meals parking pensions phones sabbaticals shifts trains visas")
}

// never is the number of the first question that no replica is asked.
const never = 1 << 20

// chatAbout returns a request. Questions beyond the number of topics end in punctuation that
// changes only their cache key.
func chatAbout(i int) string {
	all := topics()
	marks := strings.NewReplacer("0", "?", "1", "!").Replace(fmt.Sprintf("%b", i/len(all)))
	return fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},`+
		`{"role":"user","content":"Who may have %s, and who decides on that%s"}]}`, all[i%len(all)], marks)
}

// A reply is what a client sees.
type reply struct {
	id     string
	code   int
	status string // Sidenote-Status
	body   []byte
	err    error
}

func (s *stage) post(p *process, body string) reply {
	resp, err := s.client.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return reply{resp.Header.Get("Sidenote-Id"), resp.StatusCode, resp.Header.Get("Sidenote-Status"), answer, err}
}

// expect returns the answer without Redis. It is the same each time; the request is sent again only
// for its time.
func (s *stage) expect(body string) reply {
	s.mu.Lock()
	want, ok := s.expected[body]
	s.mu.Unlock()
	if ok {
		return want
	}
	want = s.post(s.plain, body)
	if !timed() && want.err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expected[body] = want
	}
	return want
}

// An answer is the result of a request, and of the same request without Redis.
type answer struct {
	got, want reply
	right     bool // what reached the upstream is the same
	// waited is how long the request waited for its sources; plain is the same without Redis.
	waited, plain time.Duration
}

// compare drops the bodies, which would count as memory.
func (a *answer) compare() {
	a.right = len(a.got.body) > 0 && bytes.Equal(a.got.body, a.want.body)
	a.got.body, a.want.body = nil, nil
}

// drive sends n requests at an even rate, and calls at[i] before request i. All of them must be
// answered correctly.
func (r *rig) drive(n int, at map[int]func()) []answer {
	r.t.Helper()
	answers := make([]answer, n)
	stop := r.watch()
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	var all sync.WaitGroup
	for i := range n {
		<-tick.C
		if do := at[i]; do != nil {
			do()
		}
		body := chatAbout(r.nextQuestion())
		all.Go(func() {
			answers[i].want = r.expect(body)
			answers[i].got = r.post(r.p, body)
			answers[i].compare()
		})
	}
	all.Wait()
	stop()
	r.judge(answers)
	return answers
}

func (r *rig) nextQuestion() int {
	if r.news > 0 && (r.asked+r.fresh)%r.news == 0 {
		r.fresh++
		return never + r.fresh
	}
	r.asked++
	return r.asked % cycle
}

// burst sends n requests as fast as that many workers can, first without Redis.
func (r *rig) burst(n, workers int, number func(i int) int) []answer {
	r.t.Helper()
	answers := make([]answer, n)
	stop := r.watch()
	each(n, workers, func(i int) { answers[i].want = r.expect(chatAbout(number(i))) })
	each(n, workers, func(i int) {
		answers[i].got = r.post(r.p, chatAbout(number(i)))
		answers[i].compare()
	})
	stop()
	r.judge(answers)
	return answers
}

// each calls do with every number below n.
func each(n, workers int, do func(i int)) {
	numbers := make(chan int)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range numbers {
				do(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
}

// judge checks what must hold whatever Redis does: no request is lost or wrong, and the process
// never looks dead.
func (r *rig) judge(answers []answer) {
	r.t.Helper()
	bad := 0
	for i, a := range answers {
		if a.got.err == nil && a.got.code == 200 && strings.HasPrefix(a.got.status, "injected; sources=") && a.right {
			continue
		}
		if bad++; bad <= 3 {
			r.t.Errorf("request %d of %d: %d %s, right: %v, %v", i, len(answers), a.got.code, a.got.status, a.right, a.got.err)
		}
	}
	if bad > 0 {
		r.t.Fatalf("%d of %d requests lost or wrong", bad, len(answers))
	}
	for _, g := range r.glimpses() {
		if g.health != 200 || g.ready != 200 {
			r.t.Fatalf("probes say %d and %d: %s", g.health, g.ready, g.reasons)
		}
	}
	got, want := r.retrievals(r.p), r.retrievals(r.plain)
	for i := range answers {
		answers[i].waited, answers[i].plain = got.of(r.t, answers[i].got.id), want.of(r.t, answers[i].want.id)
	}
}
