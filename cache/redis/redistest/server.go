// Package redistest gives tests a real Redis, and a network that fails on request. It
// speaks to Redis without a client library, so that tests can judge one.
//
// Its functions end the test when they fail, so they must be called in the test's own
// goroutine, except where they say otherwise. What they start ends with the test.
package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	startTime = 15 * time.Second // limit for a server to start; it needs about 20 ms
	doTime    = 30 * time.Second
	waitTime  = 20 * time.Second
)

// errPortTaken is the error of a server whose port is in use.
var errPortTaken = errors.New("the port is taken")

// A Server is a redis-server process of one test.
type Server struct {
	// Password is the one that Do logs in with. Start takes it from --requirepass; a
	// test that changes it later sets it here.
	Password string

	t     testing.TB
	dir   string
	first []string // arguments before the port
	args  []string // arguments after the port; where they repeat one, they win
	tls   *tls.Config
	port  int
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a redis-server with args added to its command line, and waits until it
// answers. It stores nothing on disk unless args say so, as in
//
//	Start(t, "--appendonly", "yes")
//	Start(t, "--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru")
//	Start(t, "--requirepass", "secret")
//
// and it is a replica of another with
//
//	host, port, _ := net.SplitHostPort(master.Addr())
//	replica := Start(t, "--replicaof", host, port)
//	replica.WaitFor("master_link_status:up", "INFO", "replication")
//
// Without redis-server the test is skipped; in CI it fails.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, first: inMemory(), args: args}
	s.begin()
	return s
}

// inMemory returns the arguments for a server that stores nothing on disk and starts to
// copy to a replica without waiting for more replicas.
func inMemory() []string {
	return []string{"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}
}

// begin starts the server on a free port for the first time.
func (s *Server) begin() {
	s.t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		const missing = "redis-server is missing: apt-get install redis-server"
		if os.Getenv("CI") != "" {
			s.t.Fatal(missing)
		}
		s.t.Skip(missing)
	}
	if s.dir == "" {
		s.dir = s.t.TempDir()
	}
	for i, arg := range s.args {
		if arg == "--requirepass" && i+1 < len(s.args) {
			s.Password = s.args[i+1]
		}
	}
	s.t.Cleanup(s.Kill)
	var err error
	for range 5 {
		free := listen(s.t)
		s.port = free.Addr().(*net.TCPAddr).Port
		_ = free.Close() // another process may take the port, hence the rounds
		if err = s.run(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	out, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	args := append([]string{}, s.first...)
	args = append(args, "--bind", "127.0.0.1", "--daemonize", "no", "--dir", s.dir)
	if s.tls == nil {
		args = append(args, "--port", strconv.Itoa(s.port))
	} else {
		args = append(args, "--port", "0", "--tls-port", strconv.Itoa(s.port))
	}
	cmd, ended := exec.Command("redis-server", append(args, s.args...)...), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	endWithTests(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // killed, or the log says why
		close(ended)
	}()
	return s.awaitAnswer()
}

func (s *Server) awaitAnswer() error {
	limit := time.After(startTime)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !s.answers() {
		select {
		case <-s.ended:
			log := s.log()
			if strings.Contains(log, "Address already in use") {
				return fmt.Errorf("redis-server on port %d: %w", s.port, errPortTaken)
			}
			return fmt.Errorf("redis-server ended:\n%s", log)
		case <-limit:
			return fmt.Errorf("redis-server does not answer after %v:\n%s", startTime, s.log())
		case <-tick.C:
		}
	}
	return nil
}

// answers tells whether this very process serves: another one could have taken the port
// first and would answer as well.
func (s *Server) answers() bool {
	info, err := s.command(time.Second, "INFO", "server")
	if err != nil {
		return false
	}
	if strings.HasPrefix(info, "-NOAUTH") {
		return true // it has users, and Do is not one of them
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)) {
		return false
	}
	pong, err := s.command(time.Second, "PING")
	return err == nil && pong == "PONG" // otherwise it is still loading
}

func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Addr is host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL is redis://host:port/0, or rediss:// with TLS, and has no password.
func (s *Server) URL() string {
	if s.tls != nil {
		return "rediss://" + s.Addr() + "/0"
	}
	return "redis://" + s.Addr() + "/0"
}

// Kill ends the server at once, also a stopped one, and waits until it is gone.
func (s *Server) Kill() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	<-s.ended
}

// Restart starts the server again with the same port, folder and arguments. It kills a
// running one first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
}

// Stop freezes the server: the system still accepts connections and bytes for it, but
// nothing is answered.
func (s *Server) Stop() {
	s.t.Helper()
	if err := freeze(s.cmd.Process); err != nil {
		s.t.Fatal(err)
	}
}

// Continue ends a Stop.
func (s *Server) Continue() {
	s.t.Helper()
	if err := thaw(s.cmd.Process); err != nil {
		s.t.Fatal(err)
	}
}

// Do runs one command over a connection of its own and returns the reply as
// text: strings as they are, integers in decimal, nil as "", an error as "-ERR
// ...", and the items of an array joined by line breaks. The test ends when
// there is no reply within 5 s.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	reply, err := s.command(doTime, args...)
	if err != nil {
		s.t.Fatalf("%q to redis-server: %v", args, err)
	}
	return reply
}

// WaitFor repeats a command until its reply contains want.
func (s *Server) WaitFor(want string, args ...string) {
	s.t.Helper()
	limit := time.After(waitTime)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		reply, err := s.command(doTime, args...)
		if err == nil && strings.Contains(reply, want) {
			return
		}
		select {
		case <-limit:
			s.t.Fatalf("%q to redis-server: got %q, %v after %v, want %q in it", args, reply, err, waitTime, want)
		case <-tick.C:
		}
	}
}

func (s *Server) command(limit time.Duration, args ...string) (string, error) {
	deadline := time.Now().Add(limit)
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if s.tls != nil {
		conn = tls.Client(conn, s.tls)
	}
	return roundTrip(conn, s.Password, args)
}

// listen listens on a free port. It uses ports below those that systems assign by
// themselves, so that a port which is released for a while is still free afterwards,
// and below 55536, because nodes of a cluster talk to each other on the port 10000
// above.
func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	for range 100 {
		ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000 + rand.IntN(10000)})
		if err == nil {
			return ln
		}
	}
	t.Fatal("found no free port")
	return nil
}
