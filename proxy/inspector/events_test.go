package inspector_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
)

// An events is an open stream of events.
type events struct {
	t      *testing.T
	code   int
	lines  *bufio.Scanner
	cancel func()
}

// follow opens the events of an address, with header lines.
func follow(t *testing.T, address string, lines ...string) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	s := bufio.NewScanner(resp.Body)
	return &events{t, resp.StatusCode, s, cancel}
}

var (
	idOf   = regexp.MustCompile(`href="/requests/([^"]+)"`)
	dataOf = regexp.MustCompile(`(?m)^data: ?`)
)

// next returns the next event: its kind, its data and the ids of the requests in it.
func (e *events) next() (kind, data string, ids []string) {
	e.t.Helper()
	var text strings.Builder
	for e.lines.Scan() {
		if line := e.lines.Text(); line != "" {
			text.WriteString(line + "\n")
			continue
		}
		if _, rest, ok := strings.Cut("\n"+text.String(), "\nevent: "); ok {
			kind, data, _ = strings.Cut(rest, "\n")
			for _, m := range idOf.FindAllStringSubmatch(data, -1) {
				ids = append(ids, m[1])
			}
			return kind, strings.TrimSpace(dataOf.ReplaceAllString(data, "")), ids
		}
		text.Reset() // a comment, or the retry interval
	}
	e.t.Fatalf("the stream ends: %v", e.lines.Err())
	return "", "", nil
}

// Requests are sent as they end, newest first, and only those that match the filter.
func TestEvents(t *testing.T) {
	r := kept("a", "b")
	address := serve(t, inspector.Data{Requests: r}, nil) + "/requests/events"
	e := follow(t, address+"?from=1")
	if kind, data, ids := e.next(); kind != "rows" || !slices.Equal(ids, []string{"b"}) || !strings.HasPrefix(data, "<tr>") || !strings.HasSuffix(data, "</tr>") {
		t.Errorf("%s of %q: %s", kind, ids, data)
	}
	r.Record(requestOf("c"))
	if _, _, ids := e.next(); !slices.Equal(ids, []string{"c"}) {
		t.Errorf("as it ends: %q", ids)
	}
	refused := refused()
	filtered := follow(t, address+"?from=0&outcome=refused&text=INVALID-api")
	r.Record(requestOf("d"))
	r.Record(refused)
	if _, _, ids := filtered.next(); !slices.Equal(ids, []string{"refused"}) {
		t.Errorf("filtered: %q", ids)
	}
	// A browser that lost the connection continues where it was, whatever the address says.
	if _, _, ids := follow(t, address+"?from=0", "Last-Event-ID: 4").next(); !slices.Equal(ids, []string{"refused"}) {
		t.Errorf("again: %q", ids)
	}
	// A page that is older than the process gets all requests.
	if _, _, ids := follow(t, address+"?from=1000").next(); !slices.Equal(ids, []string{"refused", "d", "c", "b", "a"}) {
		t.Errorf("after a restart: %q", ids)
	}
}

// A page that is too slow is told how many requests it missed.
func TestEventsAreLost(t *testing.T) {
	r := explain.New(100, explain.BodiesOff)
	for i := range 1000 {
		of := requestOf(strconv.Itoa(i))
		if i%2 == 0 {
			of.Tenant = "other"
		}
		r.Record(of)
	}
	address := serve(t, inspector.Data{Requests: r}, nil) + "/requests/events"
	for query, want := range map[string]struct {
		lost        string
		ids         int
		first, last string
	}{
		"?from=0":                {"975", 25, "999", "975"},
		"?from=950":              {"25", 25, "999", "975"},
		"?from=950&tenant=other": {"", 25, "998", "950"},
		"?from=940&tenant=other": {"5", 25, "998", "950"},
	} {
		e := follow(t, address+query)
		kind, data, ids := e.next()
		if want.lost != "" {
			if kind != "lost" || data != want.lost {
				t.Errorf("%s: %s %s", query, kind, data)
			}
			_, _, ids = e.next()
		}
		if len(ids) != want.ids || ids[0] != want.first || ids[len(ids)-1] != want.last {
			t.Errorf("%s: %q", query, ids)
		}
	}
}

// The number of followers is limited; a slot is free as soon as one leaves.
func TestFollowersAreBounded(t *testing.T) {
	address := serve(t, inspector.Data{Requests: kept()}, nil) + "/requests/events"
	var all []*events
	for range 16 {
		e := follow(t, address)
		if e.code != 200 {
			t.Fatalf("%d of them: %d", len(all), e.code)
		}
		all = append(all, e)
	}
	if a := ask(t, "GET", address, ""); a.code != 503 || a.Get("Retry-After") != "10" {
		t.Errorf("one more: %v", a)
	}
	all[0].cancel()
	for follow(t, address).code != 200 { // until the server has noticed that it left
	}
}

// A process that stops does not wait for pages.
func TestEventsEndWithTheProcess(t *testing.T) {
	h := &admin.Handler{Inspector: inspector.New(inspector.Data{Requests: kept("a")}, inspector.NewSessions())}
	s := admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	e := follow(t, fmt.Sprintf("http://%s/requests/events?from=0", ln.Addr()))
	e.next()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if e.lines.Scan() || e.lines.Err() != nil {
		t.Errorf("%q, %v", e.lines.Text(), e.lines.Err())
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// If no requests are kept, there are no events.
func TestEventsOfNothing(t *testing.T) {
	if a := ask(t, "GET", serve(t, inspector.Data{}, nil)+"/requests/events", ""); a.code != 404 {
		t.Errorf("%v", a)
	}
}

// BenchmarkEvent measures the cost of one event; under load there is at most one per second.
func BenchmarkEvent(b *testing.B) {
	r := explain.New(1000, explain.BodiesOff)
	for i := range 1000 {
		r.Record(requestOf(strconv.Itoa(i)))
	}
	for _, text := range []string{"", "injected", "nothing"} {
		b.Run("text="+text, func(b *testing.B) {
			write := inspector.WriteEvent(r, text, io.Discard)
			for b.Loop() {
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
