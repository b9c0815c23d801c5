package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// limit bounds each step; a server starts in 2 s.
const limit = 2 * time.Minute

// sharedPostgres starts the server of all tests of a binary, unless $SIDENOTE_TEST_POSTGRES is the URL
// of one.
var sharedPostgres = sync.OnceValues(func() (*process, error) {
	if address := os.Getenv("SIDENOTE_TEST_POSTGRES"); address != "" {
		return &process{url: address}, nil
	}
	return runEngine("postgres")
})

// Database returns the URL of a new database, with a superuser, in a Postgres with pgvector that the
// tests of a binary share. It is dropped when the test ends. Where there is no Postgres the test is
// skipped, but fails if $CI is set.
func Database(t testing.TB) string {
	t.Helper()
	s, err := sharedPostgres()
	if err != nil {
		missing(t, err)
	}
	return newDatabase(t, s.url)
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

// A Postgres is a server of one test, for tests that stop it.
type Postgres struct {
	*process
	URL string // of its main database, with a superuser
}

// StartPostgres starts a server for one test.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p, err := runEngine("postgres")
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(p.end)
	return &Postgres{p, p.url}
}

// Kill ends the server at once, as a crash does: what was committed is recovered by Restart.
func (s *Postgres) Kill(t testing.TB) {
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

func (s *Postgres) pidFile() string { return filepath.Join(s.dir, "postgres", "postmaster.pid") }

// Stop freezes the main process of the server: connections are accepted by the system, but not by
// the server. Processes of connections that exist continue.
func (s *Postgres) Stop(t testing.TB) { s.signal(t, freeze) }

// Continue ends a Stop.
func (s *Postgres) Continue(t testing.TB) { s.signal(t, thaw) }

// Restart starts the server again, on the same port, after Kill.
func (s *Postgres) Restart(t testing.TB) { s.restart(t, "postgres", "unlimited") }

// RestartFull is Restart of a server that cannot write beyond some kilobytes in a file, as if its disk
// was full.
func (s *Postgres) RestartFull(t testing.TB, kilobytes int) {
	s.restart(t, "postgres", strconv.Itoa(kilobytes))
}

// Authenticate restarts the server, which then asks all users but postgres for their passwords.
func (s *Postgres) Authenticate(t testing.TB) {
	t.Helper()
	s.Kill(t)
	const rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(s.dir, "postgres", "pg_hba.conf"), []byte(rules), 0o600); err != nil { // the owner stays
		t.Fatal(err)
	}
	s.Restart(t)
}

func (s *Postgres) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	s.signalTo(t, s.pidFile(), signal)
}

// pid returns the main process of the server; ok is false if it has ended.
func (s *Postgres) pid(t testing.TB) (pid int, ok bool) {
	t.Helper()
	return pidIn(t, s.pidFile())
}
