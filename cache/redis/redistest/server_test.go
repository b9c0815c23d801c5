package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/cache/redis/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReplies(t *testing.T) {
	s := redistest.Start(t)
	awkward := "\x00\r\n$5\r\n\xff"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"PONG", []string{"PING"}},
		{"OK", []string{"SET", "k", awkward}},
		{awkward, []string{"GET", "k"}},
		{"", []string{"GET", "absent"}},
		{"", []string{"GET", ""}},
		{"3", []string{"RPUSH", "list", "a", "", "c"}},
		{"a\n\nc", []string{"LRANGE", "list", "0", "-1"}},
		{"1\n2\n\n-3", []string{"EVAL", "return {1,{2,false},-3}", "0"}},
		{"", []string{"LRANGE", "absent", "0", "-1"}},
		{"-ERR value is not an integer or out of range", []string{"INCR", "k"}},
	} {
		if got := s.Do(c.args...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
	if want := "redis://" + s.Addr() + "/0"; s.URL() != want {
		t.Errorf("URL %q, want %q", s.URL(), want)
	}
}

func TestNothingIsKeptByDefault(t *testing.T) {
	s := redistest.Start(t)
	addr := s.Addr()
	s.Do("SET", "k", "v")
	s.Kill()
	if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		conn.Close()
		t.Error("a killed server accepts connections")
	}
	s.Restart()
	if got := s.Do("GET", "k"); got != "" || s.Addr() != addr {
		t.Errorf("after a restart: got %q at %s, want nothing at %s", got, s.Addr(), addr)
	}
	s.Restart() // kills by itself
	s.Do("PING")
}

func TestArguments(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "5mb")
	if got := s.Do("CONFIG", "GET", "maxmemory"); got != "maxmemory\n5242880" {
		t.Errorf("got %q", got)
	}
	s.Do("SET", "k", "v")
	s.Kill()
	s.Restart()
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("from the append only file: got %q, want v", got)
	}
}

func TestPassword(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	if got := s.Do("SET", "k", "v"); got != "OK" {
		t.Errorf("with the password: got %q", got)
	}
	s.Do("CONFIG", "SET", "requirepass", "other")
	if got := s.Do("GET", "k"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("with the old password: got %q", got)
	}
	s.Password = "other"
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("with the new password: got %q", got)
	}
	s.Password = "secret"
	s.Restart()
}

func TestStopAndContinue(t *testing.T) {
	needsLinux(t)
	s := redistest.Start(t)
	s.Stop()
	conn := dial(t, s.Addr(), 100*time.Millisecond)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !timedOut(err) {
		t.Errorf("a stopped server: got %d bytes, %v", n, err)
	}
	s.Continue()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	read(t, conn, "+PONG\r\n")
	s.Stop()
	s.Restart() // ends a stopped one
	s.Stop()    // and so does the end of the test
}

func TestTLS(t *testing.T) {
	s, caFile := redistest.StartTLS(t, "--requirepass", "secret")
	if got := s.Do("PING"); got != "PONG" {
		t.Errorf("got %q", got)
	}
	if want := "rediss://" + s.Addr() + "/0"; s.URL() != want {
		t.Errorf("URL %q, want %q", s.URL(), want)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in the CA file")
	}
	for _, c := range []struct {
		config *tls.Config
		works  bool
	}{
		{&tls.Config{RootCAs: roots, ServerName: "localhost"}, true},
		{&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, true},
		{&tls.Config{RootCAs: roots, ServerName: "redis.example"}, false},
		{&tls.Config{ServerName: "localhost"}, false},
	} {
		conn := tls.Client(dial(t, s.Addr(), 5*time.Second), c.config)
		if err := conn.Handshake(); (err == nil) != c.works {
			t.Errorf("handshake with %q: %v, want it to work: %v", c.config.ServerName, err, c.works)
		}
	}
}

func TestCluster(t *testing.T) {
	nodes := redistest.StartCluster(t, 3)
	redirected := 0
	for _, s := range nodes {
		if info := s.Do("CLUSTER", "INFO"); !strings.Contains(info, "cluster_size:3") {
			t.Errorf("got %q", info)
		}
		switch got := s.Do("SET", "k", "v"); {
		case strings.HasPrefix(got, "-MOVED"):
			redirected++
		case got != "OK":
			t.Errorf("got %q", got)
		}
	}
	if redirected != 2 {
		t.Errorf("%d of 3 nodes say that the key is elsewhere, want 2", redirected)
	}
	nodes[2].Kill()
	nodes[0].WaitFor("cluster_state:fail", "CLUSTER", "INFO")
	nodes[2].Restart()
	nodes[0].WaitFor("cluster_state:ok", "CLUSTER", "INFO")
}

func TestSentinel(t *testing.T) {
	master := redistest.Start(t, "--requirepass", "secret", "--masterauth", "secret")
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host, port, "--requirepass", "secret", "--masterauth", "secret")
	replica.WaitFor("master_link_status:up", "INFO", "replication")
	_, replicaPort, err := net.SplitHostPort(replica.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.StartSentinel(t, master, "main")
	sentinel.WaitFor(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
	sentinel.WaitFor("slaves=1", "INFO", "sentinel")
	master.Kill()
	sentinel.WaitFor(replicaPort, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
	replica.WaitFor("role:master", "INFO", "replication")
}

func TestServerIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		tb := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			redistest.Start(tb)
		}()
		<-done
		if want += " redis-server is missing: apt-get install redis-server"; tb.said != want {
			t.Errorf("with CI=%q: got %q, want %q", ci, tb.said, want)
		}
	}
}

// The error for a wrong argument quotes what redis-server says about it.
func TestServerDoesNotStart(t *testing.T) {
	redistest.Start(t) // or skip
	tb := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		redistest.Start(tb, "--no-such-thing", "1")
	}()
	<-done
	if !strings.HasPrefix(tb.said, "fatal ") || !strings.Contains(tb.said, "Bad directive") {
		t.Errorf("got %q", tb.said)
	}
}

// A recorder is a testing.TB that records how it ended.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatal(args ...any) { r.end("fatal", args) }
func (r *recorder) Skip(args ...any)  { r.end("skip", args) }

func (r *recorder) end(how string, args []any) {
	switch arg := args[0].(type) {
	case string:
		r.said = how + " " + arg
	case error:
		r.said = how + " " + arg.Error()
	}
	runtime.Goexit()
}

func needsLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
}
