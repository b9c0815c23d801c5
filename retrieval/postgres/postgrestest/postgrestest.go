// Package postgrestest gives tests a real Postgres with pgvector, started by deploy/engines.sh.
//
// Its functions end the test when they fail, so they must be called in the test's own goroutine.
// Without python3 and pip tests are skipped; in CI they fail.
package postgrestest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// limit bounds each step; a server starts in 2 s, and is downloaded once.
const limit = 2 * time.Minute

// shared starts the server of all tests of a binary, unless $SIDENOTE_TEST_POSTGRES is the URL of
// one. The script stops it when the test process ends, however it ends: it keeps the Server, and so
// the standard input of the script, until then.
var shared = sync.OnceValues(func() (*Server, error) {
	if address := os.Getenv("SIDENOTE_TEST_POSTGRES"); address != "" {
		return &Server{URL: address}, nil
	}
	return run()
})

// Database returns the URL of a new database, with a superuser, in a server that the tests of a
// binary share. It is dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		missing(t, err)
	}
	return newDatabase(t, s.URL)
}

// newDatabase creates a database and returns its URL.
func newDatabase(t testing.TB, address string) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	Exec(t, address, "create database "+name)
	t.Cleanup(func() { Exec(t, address, "drop database if exists "+name+" with (force)") })
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// Exec runs statements, separated by semicolons, on a connection of their own.
func Exec(t testing.TB, address, statements string) {
	t.Helper()
	conn := connect(t, address)
	defer closeConn(conn)
	// The context of a test has ended when its clean-ups run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	if _, err := conn.PgConn().Exec(ctx, statements).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// Value returns the only value of the only row of a query, as text.
func Value(t testing.TB, address, query string) string {
	t.Helper()
	conn := connect(t, address)
	defer closeConn(conn)
	results, err := conn.PgConn().Exec(t.Context(), query).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1 {
		t.Fatalf("%s: got other than one value", query)
	}
	return string(results[0].Rows[0][0])
}

func connect(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = conn.Close(ctx)
}

// A Server is a Postgres of one test, for tests that stop it.
type Server struct {
	URL string // of its main database, with a superuser

	dir   string
	cmd   *exec.Cmd
	stdin io.Closer // ends the server
}

// Start starts a server for one test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := run()
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(func() {
		_ = s.stdin.Close()
		_ = s.cmd.Wait() // it stops a server that may have been killed
		_ = os.RemoveAll(s.dir)
	})
	return s
}

// run starts a server with a data folder of its own.
func run() (*Server, error) {
	script, err := scriptFile()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "postgres-of-tests-")
	if err != nil {
		return nil, err
	}
	errors, err := os.Create(filepath.Join(dir, "script.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Close() }()
	s := &Server{dir: dir, cmd: exec.Command("bash", script, "postgres", "run", dir)}
	s.cmd.Stderr = errors
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		said, _ := os.ReadFile(errors.Name())
		_ = s.cmd.Wait()
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("no Postgres: %s", strings.TrimSpace(string(said)))
	}
	s.URL = strings.TrimSpace(line)
	return s, nil
}

// scriptFile returns deploy/engines.sh of the module in which the tests run.
func scriptFile() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		script := filepath.Join(dir, "deploy", "engines.sh")
		if _, missing := os.Stat(script); missing == nil {
			return script, nil
		}
	}
	return "", errors.Join(err, errors.New("deploy/engines.sh is not in a folder above"))
}

// missing skips the test; in CI it fails.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Kill ends the server at once, as a crash does: what was committed is recovered by Restart.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(t, crash)
	s.signal(t, thaw)
	tick, end := time.NewTicker(5*time.Millisecond), time.After(limit)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := os.Stat(s.pidFile()); errors.Is(err, os.ErrNotExist) {
				return
			}
		case <-end:
			t.Fatalf("the server did not end within %v", limit)
		}
	}
}

func (s *Server) pidFile() string { return filepath.Join(s.dir, "postgres", "postmaster.pid") }

// Stop freezes the main process of the server: connections are accepted by the system, but not by
// the server. Processes of connections that exist continue.
func (s *Server) Stop(t testing.TB) { s.signal(t, freeze) }

// Continue ends a Stop.
func (s *Server) Continue(t testing.TB) { s.signal(t, thaw) }

// Restart starts the server again, on the same port, after Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	script, err := scriptFile()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "bash", script, "postgres", "start", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (s *Server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(s.pidFile())
	if errors.Is(err, os.ErrNotExist) {
		return // it has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(pid, signal); err != nil {
		t.Fatal(err)
	}
}
