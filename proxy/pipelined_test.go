package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// answersWanted returns how many answers TestPipelinedTenants reads.
func answersWanted() int {
	switch {
	case os.Getenv("SIDENOTE_LONG") != "":
		return 1_000_000
	case testing.Short():
		return 4_000
	}
	return 100_000
}

// C16, T03, T17: two tenants share connections, each with pipelined requests. No answer contains
// anything of the other tenant: no documents, key or questions. The upstream echoes what it got.
func TestPipelinedTenants(t *testing.T) {
	const connections, ahead = 8, 16
	u := newUpstream(t, func(s seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s\n%s", len(s.header("authorization"))+1+len(s.body), s.header("authorization"), s.body)
	})
	acme, beta := policyOf("acme", nil), policyOf("beta", nil)
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("canary-key-acme", acme), keyOf("canary-key-beta", beta)}},
	}, nil)
	go func() { // the test does not check these, but must not block on them
		for {
			select {
			case <-g.reports:
			case <-u.seen:
			case <-t.Context().Done():
				return
			}
		}
	}()
	var callers sync.WaitGroup
	defer callers.Wait()
	for n := range connections {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{}, ahead) // requests whose answers were not read yet
		done := make(chan struct{})
		tenantOf := func(i int) (own, other string) {
			if (i*7+n)%3 == 0 {
				return "acme", "beta"
			}
			return "beta", "acme"
		}
		question := func(i int) string {
			own, _ := tenantOf(i)
			return fmt.Sprintf("canary-question-%s-%d-%d.%s", own, n, i, strings.Repeat("x", i*17%900))
		}
		callers.Go(func() {
			for i := range answersWanted() / connections {
				select {
				case asked <- struct{}{}:
				case <-done:
					return
				}
				own, _ := tenantOf(i)
				body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, question(i))
				if _, err := io.WriteString(c, chatRequest(body, "Authorization: Bearer canary-key-"+own)); err != nil {
					return // the reader reports why
				}
			}
		})
		callers.Go(func() {
			defer close(done)
			defer c.Close()
			in := bufio.NewReader(c)
			for i := range answersWanted() / connections {
				own, other := tenantOf(i)
				err := c.SetReadDeadline(time.Now().Add(patience))
				got, readErr := readAnswer(in)
				if err := errors.Join(err, readErr); err != nil {
					t.Errorf("answer %d of connection %d: %v", i, n, err)
					return
				}
				if strings.Contains(got, other) || !strings.HasPrefix(got, "Bearer canary-key-"+own+"\n") ||
					strings.Count(got, "canary of "+own+" in kb-"+own) != 1 || strings.Count(got, question(i)) != 1 || strings.Count(got, "canary") != 3 {
					t.Errorf("answer %d of connection %d, for %s: %s", i, n, own, got)
					return
				}
				<-asked
			}
		})
	}
}

func readAnswer(in *bufio.Reader) (string, error) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(b), err
}
