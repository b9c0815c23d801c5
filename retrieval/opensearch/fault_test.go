package opensearch_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/opensearch"
)

// A line counts the requests that go through its connections. From one on, it closes connections
// instead: before the request is sent, or after, so that the answer is lost.
type line struct {
	mu       sync.Mutex
	requests int
	failAt   int // 0: never
	after    bool
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return &lineConn{c, l}, err
}

func (l *line) set(failAt int, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests, l.failAt, l.after = 0, failAt, after
}

type lineConn struct {
	net.Conn
	line *line
}

// Write counts the writes that begin a request.
func (c *lineConn) Write(b []byte) (int, error) {
	c.line.mu.Lock()
	if begins(b) {
		c.line.requests++
	}
	failed := c.line.failAt > 0 && c.line.requests >= c.line.failAt
	after := c.line.after && c.line.requests == c.line.failAt
	c.line.mu.Unlock()
	if failed && !after {
		_ = c.Close()
		return 0, errors.New("injected")
	}
	return c.Conn.Write(b)
}

func (c *lineConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.failAt > 0 && c.line.requests >= c.line.failAt {
		_ = c.Close()
		return 0, errors.New("injected")
	}
	return n, err
}

func begins(b []byte) bool {
	for _, method := range []string{"GET ", "PUT ", "POST ", "HEAD ", "DELETE "} {
		if len(b) > len(method) && string(b[:len(method)]) == method {
			return true
		}
	}
	return false
}

// TestWriterThatDiesLeavesNothingHalf lets a writer die at each of its requests, once before the
// request is executed and once after. Another one takes over, and writes what Known does not
// have: the new content, or the old one again. Searches see the old content or the new one, at
// each point.
func TestWriterThatDiesLeavesNothingHalf(t *testing.T) {
	s := open(t)
	must(t, s.Init(t.Context(), "b"))
	step := 1
	if testing.Short() {
		step = 9
	}
	for _, after := range []bool{false, true} {
		for _, want := range [][]engine.Document{contentBefore, contentAfter} {
			failAt := 1
			for dies(t, s, failAt, after, want) {
				failAt += step
			}
			if failAt < 10 {
				t.Errorf("after=%v: only %d requests failed", after, failAt)
			}
		}
	}
}

// The contents have the same numbers of chunks and terms, so that only their texts tell them apart.
var (
	contentBefore = []engine.Document{
		embedded(document("same", "red same"), unit(1, 4)), embedded(document("changed", "red old", "red older"), unit(2, 4), unit(3, 4)),
		embedded(document("gone", "red gone"), unit(4, 4)),
	}
	contentAfter = []engine.Document{
		contentBefore[0], stamped("2", embedded(document("changed", "red new", "red newer"), unit(5, 4), unit(6, 4))),
		embedded(document("added", "red added"), unit(7, 4)),
	}
)

func stamped(stamp string, d engine.Document) engine.Document {
	d.Stamp = stamp
	return d
}

// dies reports whether the writer died.
func dies(t *testing.T, s *opensearch.Server, failAt int, after bool, want []engine.Document) bool {
	t.Helper()
	synchronize(t, s, contentBefore)
	ctx := t.Context()
	var l line
	c := s.Connection()
	c.Dial = l.dial
	lease, err := openAs(t, c).Acquire(ctx, "b", "dying", time.Millisecond)
	must(t, err)
	l.set(failAt, after)
	err = lease.Put(ctx, contentAfter[1:], []string{"gone"})
	if err == nil {
		err = lease.Commit(ctx, "bb", "m/4")
	}
	checkContent(t, s, failAt, contentBefore, contentAfter)
	synchronize(t, s, want)
	checkContent(t, s, failAt, want)
	return err != nil
}

// synchronize writes what a base does not have, as a folder is written.
func synchronize(t *testing.T, s *opensearch.Server, want []engine.Document) {
	t.Helper()
	ctx := t.Context()
	l := takeOver(t, s)
	stamps := map[string]string{}
	for k, err := range l.Known(ctx) {
		must(t, err)
		stamps[k.ID] = k.Stamp
	}
	var put []engine.Document
	for _, d := range want {
		if stamps[d.ID] != d.Stamp {
			put = append(put, d)
		}
		delete(stamps, d.ID)
	}
	must(t, l.Put(ctx, put, slices.Collect(maps.Keys(stamps))))
	must(t, l.Commit(ctx, "cc", "m/4"))
	must(t, l.Release(ctx))
}

// takeOver returns a lease once the one of the writer that died has ended.
func takeOver(t *testing.T, s *opensearch.Server) engine.Lease {
	t.Helper()
	for {
		l, err := s.Acquire(t.Context(), "b", "next", time.Minute)
		if err == nil {
			return l
		}
		if !errors.Is(err, engine.ErrLeaseTaken) {
			t.Fatal(err)
		}
	}
}

// checkContent fails unless searches by words and by vector, the counts and the state are those of one
// of some contents.
func checkContent(t *testing.T, s *opensearch.Server, failAt int, contents ...[]engine.Document) {
	t.Helper()
	f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"b"}, Terms: terms("red", "new", "gone"), Depth: 50})
	must(t, err)
	got := contentOf(f)
	f, err = s.Search(t.Context(), &engine.Search{Bases: []string{"b"}, Vector: unit(1, 4), Depth: 50})
	must(t, err)
	byVector := contentOf(f)
	got.ByVector = byVector.Texts
	diffs := ""
	for _, c := range contents {
		diff := cmp.Diff(wanted(c), got)
		if diff == "" {
			return
		}
		diffs += diff
	}
	t.Errorf("at request %d:\n%s", failAt, diffs)
}

type content struct {
	Texts, ByVector map[string]int
	Counts          []engine.TermCount
	Documents       int
	Chunks          int
	Embedded        int
	Length          uint64
}

func contentOf(f *engine.Found) content {
	st := f.States[0]
	c := content{Texts: map[string]int{}, Documents: st.Documents, Chunks: st.Chunks, Embedded: st.Embedded, Length: st.Length}
	for _, k := range f.Candidates {
		c.Texts[k.Text]++
	}
	for _, counts := range f.Counts {
		c.Counts = append(c.Counts, counts[0])
	}
	return c
}

func wanted(documents []engine.Document) content {
	c := content{Texts: map[string]int{}, Documents: len(documents)}
	for _, t := range terms("red", "new", "gone") {
		c.Counts = append(c.Counts, engine.TermCount{Text: t.Text})
	}
	for _, d := range documents {
		for _, k := range d.Chunks {
			c.Texts[k.Text]++
			c.Chunks++
			c.Embedded++
			c.Length += uint64(k.Length)
		}
		for _, have := range d.Terms {
			for i := range c.Counts {
				if c.Counts[i].Text == have.Text {
					c.Counts[i].Texts += have.Texts
					c.Counts[i].Total += have.Total
				}
			}
		}
	}
	c.ByVector = c.Texts
	return c
}

func TestFailoverToAnotherAddress(t *testing.T) {
	s := open(t)
	l := write(t, s, "b")
	must(t, l.Put(t.Context(), contentBefore, nil))
	must(t, l.Commit(t.Context(), "aa", "m/4"))
	c := s.Connection()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, dead.Close())
	c.URL = []*url.URL{{Scheme: "http", Host: dead.Addr().String()}, address(t)}
	checkContent(t, openAs(t, c), 0, contentBefore)
}

func TestHungServerIsLeftByTheDeadline(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	must(t, err)
	t.Cleanup(func() { _ = hung.Close() })
	s := openAs(t, engine.Connection{URL: []*url.URL{{Scheme: "http", Host: hung.Addr().String()}}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.States(ctx, []string{"b"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestNodeIsHungKilledAndStartedAgain lets a node of its own hang and die in the middle of a write. It starts again
// at another address, which is the second of those that the Server knows.
func TestNodeIsHungKilledAndStartedAgain(t *testing.T) {
	node, ctx := enginetest.StartOpenSearch(t), t.Context()
	first := node.URL(t)
	var l line
	c := engine.Connection{URL: []*url.URL{first}, Namespace: namespace(t), Dial: l.dial, Most: 2}
	s := openAs(t, c)
	must(t, s.Init(ctx, "b"))
	lease, err := s.Acquire(ctx, "b", "dying", time.Millisecond)
	must(t, err)
	must(t, lease.Put(ctx, contentBefore, nil))
	must(t, lease.Commit(ctx, "aa", "m/4"))

	node.Stop(t)
	deadline := 300 * time.Millisecond
	for range 4 { // more than there are connections
		hurried, cancel := context.WithTimeout(ctx, deadline)
		if _, err := s.States(hurried, []string{"b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hung: %v", err)
		}
		cancel()
	}
	node.Continue(t)
	checkContent(t, s, 0, contentBefore)

	l.set(8, true) // of the requests of a Put
	if err := lease.Put(ctx, contentAfter[1:], []string{"gone"}); err == nil {
		t.Error("put, though its connection was lost")
	}
	node.Kill(t)
	if _, err := s.States(ctx, []string{"b"}); err == nil {
		t.Error("states of a server that is dead")
	}
	node.Restart(t)
	resp, err := http.Get(node.URL(t).String() + "/_cluster/health?wait_for_status=yellow&timeout=2m")
	must(t, err)
	must(t, resp.Body.Close())
	c.Dial, c.URL = nil, []*url.URL{first, node.URL(t)}
	s = openAs(t, c)
	checkContent(t, s, 0, contentBefore)
	synchronize(t, s, contentAfter)
	checkContent(t, s, 0, contentAfter)
}
