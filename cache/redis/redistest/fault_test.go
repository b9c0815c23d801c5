package redistest_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

const soon = 100 * time.Millisecond // to see that nothing comes

// echo starts a server that replies with the last argument of each command.
func echo(t *testing.T) string {
	return redistest.Lie(t, func(args []string) []byte { return []byte(args[len(args)-1] + "\r\n") })
}

func TestFaultRelaysRedis(t *testing.T) {
	s := redistest.Start(t)
	f := redistest.NewFault(t, s.Addr())
	s.Do("SET", "k", strings.Repeat("v", 1<<20))
	var all sync.WaitGroup
	for range 8 {
		conn := dial(t, f.Addr(), 20*time.Second)
		all.Go(func() {
			for range 8 {
				say(t, conn, "GET", "k")
				read(t, conn, "$1048576\r\n"+strings.Repeat("v", 1<<20)+"\r\n")
			}
		})
	}
	all.Wait()
	if got := f.Accepted(); got != 8 {
		t.Errorf("accepted %d, want 8", got)
	}
}

func TestClosedOnEitherSide(t *testing.T) {
	f := redistest.NewFault(t, redistest.Lie(t, func([]string) []byte { return nil }))
	left := ask(t, f, "")
	gone := ask(t, f, "")
	say(t, gone, "bye")
	ends(t, gone, io.EOF) // the server left
	left.Close()
	awaitConns(t, f, 0)
}

func TestNobodyAtTheTarget(t *testing.T) {
	f := redistest.NewFault(t, "127.0.0.1:1")
	conn, err := net.DialTimeout("tcp", f.Addr(), 5*time.Second)
	if err == nil { // else the reset was quicker
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	f.Blackhole(true)
	conn = ask(t, f, "")
	silent(t, conn)
	f.Blackhole(false)
	ends(t, conn, io.EOF)
}

func TestBlackhole(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	asked, idle := ask(t, f, "one"), ask(t, f, "two")
	f.Blackhole(true)
	say(t, asked, "lost")
	silent(t, asked)
	fresh := ask(t, f, "") // still accepted
	say(t, fresh, "lost too")
	silent(t, fresh)
	f.Blackhole(false)
	ends(t, asked, io.EOF)
	ends(t, fresh, io.EOF)
	say(t, idle, "lost nothing")
	read(t, idle, "lost nothing\r\n")
	ask(t, f, "new")
}

// A reply that is being delayed is lost as well, and so is the news that the server
// left.
func TestBlackholeOfReplies(t *testing.T) {
	asked := make(chan bool)
	answer := make(chan []byte)
	f := redistest.NewFault(t, redistest.Lie(t, func([]string) []byte { asked <- true; return <-answer }))
	for _, reply := range [][]byte{[]byte("+OK\r\n"), nil} {
		conn := ask(t, f, "")
		say(t, conn, "GET", "k")
		<-asked
		f.Blackhole(true)
		answer <- reply
		silent(t, conn)
		f.Blackhole(false)
		ends(t, conn, io.EOF)
	}
}

func TestLatency(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	conn := ask(t, f, "")
	f.Latency(soon, 0)
	start := time.Now()
	say(t, conn, "late")
	read(t, conn, "late\r\n")
	if d := time.Since(start); d < soon {
		t.Errorf("a reply after %v, want %v or more", d, soon)
	}
	start = time.Now()
	ask(t, f, "late too")
	if d := time.Since(start); d < soon {
		t.Errorf("a reply on a new connection after %v, want %v or more", d, soon)
	}

	f.Latency(5*time.Millisecond, 10*time.Millisecond)
	var want bytes.Buffer
	for i := range 50 {
		word := fmt.Sprint("word ", i)
		say(t, conn, word)
		want.WriteString(word + "\r\n")
	}
	read(t, conn, want.String())

	f.Latency(time.Hour, 0)
	say(t, conn, "never")
	silent(t, conn)
	f.Latency(0, 0)
	ask(t, f, "at once")
}

// The delays of chunks overlap, as on a wire; they do not add up, as in a queue.
func TestLatencyDoesNotAddUp(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	conn := ask(t, f, "")
	const delay, rounds = 300 * time.Millisecond, 20
	f.Latency(delay, 0)
	start := time.Now()
	for range rounds {
		say(t, conn, "x")
	}
	read(t, conn, strings.Repeat("x\r\n", rounds))
	if d := time.Since(start); d > delay*rounds/2 {
		t.Errorf("%d replies took %v with a latency of %v", rounds, d, delay)
	}
}

func TestReset(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	a, b := ask(t, f, "a"), ask(t, f, "b")
	f.Reset()
	ends(t, a, syscall.ECONNRESET)
	ends(t, b, syscall.ECONNRESET)
	if got := f.Conns(); got != 0 {
		t.Errorf("%d connections, want 0", got)
	}
	ask(t, f, "new")
}

func TestCutAfter(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	old := ask(t, f, "before")
	f.CutAfter(7)
	for name, conn := range map[string]net.Conn{"old": old, "new": ask(t, f, "")} {
		t.Run(name, func(t *testing.T) {
			say(t, conn, "123")
			read(t, conn, "123\r\n")
			say(t, conn, "456")
			read(t, conn, "45")
			ends(t, conn, syscall.ECONNRESET)
		})
	}
	spared := ask(t, f, "123")
	f.CutAfter(0)
	say(t, spared, "456")
	read(t, spared, "456\r\n")
}

func TestRefuse(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	conn := ask(t, f, "before")
	for range 2 {
		f.Refuse(true)
		f.Refuse(true) // again is nothing new
		if c, err := net.DialTimeout("tcp", f.Addr(), 5*time.Second); err == nil {
			c.Close()
			t.Fatal("connected, want it refused")
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want refused", err)
		}
		say(t, conn, "still there")
		read(t, conn, "still there\r\n")
		f.Refuse(false)
		f.Refuse(false)
		ask(t, f, "again")
	}
}

func TestCounts(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	a, b := ask(t, f, "a"), ask(t, f, "b")
	awaitConns(t, f, 2)
	a.Close()
	awaitConns(t, f, 1)
	f.Blackhole(true)
	b.Close() // noticed in the hole as well
	awaitConns(t, f, 0)
	if got := f.Accepted(); got != 2 {
		t.Errorf("accepted %d, want 2", got)
	}
}

// Calls every method concurrently, under traffic, for the race detector.
func TestFaultsUnderTraffic(t *testing.T) {
	f := redistest.NewFault(t, echo(t))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				conn, err := net.DialTimeout("tcp", f.Addr(), 5*time.Second)
				if err != nil {
					continue
				}
				conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
				fmt.Fprint(conn, "*1\r\n$5\r\nhello\r\n")
				io.ReadFull(conn, make([]byte, 7))
				conn.Close()
			}
		})
	}
	for i := range 200 {
		f.Blackhole(i%3 == 0)
		f.Latency(time.Duration(i%5)*time.Millisecond, time.Millisecond)
		f.CutAfter(int64(i % 4))
		f.Refuse(i%7 == 0)
		f.Reset()
		f.Conns()
	}
	f.Blackhole(false)
	f.Latency(0, 0)
	f.CutAfter(0)
	f.Refuse(false)
	all.Wait()
	ask(t, f, "in the end")
	f.Close()
	f.Refuse(false) // too late, and harmless
}

func TestFullBacklog(t *testing.T) {
	addr := redistest.FullBacklog(t)
	for range 3 {
		if conn, err := net.DialTimeout("tcp", addr, soon); err == nil {
			conn.Close()
			t.Error("connected, want a timeout")
		} else if !timedOut(err) {
			t.Errorf("got %v, want a timeout", err)
		}
	}
}

func TestLie(t *testing.T) {
	addr := redistest.Lie(t, func(args []string) []byte {
		switch args[0] {
		case "HTTP":
			return []byte("HTTP/1.1 400 Bad Request\r\n\r\n")
		case "HUGE":
			return []byte("$10000000000\r\n")
		case "QUIET":
			return []byte{}
		case "BYE":
			return nil
		default:
			return []byte(strings.Join(args, "|"))
		}
	})
	conn := dial(t, addr, 5*time.Second)
	say(t, conn, "SET", "k", "\r\n\x00", "")
	read(t, conn, "SET|k|\r\n\x00|")
	say(t, conn, "HTTP")
	read(t, conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
	say(t, conn, "QUIET")
	say(t, conn, "HUGE")
	read(t, conn, "$10000000000\r\n")
	say(t, conn, "BYE")
	ends(t, conn, io.EOF)

	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "*1\r\n:1\r\n", "*x\r\n", "*1\r\n$-2\r\n", "*1\r\n$1\r\nabc\r\n"} {
		conn := dial(t, addr, 5*time.Second)
		if _, err := io.WriteString(conn, garbage); err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); err == nil || timedOut(err) {
			t.Errorf("after %q: got %d bytes, %v, want the end", garbage, n, err)
		}
	}
}

// dial connects for as long as the test runs, with a deadline.
func dial(t *testing.T, addr string, limit time.Duration) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(limit))
	return conn
}

// ask connects through f and, unless word is empty, has it echoed, which shows
// that the connection is all there.
func ask(t *testing.T, f *redistest.Fault, word string) net.Conn {
	t.Helper()
	before := f.Accepted()
	conn := dial(t, f.Addr(), 10*time.Second)
	await(t, "the connection to be accepted", func() bool { return f.Accepted() > before })
	if word != "" {
		say(t, conn, word)
		read(t, conn, word+"\r\n")
	}
	return conn
}

func say(t *testing.T, conn net.Conn, args ...string) {
	t.Helper()
	w := bufio.NewWriter(conn)
	fmt.Fprintf(w, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(w, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if err := w.Flush(); err != nil {
		t.Errorf("say %q: %v", args, err)
	}
}

func read(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("got %.100q, %v, want %.100q", got[:n], err, want)
	}
}

// silent checks that nothing comes, not even the end.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(soon))
	if n, err := conn.Read(make([]byte, 1)); !timedOut(err) {
		t.Errorf("got %d bytes, %v, want silence", n, err)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
}

func ends(t *testing.T, conn net.Conn, want error) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, want) {
		t.Errorf("got %d bytes, %v, want %v", n, err, want)
	}
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func awaitConns(t *testing.T, f *redistest.Fault, want int) {
	t.Helper()
	await(t, fmt.Sprintf("%d connections", want), func() bool { return f.Conns() == want })
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}
