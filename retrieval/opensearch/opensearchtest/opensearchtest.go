// Package opensearchtest runs an OpenSearch for tests.
package opensearchtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// URL returns the address of an OpenSearch that the tests of a binary share. It is
// $SIDENOTE_TEST_OPENSEARCH, or else that of a server which deploy/engines.sh starts and which ends
// with the test binary. Where none can be had the test is skipped, but fails if $CI is set.
func URL(tb testing.TB) *url.URL {
	tb.Helper()
	server, err := started()
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	return server.url
}

// A server ends when its standard input is closed, so that end of the pipe must stay reachable.
type server struct {
	url   *url.URL
	stdin io.Closer
}

// started is a constant of the test binary: the server that it started, which ends with it.
var started = sync.OnceValues(func() (*server, error) {
	if set := os.Getenv("SIDENOTE_TEST_OPENSEARCH"); set != "" {
		u, err := url.Parse(set)
		return &server{url: u}, err
	}
	s, err := start()
	if err != nil {
		return nil, fmt.Errorf("no OpenSearch for tests: %w", err)
	}
	return s, nil
})

// start runs deploy/engines.sh.
func start() (*server, error) {
	_, file, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(file), "..", "..", "..", "deploy", "engines.sh")
	dir, err := os.MkdirTemp("", "sidenote-opensearch-")
	if err != nil {
		return nil, err
	}
	run := exec.Command("bash", script, "opensearch", "run", dir)
	var said bytes.Buffer
	run.Stderr = &said
	stdin, err := run.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := run.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = run.Wait()
		return nil, fmt.Errorf("%s", strings.TrimSpace(said.String()))
	}
	u, err := url.Parse(strings.TrimSpace(line))
	return &server{u, stdin}, err
}
