package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/postgres"
)

// A stall is a connection to the server whose replies can be held back.
type stall struct {
	mu      sync.Mutex
	stopped chan struct{} // closed while replies flow
	dialed  int
}

func newStall() *stall {
	s := &stall{stopped: make(chan struct{})}
	close(s.stopped)
	return s
}

// stop holds replies back until the returned function is called.
func (s *stall) stop() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.stopped = c
	return func() { close(c) }
}

func (s *stall) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.dialed++
	s.mu.Unlock()
	near, far := net.Pipe()
	go func() {
		_, _ = io.Copy(conn, far)
		_ = conn.Close()
	}()
	go func() {
		defer func() { _ = far.Close() }()
		b := make([]byte, 1<<16)
		for {
			n, err := conn.Read(b)
			s.mu.Lock()
			stopped := s.stopped
			s.mu.Unlock()
			<-stopped
			if _, writing := far.Write(b[:n]); err != nil || writing != nil {
				return
			}
		}
	}()
	return addressed{near, conn.RemoteAddr()}, nil
}

// addressed has the address of the server.
type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

// A call returns by its deadline although the server hangs, and calls after that find free
// connections once it answers again.
func TestServerHangs(t *testing.T) {
	_, address := newBase(t, "a")
	network := newStall()
	s := open(t, address, func(o *postgres.Options) { o.Dial, o.Most = network.dial, 2 })
	write(t, acquire(t, s, "a"), "aa", "", []engine.Document{document("one", nil, "Some text.")})
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3}
	search(t, s, q)
	resume := network.stop()
	for range 4 { // more than there are connections
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begin := time.Now()
		_, err := s.Search(ctx, q)
		took := time.Since(begin)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took > 10*time.Second { // pgx alone would wait 15 s for a place in the pool
			t.Errorf("took %v", took)
		}
	}
	resume()
	if found := search(t, s, q); len(found.Candidates) != 1 {
		t.Errorf("found %+v", found.Candidates)
	}
}

// A search after a restart of the server is answered, though all connections in the pool are dead,
// and what was put but not committed is known to the next writer.
func TestServerRestarts(t *testing.T) {
	own := enginetest.StartPostgres(t)
	s := open(t, own.URL, nil)
	if err := s.Init(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, s, "a")
	write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text.")})
	if err := l.Put(t.Context(), []engine.Document{document("two", nil, "More text.")}, nil); err != nil {
		t.Fatal(err)
	}
	own.Kill(t)
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3}
	if _, err := s.Search(t.Context(), q); err == nil {
		t.Error("no error without a server")
	}
	own.Restart(t)
	if found := search(t, s, q); len(found.Candidates) != 1 {
		t.Errorf("found %+v", found.Candidates)
	}
	if err := l.Commit(t.Context(), "bb", ""); err != nil {
		t.Fatal(err)
	}
	if found := search(t, s, q); len(found.Candidates) != 2 {
		t.Errorf("found %+v", found.Candidates)
	}
}

// The second address is tried if the first does not answer. A password appears in no error.
func TestSeveralAddresses(t *testing.T) {
	_, address := newBase(t, "a")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	first, err := url.Parse(fmt.Sprintf("postgres://%s/database", closed.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, address, func(o *postgres.Options) {
		first.Path = o.URL[0].Path
		o.URL = []*url.URL{first, o.URL[0]}
	})
	if state := mustState(t, s, "a"); state.Base != "a" {
		t.Errorf("state: %+v", state)
	}
	lost := open(t, address, func(o *postgres.Options) {
		o.URL, o.Password = []*url.URL{first}, func() string { return "hunter2" }
	})
	if _, err := lost.States(t.Context(), []string{"a"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// Everything works through PgBouncer in transaction mode, where the next transaction of a
// connection may run in another session of the server.
func TestPgBouncer(t *testing.T) {
	s := open(t, enginetest.PgBouncer(t, enginetest.Database(t), ""), nil)
	if err := s.Init(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, s, "a")
	write(t, l, "aa", "", []engine.Document{document("one", nil, "Some text.")})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				found, err := s.Search(t.Context(), &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3})
				if err != nil || len(found.Candidates) != 1 {
					t.Errorf("found %+v, %v", found, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// An address that accepts connections and never answers does not keep the others from being tried.
func TestFailoverFromHungAddress(t *testing.T) {
	_, address := newBase(t, "a")
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := open(t, address, func(o *postgres.Options) {
		hung := *o.URL[0]
		hung.Host = l.Addr().String()
		o.URL, o.Timeout = []*url.URL{&hung, o.URL[0]}, 3*time.Second
	})
	if _, err := s.States(t.Context(), []string{"a"}); err != nil {
		t.Error(err)
	}
}

// A configuration may name a schema with a hyphen.
func TestSchemaWithHyphen(t *testing.T) {
	s := open(t, enginetest.Database(t), func(o *postgres.Options) { o.Namespace = "my-team" })
	if err := s.Init(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	write(t, acquire(t, s, "a"), "aa", "", []engine.Document{document("one", nil, "Some text.")})
	q := &engine.Search{Bases: []string{"a"}, Terms: terms("text"), Depth: 3}
	if found := search(t, s, q); len(found.Candidates) != 1 {
		t.Errorf("found %+v", found.Candidates)
	}
}

// A query ends on the server by the deadline of its call, as nobody cancels it.
func TestQueriesEndOnTheServer(t *testing.T) {
	address := enginetest.Database(t)
	enginetest.Exec(t, address, "create view slow as select '1' as id, 'Some text' || pg_sleep(600) as body")
	s := openTable(t, address, engine.Mapping{Table: "slow", ID: "id", Text: "body", Language: "english"})
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(ctx context.Context) error{
		"states": func(ctx context.Context) error { _, err := s.States(ctx, []string{"wiki"}); return err },
		"sample": func(ctx context.Context) error { _, err := s.Sample(ctx, "wiki", 9); return err },
	}
	for what, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
		tick, end := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
		for enginetest.Value(t, address, "select count(*) from pg_stat_activity where query like '%slow%' and pid <> pg_backend_pid() and state = 'active'") != "0" {
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("%s: the query goes on", what)
			}
		}
		tick.Stop()
	}
}
