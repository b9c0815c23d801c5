package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
)

// talking returns a dialogue with these answers.
func talking(t testing.TB, answers ...string) answertest.Dialogue {
	t.Helper()
	d := answertest.Dialogue{Name: t.Name()}
	for _, text := range answers {
		a, err := answertest.ParseAnswer(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Answers = append(d.Answers, a)
	}
	return d
}

const (
	searchCall = `call search_knowledge {"query":"parental leave"}`
	hangsCall  = `call search_knowledge {"query":"hangs"}`
	weeksBody  = `{"model":"m","messages":[{"role":"user","content":"How long is leave?"}]}`
)

var weeksStream = strings.Replace(weeksBody, "{", `{"stream":true,`, 1)

// A client's idempotency key is sent with its own request, the first, only: an upstream that knows
// it would answer the next round like the first.
func TestRoundsAreRequestsOfTheirOwn(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		a := answertest.Answer{Text: "16 weeks", Finish: "stop"}
		if s.header("Idempotency-Key") != "" {
			a = answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"parental leave"}`}}}
		}
		body, kind := answertest.Bytes(a, plain(), strings.Contains(s.body, `"stream":true`))
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)
	})
	g := start(t, withTools(t, strings.TrimSuffix(u.url.String(), "/v1"), nil), nil)
	for _, body := range []string{weeksBody, weeksStream} {
		if _, got := g.post(t, body, "Idempotency-Key: key-1", "X-Own: kept"); !strings.Contains(got, "16 weeks") {
			t.Errorf("%s: %s", body, got)
		}
		for _, key := range []string{"key-1", ""} {
			if s := u.next(t); s.header("Idempotency-Key") != key || s.header("X-Own") != "kept" {
				t.Errorf("%s went up with %q", s.body, s.head)
			}
		}
	}
}

// leaveCases returns dialogues that stop at the point where a client leaves.
func leaveCases(t testing.TB) map[string]answertest.Dialogue {
	return map[string]answertest.Dialogue{
		"the first round is silent":       talking(t, "wait"),
		"the first round hangs in text":   talking(t, "text Half\nwait"),
		"the first round hangs in a call": talking(t, "text Half\n"+searchCall+"\nwait"),
		"the search hangs":                talking(t, hangsCall),
		"the second search hangs":         talking(t, searchCall, "text Again\n"+hangsCall),
		"the second round is silent":      talking(t, searchCall, "wait"),
		"the third round hangs in text":   talking(t, searchCall, "text A\n"+searchCall, "text Half\nwait"),
	}
}

// leave plays a dialogue until it hangs, makes the client leave, and returns how long it took
// until the upstream's connection was closed or the search ended.
func leave(t testing.TB, u *answertest.Upstream, hangs chan error, close func() error) time.Duration {
	t.Helper()
	searching := false
	select {
	case <-u.Waiting:
	case <-hangs:
		searching = true
	case <-time.After(patience):
		t.Fatal("it does not hang")
	}
	began := time.Now()
	if err := close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-u.Left:
	case err := <-hangs:
		if !searching || !errors.Is(err, context.Canceled) {
			t.Errorf("a search ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	return time.Since(began)
}

// If a client leaves in any round, at any point, the upstream's work and the search are cancelled,
// no other round begins, and nothing stays held.
func TestToolsClientLeaves(t *testing.T) {
	atBase(t)
	for name, d := range leaveCases(t) {
		for _, body := range []string{weeksBody, weeksStream} {
			t.Run(fmt.Sprintf("%s/%t", name, body == weeksStream), func(t *testing.T) {
				hangs := make(chan error)
				u := answertest.Start(t, d, plain())
				cfg := withTools(t, u.URL, nil)
				cfg.Tools.Box.Retriever = staff{hangs}
				g := start(t, cfg, nil)
				c := g.dial(t)
				if _, err := io.WriteString(c, chatRequest(body)); err != nil {
					t.Fatal(err)
				}
				leave(t, u, hangs, c.Close)
				if rep := g.reports.next(t); rep.Client != report.ClientGoneFirst && rep.Client != report.ClientGoneStreaming {
					t.Errorf("report: %s, status %d", rep.Client, rep.Status)
				}
				if n := len(u.Requests()); n != len(d.Answers) {
					t.Errorf("%d requests went up, %d answers", n, len(d.Answers))
				}
				g.givesBack(t)
			})
		}
	}
}

// givesBack waits until g holds nothing.
func (g *rig) givesBack(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; runtime.Gosched() {
		held := proxy.Held(g.server)
		if slices.Max(slices.Collect(maps.Values(held))) == 0 {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("held: %v", held)
		}
	}
}

// After two hundred concurrent conversations, of which some are left, nothing stays held.
func TestToolsTogether(t *testing.T) {
	const many = 200
	atBase(t)
	u := newUpstream(t, func(s seen, w io.Writer) {
		a := answertest.Answer{Text: "It is 16 weeks.", Finish: "stop"}
		if !strings.Contains(s.body, `"role":"tool"`) {
			a = answertest.Answer{Text: "I look.", Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"parental leave"}`}}}
		}
		body, kind := answertest.Bytes(a, plain(), strings.Contains(s.body, `"stream":true`))
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body)
	})
	g := start(t, withTools(t, strings.TrimSuffix(u.url.String(), "/v1"), nil), nil)
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			body := weeksBody
			if n%2 == 0 {
				body = weeksStream
			}
			c := g.dial(t)
			defer c.Close()
			if _, err := io.WriteString(c, chatRequest(body)); err != nil {
				t.Error(err)
				return
			}
			if n%5 == 0 {
				return // the client leaves
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte("It is 16 weeks.")) {
				t.Errorf("%s %v", text, err)
			}
		})
	}
	all.Wait()
	for range many {
		g.reports.next(t)
	}
	g.givesBack(t)
}

// The body of a request is kept until its last round has been sent, whatever other requests are
// read meanwhile. With the build tag sidenote_debug, released memory is overwritten.
func TestToolsKeepTheBody(t *testing.T) {
	const large = 20_000
	arrived, release := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(s seen, w io.Writer) {
		a := answertest.Answer{Text: "It is 16 weeks.", Finish: "stop"}
		if strings.Contains(s.body, "the first") && !strings.Contains(s.body, `"role":"tool"`) {
			a = answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: `{"query":"parental leave"}`}}}
		}
		body, kind := answertest.Bytes(a, plain(), true)
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", kind, len(body), body)
		if a.Calls != nil {
			close(arrived)
			<-release
		}
		io.WriteString(w, "0\r\n\r\n")
	})
	g := start(t, withTools(t, strings.TrimSuffix(u.url.String(), "/v1"), nil), nil)
	asking := func(who string) string {
		return strings.Replace(weeksStream, "How long", who+strings.Repeat("x", large)+" How long", 1)
	}
	done := make(chan string)
	go func() {
		_, text := g.post(t, asking("the first"))
		done <- text
	}()
	wait(t, arrived)
	for range 20 {
		g.post(t, asking("another"))
	}
	close(release)
	if text := receive(t, done); !strings.Contains(text, "16 weeks") {
		t.Errorf("got %.300s", text)
	}
	var firsts []string
	for range 22 {
		if s := u.next(t); strings.Contains(s.body, "search_knowledge") && !strings.Contains(s.body, "another") {
			firsts = append(firsts, s.body)
		}
	}
	if len(firsts) != 2 || !strings.HasPrefix(firsts[1], asking("the first")[:large]) {
		t.Errorf("%d requests of the first went up, or with bytes that are not its own", len(firsts))
	}
}

// The buffered part of an answer is limited; beyond the limit the client gets an error.
func TestToolsHeldUp(t *testing.T) {
	huge := strings.Repeat("x", proxy.MaxWhole)
	call := func(arguments string) answertest.Answer {
		return answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "search_knowledge", Arguments: arguments}}}
	}
	pieces, oneDelta := plain(), plain()
	pieces.Pieces = answertest.Every(64 << 10)
	oneDelta.WholeCalls, oneDelta.Pieces = true, answertest.Every(100<<20)
	for _, row := range []struct {
		name   string
		answer answertest.Answer
		habit  answertest.Habit
		stream bool
		hide   bool
		status int
		want   string // part of the answer
	}{
		{name: "arguments in pieces", answer: call(`{"query":"` + huge), habit: pieces, stream: true, status: 200, want: `"code":"overloaded"`},
		{name: "arguments in one delta", answer: call(`{"query":"` + huge), habit: oneDelta, stream: true, status: 200, want: `"code":"overloaded"`},
		{name: "hidden text", answer: answertest.Answer{Text: huge, Finish: "stop"}, habit: pieces, stream: true, hide: true, status: 200, want: `"code":"overloaded"`},
		{name: "a whole answer passes", answer: call(`{"query":"` + huge), habit: pieces, status: 200, want: "search_knowledge"},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := answertest.Start(t, answertest.Dialogue{Name: row.name, Answers: []answertest.Answer{row.answer}}, row.habit)
			g := start(t, withTools(t, u.URL, func(p *tenant.Policy) { p.Tools.HidePreamble = row.hide }), nil)
			body := weeksBody
			if row.stream {
				body = weeksStream
			}
			resp, err := http.Post("http://"+g.addr+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode != row.status || !bytes.Contains(text, []byte(row.want)) {
				t.Errorf("%d %.300s … %.300s, %v", resp.StatusCode, text, text[max(0, len(text)-300):], err)
			}
			rep := g.reports.next(t)
			if cut := strings.Contains(row.want, "overloaded"); cut && (err == nil || len(text) > 1<<20 || rep.Outcome != report.Failed) || cut != (reporttest.Count(t, g.metrics, "sidenote_shed_total", "memory") == 1) {
				t.Errorf("%d bytes, %v, report %s %s", len(text), err, rep.Outcome, rep.Reason)
			}
			http.DefaultClient.CloseIdleConnections()
			g.givesBack(t)
		})
	}
}

// Answers that are buffered count against the memory for bodies.
func TestToolsWholeAnswersHaveTheirShare(t *testing.T) {
	limitMemory(t)
	const many = 8
	huge := answertest.Answer{Text: strings.Repeat("x", proxy.MaxWhole-1<<20), Finish: "stop"}
	body, kind := answertest.Bytes(huge, plain(), false)
	release := make(chan struct{})
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", kind, len(body), body[:len(body)-1])
		<-release
		io.WriteString(w, string(body[len(body)-1:]))
	})
	g := start(t, withTools(t, strings.TrimSuffix(u.url.String(), "/v1"), nil), nil)
	statuses := make(chan int, many)
	for range many {
		go func() {
			resp := g.raw(t, chatRequest(weeksBody))
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			statuses <- resp.StatusCode
		}()
	}
	var refused []int
	for range many - 4 { // bodies may take 32 MiB
		refused = append(refused, receive(t, statuses))
	}
	close(release)
	if slices.Max(refused) != 503 || slices.Min(refused) != 503 {
		t.Errorf("answers beyond the share of memory got %v", refused)
	}
	for range 4 {
		receive(t, statuses)
	}
	if resp := g.untilServed(t, chatRequest(weeksBody)); resp.StatusCode != 200 {
		t.Errorf("afterwards %d", resp.StatusCode)
	}
}
