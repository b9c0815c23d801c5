package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A glimpse is what operators see at one moment.
type glimpse struct {
	at            time.Time
	health, ready int // status codes of the probes; 0: no answer
	status        string
	reasons       []string
	open          int // breakers
}

// well reports whether all works.
func (g glimpse) well() bool { return g.status == "ready" && g.open == 0 }

// says reports whether one of the reasons contains text.
func (g glimpse) says(text string) bool {
	return slices.ContainsFunc(g.reasons, func(line string) bool { return strings.Contains(line, text) })
}

func (r *rig) glimpse() glimpse {
	var g glimpse
	g.health, _ = r.get("/healthz")
	var text string
	g.ready, text = r.get("/readyz")
	var said struct {
		Status  string
		Reasons []string
	}
	if json.Unmarshal([]byte(text), &said) != nil {
		g.ready = 0
	}
	g.at, g.status, g.reasons = time.Now(), said.Status, said.Reasons
	_, metrics := r.get("/metrics")
	for _, kind := range []string{"candidates", "selected"} { // no request waits for another one
		g.open += int(added(metrics, "breaker_open", `"redis/`+kind+`"`))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, g)
	return g
}

func (r *rig) get(path string) (code int, text string) {
	resp, err := r.client.Get(r.p.admin + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// count adds up the series of a metric that carry all the labels.
func (r *rig) count(name string, labels ...string) float64 {
	_, text := r.get("/metrics")
	return added(text, name, labels...)
}

func added(metrics, name string, labels ...string) float64 {
	sum := 0.0
	for line := range strings.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ok := strings.CutPrefix(series, "sidenote_"+name)
		if !ok || rest != "" && rest[0] != '{' || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err == nil {
			sum += n
		}
	}
	return sum
}

// errors returns how many calls of Redis failed in one of these ways; without arguments, in any
// way.
func (r *rig) errors(kinds ...string) float64 {
	if len(kinds) == 0 {
		return r.count("redis_errors_total")
	}
	sum := 0.0
	for _, kind := range kinds {
		sum += r.count("redis_errors_total", `kind="`+kind+`"`)
	}
	return sum
}

// hits returns how many answers came from Redis.
func (r *rig) hits(cache string) float64 {
	return r.count("cache_requests_total", `cache="`+cache+`"`, `tier="redis"`, `result="hit"`)
}

// watch takes a glimpse at intervals until it is stopped; an open breaker stays open for longer
// than an interval.
func (r *rig) watch() (stop func()) {
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.glimpse()
			case <-ended:
				return
			}
		}
	})
	return func() { close(ended); all.Wait() }
}

func (r *rig) glimpses() []glimpse {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// saw reports whether there was such a moment.
func (r *rig) saw(is func(glimpse) bool) bool { return slices.ContainsFunc(r.glimpses(), is) }

// until waits for such a moment.
func (r *rig) until(what string, is func(glimpse) bool) glimpse {
	r.t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		g := r.glimpse()
		if is(g) {
			return g
		}
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("never %s: %s %q, %d breakers open", what, g.status, g.reasons, g.open)
		}
	}
}

// recovered returns how long it took from since until all worked again, without help and without
// requests.
func (r *rig) recovered(since time.Time) time.Duration {
	r.t.Helper()
	again := func(g glimpse) bool { return g.at.After(since) && g.well() }
	if seen := r.glimpses(); slices.ContainsFunc(seen, again) {
		return seen[slices.IndexFunc(seen, again)].at.Sub(since)
	}
	return r.until("well again", again).at.Sub(since)
}

// lost returns the delays that Redis caused: how much longer requests waited for their sources than
// without it.
type lost struct {
	median, p99, most time.Duration
	waiting           time.Duration // median of those that lost 20 ms and more, where five did: fewer may be the machine's doing
	plain, plain95    time.Duration // what they wait without one: median, and nearly the most
}

func (l lost) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return fmt.Sprintf("%.1f ms (p99 %.1f, at most %.1f; those that waited %.1f) over %.1f (p95 %.1f)",
		ms(l.median), ms(l.p99), ms(l.most), ms(l.waiting), ms(l.plain), ms(l.plain95))
}

func lostBy(answers []answer) lost {
	var more, plain []time.Duration
	for _, a := range answers {
		more, plain = append(more, a.waited-a.plain), append(plain, a.plain)
	}
	slices.Sort(more)
	slices.Sort(plain)
	last := len(answers) - 1
	l := lost{median: more[last/2], p99: more[last*99/100], most: more[last], plain: plain[last/2], plain95: plain[last*95/100]}
	if first, _ := slices.BinarySearch(more, 20*time.Millisecond); last-first >= 4 {
		l.waiting = more[first+(last-first)/2]
	}
	return l
}

// noise reports whether times mean nothing. That is so unless SIDENOTE_LONG=1 is set, which needs a
// machine at rest, and also if the machine is busy then: requests without Redis show it, as they
// take less than 2 ms otherwise.
func (l lost) noise() bool {
	return !timed() || l.plain95 > 25*time.Millisecond
}

// timed reports whether the times of requests are compared with those without Redis.
func timed() bool { return os.Getenv("SIDENOTE_LONG") != "" }

// bearable is the accepted delay before Redis is known to be down: at most patience for each
// request.
func (r *rig) bearable(l lost, patience time.Duration) {
	r.t.Helper()
	const slack = 500 * time.Millisecond // of the scheduling of a process that does all that is measured
	late := patience / 20                // of timers, on a machine that others use
	if !l.noise() && (l.waiting > patience+late+l.plain95 || l.most > patience+slack) {
		r.t.Errorf("requests lost %v", l)
	}
}

// unnoticed is the accepted delay while Redis is known to be down.
func (r *rig) unnoticed(l lost) {
	r.t.Helper()
	if !l.noise() && l.median > time.Millisecond+l.plain/2 {
		r.t.Errorf("requests lost %v to a Redis that is known to be down", l)
	}
}

// resources are the memory, connections and goroutines of the process.
type resources struct {
	goroutines int   // but for servers' idle ones and those of the network between
	files      int   // but for those of connections to Redis
	bytes      int64 // in use of what was allocated under a cache, as far as sampled
}

func (r *rig) usage() resources {
	var u resources
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		idle := bytes.Contains(stack, []byte("fasthttp.(*workerPool)")) && !bytes.Contains(stack, []byte("serveConn"))
		if !idle && !bytes.Contains(stack, []byte("/redistest.")) {
			u.goroutines++
		}
	}
	// Each connection to Redis has its end here, and two in the faulty network between.
	conns := r.fault.Conns()
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(open) - 3*conns
	}
	for range 2 { // pools are emptied the second time
		runtime.GC()
	}
	n, _ := runtime.MemProfile(nil, false)
	records := make([]runtime.MemProfileRecord, n+64) // some may join
	n, ok := runtime.MemProfile(records, false)
	if !ok {
		r.t.Fatalf("%d kinds of allocations", n)
	}
	for _, record := range records[:n] {
		if n := record.InUseBytes(); n > 0 && underCache(record.Stack()) {
			u.bytes += n
		}
	}
	return u
}

// underCache reports whether a cache is among the callers. Memory that a stopped Sidenote of an
// earlier row still holds, such as token tables, is not under a cache.
func underCache(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "sidenote/cache") || strings.Contains(frame.Function, "/go-redis/") {
			return true
		}
		if !more {
			return false
		}
	}
}

// released waits until no more is held than before the fault, except idle connections.
func (r *rig) released() {
	r.t.Helper()
	const few, megabytes = 4, 4 << 20
	files := r.base.files + few
	if r.fault.Accepted() == 0 { // the connections are to somewhere else
		files += pool + ledgerConns
	}
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		u, conns := r.usage(), r.fault.Conns()
		if u.goroutines <= r.base.goroutines+few && u.files <= files && u.bytes <= r.base.bytes+megabytes && conns <= pool+ledgerConns {
			r.t.Logf("goroutines %d → %d, files %d → %d, memory %.1f → %.1f MB, %d connections", r.base.goroutines, u.goroutines,
				r.base.files, u.files, float64(r.base.bytes)/1e6, float64(u.bytes)/1e6, conns)
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			stacks := make([]byte, 1<<20)
			r.t.Fatalf("holds on to %+v and %d connections, %+v at first\n%s", u, conns, r.base, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// A journal is the log of a process.
type journal struct {
	out  *announced
	read int                      // bytes
	took map[string]time.Duration // that a request waited for its sources, by its id
}

func (r *rig) retrievals(p *process) *journal {
	if r.logs[p] == nil {
		r.logs[p] = &journal{out: p.out, took: map[string]time.Duration{}}
	}
	return r.logs[p]
}

// of waits for the log line of a request.
func (j *journal) of(t *testing.T, id string) time.Duration {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if d, ok := j.took[id]; ok {
			return d
		}
		j.parse()
		if d, ok := j.took[id]; ok {
			return d
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("no line for request %q", id)
		}
	}
}

func (j *journal) parse() {
	j.out.mu.Lock()
	text := bytes.Clone(j.out.text.Bytes()[j.read:])
	j.out.mu.Unlock()
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	j.read += len(text)
	for line := range bytes.Lines(text) {
		var l struct {
			ID string  `json:"id"`
			MS float64 `json:"retrieval_ms"`
		}
		if json.Unmarshal(line, &l) == nil && l.ID != "" {
			j.took[l.ID] = time.Duration(l.MS * float64(time.Millisecond))
		}
	}
}

// said returns the log so far.
func said(p *process) string {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.text.String()
}
