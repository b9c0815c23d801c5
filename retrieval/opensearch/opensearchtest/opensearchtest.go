// Package opensearchtest runs an OpenSearch for tests.
package opensearchtest

import (
	"bufio"
	"bytes"
	"fmt"
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
	u, err := started()
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	return u
}

// started is a constant of the test binary: the server that it started, which ends with it.
var started = sync.OnceValues(func() (*url.URL, error) {
	if set := os.Getenv("SIDENOTE_TEST_OPENSEARCH"); set != "" {
		return url.Parse(set)
	}
	line, err := start()
	if err != nil {
		return nil, fmt.Errorf("no OpenSearch for tests: %w", err)
	}
	return url.Parse(line)
})

// start runs deploy/engines.sh, which stops the server when its standard input ends: the write end of
// that pipe stays open for as long as this process lives.
func start() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(file), "..", "..", "..", "deploy", "engines.sh")
	dir, err := os.MkdirTemp("", "sidenote-opensearch-")
	if err != nil {
		return "", err
	}
	run := exec.Command("bash", script, "opensearch", "run", dir)
	var said bytes.Buffer
	run.Stderr = &said
	if _, err := run.StdinPipe(); err != nil {
		return "", err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := run.Start(); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = run.Wait()
		return "", fmt.Errorf("%s", strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(line), nil
}
