package enginetest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// OpenSearch returns the address of an OpenSearch that the tests of a binary share. It is
// $SIDENOTE_TEST_OPENSEARCH, or else that of a server that ends with the test binary. Where none can be
// had the test is skipped, but fails if $CI is set.
func OpenSearch(t testing.TB) *url.URL {
	t.Helper()
	return address(t, sharedOpenSearch)
}

// Elasticsearch returns the address of an Elasticsearch as OpenSearch does; it may be in
// $SIDENOTE_TEST_ELASTICSEARCH.
func Elasticsearch(t testing.TB) *url.URL {
	t.Helper()
	return address(t, sharedElasticsearch)
}

func address(t testing.TB, shared func() (*process, error)) *url.URL {
	t.Helper()
	p, err := shared()
	if err != nil {
		missing(t, err)
	}
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var (
	sharedOpenSearch    = sync.OnceValues(func() (*process, error) { return givenOrRun("SIDENOTE_TEST_OPENSEARCH", "opensearch") })
	sharedElasticsearch = sync.OnceValues(func() (*process, error) { return givenOrRun("SIDENOTE_TEST_ELASTICSEARCH", "elasticsearch") })
)

// givenOrRun returns the engine whose address a variable holds, or runs one.
func givenOrRun(variable, name string) (*process, error) {
	if address := os.Getenv(variable); address != "" {
		return &process{url: address}, nil
	}
	return runEngine(name)
}

// A Node is a server that ends with one test, which may kill it and start it again.
type Node struct{ *process }

// StartOpenSearch starts an OpenSearch for one test.
func StartOpenSearch(t testing.TB) *Node {
	t.Helper()
	p, err := runEngine("opensearch")
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(p.end)
	return &Node{p}
}

// URL returns the address of the server, which Restart changes.
func (n *Node) URL(t testing.TB) *url.URL {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, "url"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Kill ends the server at once, as a crash does.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	address := n.URL(t).Host
	n.signal(t, syscall.SIGKILL)
	for {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return // so its files are closed too
		}
		_ = c.Close()
	}
}

// Stop freezes the server: the system accepts connections, and nothing answers.
func (n *Node) Stop(t testing.TB) { n.signal(t, freeze) }

// Continue ends a Stop.
func (n *Node) Continue(t testing.TB) { n.signal(t, thaw) }

// Restart starts the server again after Kill, at another port.
func (n *Node) Restart(t testing.TB) { n.restart(t, "opensearch", "unlimited") }

func (n *Node) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	n.signalTo(t, filepath.Join(n.dir, "pid"), signal)
}
