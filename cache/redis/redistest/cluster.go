package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

const slots = 16384 // of every Redis cluster

// StartCluster starts a cluster of n masters without replicas that share the slots
// evenly, in order. It waits until each of them sees the whole cluster, which takes
// Redis two seconds. The cluster notices a killed node in about one second.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		s := Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
		s.mustOK("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
		// With equal epochs the nodes would first have to agree on new ones.
		s.mustOK("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		nodes[i] = s
	}
	for i, s := range nodes {
		for _, other := range nodes[i+1:] {
			host, port := other.hostPort()
			s.mustOK("CLUSTER", "MEET", host, port)
		}
	}
	for _, s := range nodes {
		s.WaitFor("cluster_state:ok", "CLUSTER", "INFO")
	}
	return nodes
}

// StartSentinel starts a sentinel that watches master under a name. It alone decides,
// after 300 ms, that the master is down, and makes a replica the new one. The replicas
// must be connected to master before: a sentinel asks for them at the start, and later
// only every ten seconds.
func StartSentinel(t testing.TB, master *Server, name string) *Server {
	t.Helper()
	host, port := master.hostPort()
	conf := fmt.Sprintf("sentinel monitor %[1]s %s %s 1\n"+
		"sentinel down-after-milliseconds %[1]s 300\n"+
		"sentinel failover-timeout %[1]s 1000\n", name, host, port)
	if master.Password != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %s\n", name, master.Password)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: dir, first: []string{file}, args: []string{"--sentinel"}}
	s.begin()
	return s
}

func (s *Server) hostPort() (host, port string) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	return host, port
}

func (s *Server) mustOK(args ...string) {
	s.t.Helper()
	if got := s.Do(args...); got != "OK" {
		s.t.Fatalf("%q to redis-server: got %q, want OK", args, got)
	}
}
