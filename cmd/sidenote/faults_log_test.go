//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// P11: if the reader of the log goes away, the process keeps answering and counts the lost lines.
func TestLogWhoseReaderLeft(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	data, admin := free(t), free(t)
	cmd := exec.Command(released(t), "serve", "--upstream", "http://127.0.0.1:9", "--listen", data, "--admin", admin, "--state", t.TempDir())
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = w.Close()

	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil { // it listens by then
		t.Fatalf("%q, %v", line, err)
	}
	_ = r.Close()

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	lost := regexp.MustCompile(`(?m)^sidenote_log_dropped_total [1-9]`)
	for lines := ""; !lost.MatchString(lines); {
		select {
		case err := <-ended:
			t.Fatalf("the process ended: %v", err)
		case <-tick.C:
		}
		get(t, "http://"+data+"/v1/models")
		_, lines = get(t, "http://"+admin+"/metrics")
	}
}

func free(t *testing.T) string {
	t.Helper()
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
