package proxy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"sidenote/proxy"
	"sidenote/proxy/report"
)

// A stageFault is a failure of an upstream that is called for a stage.
type stageFault struct {
	name   string
	does   func(seen, io.Writer) // nil: refuses connections
	terms  func(*stagedTerms)    // changes the policy; nil: unchanged
	want   report.StageOutcome
	accept bool          // the answer begins with status 2xx
	last   bool          // only for a stage that streams
	idle   time.Duration // how long an answer may pause; 0: the default
	whole  bool          // only for a stage that does not stream
	cut    bool          // fails after text that a streaming client has got
}

// hang writes a text, and then nothing until the connection is closed.
func hang(text string) func(seen, io.Writer) {
	return func(_ seen, w io.Writer) {
		io.WriteString(w, text)
		_, _ = io.Copy(io.Discard, w.(io.Reader))
	}
}

// closing writes a text and closes the connection.
func closing(text string) func(seen, io.Writer) {
	return func(_ seen, w io.Writer) {
		io.WriteString(w, text)
		w.(io.Closer).Close()
	}
}

// whole answers with a head and a body.
func whole(head, body string) func(seen, io.Writer) {
	return func(_ seen, w io.Writer) { writeWhole(w, head, body) }
}

const (
	okStream  = "200 OK\r\nContent-Type: text/event-stream"
	openHead  = "HTTP/1.1 " + okStream + "\r\nConnection: close\r\n\r\n"
	roleEvent = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	textEvent = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Fin"},"finish_reason":null}]}` + "\n\n"
	stopEvent = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	errEvent  = `data: {"error":{"message":"overloaded","type":"server_error","param":null,"code":null}}` + "\n\n"
	doneEvent = "data: [DONE]\n\n"
)

// stageFaults returns the faults of a stage that does not stream (or before its text if it does),
// and those of a stage that streams.
func stageFaults() []stageFault {
	const soon = 10 * time.Second // the other stages take milliseconds, or a second on a busy machine; rows run in parallel
	stageTime := func(t *stagedTerms) { t.StageTimeout = soon }
	chainTime := func(t *stagedTerms) { t.Timeout = soon }
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, `{"choices":[{"message":{"role":"assistant","content":"packed"},"finish_reason":"stop"}]}`)
	z.Close()
	message := func(m string) string {
		return `{"id":"c","choices":[{"index":0,"message":` + m + `,"finish_reason":"stop"}]}`
	}
	return []stageFault{
		{name: "refused", want: report.StageConnect},
		{name: "429", does: whole("429 Slow\r\nContent-Type: application/json", `{"error":{"message":"slow down"}}`), want: report.StageLimited},
		{name: "500", does: whole("500 Oh\r\nContent-Type: application/json", `{"error":{"message":"down"}}`), want: report.StageServer},
		{name: "400", does: whole("400 Bad\r\nContent-Type: application/json", `{"error":{"message":"no"}}`), want: report.StageRefused},
		{name: "302", does: whole("302 Found\r\nLocation: http://127.0.0.1:1/", ""), want: report.StageServer},
		{name: "500 as HTML", does: whole("500 Oh\r\nContent-Type: text/html", "<html>"), want: report.StageServer},
		{name: "silent until the stage's time is up", does: hang(""), terms: stageTime, want: report.StageTimeout},
		{name: "silent until the chain's time is up", does: hang(""), terms: chainTime, want: report.StageTimeout},
		{name: "half a body until the stage's time is up", does: hang("HTTP/1.1 " + okJSON + "\r\nContent-Length: 1000\r\n\r\n{\"choices\":"), terms: stageTime, want: report.StageTimeout, accept: true},
		{name: "half a head until the chain's time is up", does: hang("HTTP/1.1 200 OK\r\nConte"), terms: chainTime, want: report.StageTimeout},
		{name: "closed", does: closing(""), want: report.StageBroken},
		{name: "half a body", does: closing("HTTP/1.1 " + okJSON + "\r\nContent-Length: 1000\r\n\r\n{\"choices\":"), want: report.StageBroken, accept: true},
		{name: "a gigabyte", does: closing("HTTP/1.1 " + okJSON + "\r\nContent-Length: 1073741824\r\n\r\n{"), want: report.StageBroken, accept: true},
		{name: "no HTTP", does: closing("SSH-2.0-OpenSSH_9.6\r\n"), want: report.StageBroken},
		{name: "empty text", does: whole(okJSON, message(`{"role":"assistant","content":""}`)), want: report.StageSilent, accept: true},
		{name: "blank text", does: whole(okJSON, message(`{"role":"assistant","content":" \n"}`)), want: report.StageSilent, accept: true},
		{name: "no text", does: whole(okJSON, message(`{"role":"assistant","content":null}`)), want: report.StageSilent, accept: true},
		{name: "HTML", does: whole("200 OK\r\nContent-Type: text/html", "<html><body>Sign in</body></html>"), want: report.StageInvalid, accept: true},
		{name: "no choices", does: whole(okJSON, `{"id":"c","object":"chat.completion"}`), want: report.StageInvalid, accept: true},
		{name: "empty choices", does: whole(okJSON, `{"id":"c","choices":[]}`), want: report.StageInvalid, accept: true},
		{name: "an error as 200", does: whole(okJSON, `{"error":{"message":"overloaded","code":529}}`), want: report.StageInvalid, accept: true},
		{name: "half JSON", does: whole(okJSON, `{"choices":[{"message":{"content":"Ha`), want: report.StageInvalid, accept: true},
		{name: "a list", does: whole(okJSON, `[]`), want: report.StageInvalid, accept: true},
		{name: "no body", does: whole(okJSON, ""), want: report.StageInvalid, accept: true},
		{name: "compressed", does: whole(okJSON+"\r\nContent-Encoding: gzip", packed.String()), want: report.StageInvalid},
		{name: "a stream that nobody asked for", does: whole(okStream, roleEvent+textEvent+stopEvent+doneEvent), want: report.StageInvalid, accept: true, whole: true},
		{name: "a stream without events", does: whole(okStream, ""), want: report.StageBroken, accept: true, last: true},
		{name: "a stream without text", does: whole(okStream, roleEvent+stopEvent+doneEvent), want: report.StageSilent, accept: true, last: true},
		{name: "a stream that breaks before its text", does: closing(openHead + roleEvent), want: report.StageBroken, accept: true, last: true},
		{name: "an error in place of text", does: whole(okStream, roleEvent+errEvent), want: report.StageBroken, accept: true, last: true},
		{name: "a stream that hangs before its text", does: hang(openHead + roleEvent), terms: stageTime, want: report.StageTimeout, accept: true, last: true},
		{name: "a stream that breaks within its text", does: closing(openHead + roleEvent + textEvent), want: report.StageBroken, accept: true, last: true, cut: true},
		{name: "a stream that breaks within a chunk of its text", does: closing("HTTP/1.1 " + okStream + "\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + roleEvent + textEvent), want: report.StageBroken, accept: true, last: true, cut: true},
		{name: "a stream that says nothing more", does: hang(openHead + roleEvent + textEvent), idle: soon, want: report.StageTimeout, accept: true, last: true, cut: true},
		{name: "an error within the text", does: whole(okStream, roleEvent+textEvent+errEvent), want: report.StageBroken, accept: true, last: true, cut: true},
	}
}

// Whichever stage fails, and however, the status says which and why, and the client gets an answer
// or one clear error: the draft if there is one, else the answer to one call with the sources, or
// the refusal if the policy says so. Nothing hangs, nothing stays held, and no goroutine is left.
// (U1, U2, U3, U5, U7, U11)
func TestStagedFaults(t *testing.T) {
	atBase(t)
	var together sync.WaitGroup
	for i, fault := range stageFaults() {
		for stage := 1; stage <= 4; stage++ {
			for _, refuse := range []bool{false, true} {
				for _, stream := range []bool{false, true} {
					if streams := stage == 4 && stream; fault.last && !streams || fault.whole && streams {
						continue
					}
					// The short run has each policy with one of the two clients, with the other one at the next stage.
					even, alike := (i+stage)%2 == 0, refuse == stream
					if testing.Short() && !fault.last && even == alike {
						continue
					}
					row := stagedRow{fault, stage, refuse, stream}
					name := fmt.Sprintf("%s/%d/refuse=%t/stream=%t", fault.name, stage, refuse, stream)
					if fault.terms == nil && fault.idle == 0 {
						t.Run(name, row.test)
						continue
					}
					together.Go(func() { t.Run(name, row.test) }) // each waits for a timeout
				}
			}
		}
	}
	together.Wait()
}

// A stagedRow is a fault of a stage, counted from 1, under a policy, for a client.
type stagedRow struct {
	stageFault
	stage          int
	refuse, stream bool
}

// outcomes returns the outcomes of the stages, in order.
func outcomes(s *report.Stages) (list []report.StageOutcome) {
	for i := range s.Called {
		list = append(list, s.Called[i].Outcome)
	}
	return list
}

func (row stagedRow) test(t *testing.T) {
	terms := stagedTerms{}
	if row.does == nil {
		terms = stageAt(row.stage, "closed")
	}
	if row.terms != nil {
		row.terms(&terms)
	}
	terms.RefuseOnFailure = row.refuse
	u, b := newUpstream(t, plays(row.stage, row.does)), newTill(t)
	g := openStaged(t, b, u, terms, func(cfg *proxy.Config) {
		cfg.Upstreams["closed"] = closedPort(t)
		if row.idle > 0 {
			cfg.Timeouts.Idle = row.idle
		}
	})
	body := weeksBody
	if row.stream {
		body = weeksStream
	}
	p := g.plays(t, body)
	rep := g.reports.next(t)
	if failed := rep.Stages.Failed(); failed == nil || failed.Outcome != row.want || failed.Name != row.name() || len(rep.Stages.Called) != row.stage {
		t.Errorf("stages came to %v, want %s of %s", outcomes(rep.Stages), row.want, row.name())
	}
	if failed := rep.Stages.Failed(); row.does == nil && (failed == nil || failed.Calls != 2) {
		t.Errorf("what was never sent is not tried once more: %v", outcomes(rep.Stages))
	}
	switch {
	case row.cut && row.stream:
		row.wantsCut(t, &p)
	case row.refuse:
		row.wantsError(t, &p)
	default:
		row.wantsAnswer(t, &p)
	}
	g.givesBack(t)
	if want := row.requests(); len(u.seen) != want {
		t.Errorf("%d requests went up, want %d", len(u.seen), want)
	}
	if row.does == nil && row.stage == 1 && row.refuse && b.usage(t).Day.Spent.Tokens != 0 {
		t.Errorf("nothing was sent, and %+v is spent", b.usage(t).Day.Spent)
	}
}

func (row *stagedRow) name() string { return fourStages()[row.stage-1].Name }

// requests returns how many requests the upstream gets: no request that may have arrived is
// repeated.
func (row *stagedRow) requests() int {
	n := row.stage
	if row.does == nil {
		n--
	}
	if row.stage <= 2 && !row.refuse {
		n++ // the request without stages
	}
	return n
}

// begun reports whether the client's stream had begun when the stage failed.
func (row *stagedRow) begun() bool { return row.stream && (row.stage > 1 || row.accept) }

// wantsAnswer requires an answer in place of the chain's.
func (row *stagedRow) wantsAnswer(t *testing.T, p *played) {
	t.Helper()
	text, status := said(0), fmt.Sprintf("injected; stages=%d; failed=%s; failure=%s; sources=3; ", row.stage, row.name(), row.want)
	if row.stage > 2 {
		text, status = said(2), fmt.Sprintf("staged; stages=%d; failed=%s; failure=%s; answered=answer_generator; sources=3; ", row.stage, row.name(), row.want)
	}
	m, err := messageOf(*p)
	if err != nil || p.err != nil || p.status != 200 || m.Text != text || m.Finish != "stop" {
		t.Errorf("the client reads %+v, %v, %v, want %q, of %d %s", m, err, p.err, text, p.status, p.body)
	}
	if got := p.told(); !strings.HasPrefix(got, status) {
		t.Errorf("status %s\nwant   %s", got, status)
	}
	if head := p.header.Get(report.HeaderStatus); row.begun() && !strings.HasPrefix(head, "staged; stages=4; sources=3; ") {
		t.Errorf("a stream begins with %s", head)
	}
	if n := strings.Count(p.body, doneEvent); row.stream && (n != 1 || !strings.HasSuffix(p.body, doneEvent)) {
		t.Errorf("it ends %d times: %s", n, p.body)
	}
}

// wantsError requires one error that names the stage and its outcome.
func (row *stagedRow) wantsError(t *testing.T, p *played) {
	t.Helper()
	text := p.body
	if row.begun() {
		if p.err == nil || p.status != 200 || strings.Contains(p.body, doneEvent) {
			t.Errorf("%d, %v: %s", p.status, p.err, p.body)
		}
		_, text, _ = strings.Cut(p.body, "data: ")
	} else if want := map[bool]int{false: 502, true: 504}[row.want == report.StageTimeout]; p.status != want || p.err != nil {
		t.Errorf("%d, want %d, %v: %s", p.status, want, p.err, p.body)
	}
	var got struct{ Error openai.Error }
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Error.Code != "stage_failed" || got.Error.Type != "server_error" || !strings.Contains(got.Error.Message, row.name()) {
		t.Errorf("%v: %s", err, p.body)
	}
	if strings.Contains(p.body, "Draft") || strings.Contains(p.body, "127.0.0.1") {
		t.Errorf("it has more than the error: %s", p.body)
	}
	if again := row.want != report.StageRefused; strings.Contains(text, "Try again.") != again || !row.begun() && (p.header.Get("Retry-After") != "") != again {
		t.Errorf("another try may help: %t, but it says %v %s", again, p.header, text)
	}
	want := fmt.Sprintf("; stages=%d; failed=%s; failure=%s", row.stage, row.name(), row.want)
	if got := p.header.Get(report.HeaderStatus); !row.begun() && !strings.Contains(got, want) {
		t.Errorf("status %s, want %s", got, want)
	}
}

// wantsCut requires a stream that is visibly incomplete after its text: it is cut if the
// upstream's was, and otherwise has no end; its status says why.
func (row *stagedRow) wantsCut(t *testing.T, p *played) {
	t.Helper()
	m, err := messageOf(*p)
	shows := errors.Is(p.err, io.ErrUnexpectedEOF) || p.err == nil && strings.HasPrefix(p.told(), "staged; stages=4; failed=final_assembler; failure=broken; sources=3; ")
	if !shows || strings.Contains(p.body, doneEvent) || !strings.Contains(p.body, `"content":"Fin"`) || strings.Contains(p.body, said(2)) || strings.Contains(p.body, said(0)) {
		t.Errorf("the client gets %v, and reads %+v, %v: %s", p.err, m, err, p.body)
	}
}

// A stream with text may take any time, whatever the timeouts of its stage and chain are. (U7)
func TestStagedStreamHasTime(t *testing.T) {
	release := make(chan struct{})
	u := newUpstream(t, func(s seen, w io.Writer) {
		switch stage := stageOf(s); {
		case stage == 1 && strings.Contains(s.body, "another"):
			hang("")(s, w)
		case stage == 4:
			io.WriteString(w, openHead+roleEvent+textEvent)
			<-release
			closing(stopEvent+doneEvent)(s, w)
		default:
			say(said(stage))(s, w)
		}
	})
	terms := stagedTerms{}
	terms.StageTimeout, terms.Timeout = 5*time.Second, 5*time.Second
	g := openStaged(t, newTill(t), u, terms)
	resp := g.raw(t, chatRequest(weeksStream))
	defer resp.Body.Close()
	var text bytes.Buffer
	for piece := make([]byte, 1); !strings.Contains(text.String(), `"content":"Fin"`); {
		n, err := resp.Body.Read(piece)
		if err != nil {
			t.Fatalf("%v: %s", err, text.String())
		}
		text.Write(piece[:n])
	}
	later := g.plays(t, strings.Replace(weeksBody, "leave", "another leave", 1)) // times out after the stream would have
	if failed := g.reports.next(t).Stages.Failed(); failed == nil || failed.Outcome != report.StageTimeout || !strings.Contains(later.body, said(0)) {
		t.Fatalf("the later request: %s", later.body)
	}
	close(release)
	rest, err := io.ReadAll(resp.Body)
	if text.Write(rest); err != nil || !strings.HasSuffix(text.String(), doneEvent) {
		t.Errorf("%v: %s", err, text.String())
	}
	if failed := g.reports.next(t).Stages.Failed(); failed != nil {
		t.Errorf("failed: %+v", failed)
	}
}

// If an upstream does not stream, though asked to, the client of a stream still gets an answer.
func TestStagedUpstreamDoesNotStream(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		s.body = strings.Replace(s.body, `"stream":true`, "", 1)
		say(said(stageOf(s)))(s, w)
	})
	g := openStaged(t, newTill(t), u, stagedTerms{})
	p := g.plays(t, weeksStream)
	m, err := messageOf(p)
	if err != nil || m.Text != said(4) || m.Finish != "stop" || !strings.HasSuffix(p.body, doneEvent) || !strings.HasPrefix(p.told(), "staged; stages=4; sources=3; ") {
		t.Errorf("%+v, %v: %s", m, err, p.body)
	}
}
