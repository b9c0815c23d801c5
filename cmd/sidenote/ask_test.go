package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A canceled question ends at once, and so do all calls made for it, in whatever stage.
func TestAskStops(t *testing.T) {
	docs := writeFiles(t, map[string][]byte{"leave.md": []byte("Every parent may take 16 weeks of parental leave.")})
	for _, more := range [][]string{{"--policy", "careful"}, nil} {
		arrived, left := make(chan struct{}), make(chan struct{})
		up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 1<<20)) // the server notices that a client leaves once the body is read
			close(arrived)
			<-r.Context().Done()
			close(left)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs strings.Builder
		code := make(chan int, 1)
		go func() {
			args := append([]string{"ask", "How many weeks of parental leave?", "--upstream", up.URL, "--knowledge", docs, "--model", "m", "--state", ":memory:"}, more...)
			code <- Run(ctx, args, strings.NewReader(""), &out, &errs, noEnv)
		}()
		within := time.After(20 * time.Second)
		for _, waits := range []struct {
			what string
			is   chan struct{}
			then func()
		}{{"the question arrives", arrived, cancel}, {"the upstream is left", left, func() {}}} {
			select {
			case <-waits.is:
				waits.then()
			case <-within:
				t.Fatalf("%v: not in time: %s", more, waits.what)
			}
		}
		if got := <-code; got != exitFailed || out.String() != "" || !strings.Contains(errs.String(), "stopped before the answer had ended") {
			t.Errorf("%v: exit code %d, %q, %q", more, got, out.String(), errs.String())
		}
		up.Close()
	}
}
