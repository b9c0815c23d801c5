package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
)

// stageSays are the answers of the stages, in order.
var stageSays = []string{"text Evidence [1].", "text Draft [1].", "text Careless.", "text Final [1]."}

// stageLeaves returns dialogues that stop at the point where a client leaves.
func stageLeaves(t testing.TB) map[string]answertest.Dialogue {
	all := map[string]answertest.Dialogue{
		"the last stage hangs in its text":  talking(t, append(stageSays[:3:3], "text Half\nwait")...),
		"the call without stages is silent": talking(t, `status 500 {"error":{"message":"down"}}`, "wait"),
		"the call without stages hangs":     talking(t, stageSays[0], `status 500 {"error":{"message":"down"}}`, "text Half\nwait"),
	}
	for i := range stageSays {
		all[fmt.Sprintf("stage %d is silent", i+1)] = talking(t, append(stageSays[:i:i], "wait")...)
	}
	return all
}

// If a client leaves during any stage, the upstream's work is cancelled, no other stage is called,
// and nothing stays held.
func TestStagedClientLeaves(t *testing.T) {
	atBase(t)
	for name, d := range stageLeaves(t) {
		for _, body := range []string{weeksBody, weeksStream} {
			t.Run(fmt.Sprintf("%s/%t", name, body == weeksStream), func(t *testing.T) {
				u := answertest.Start(t, d, plain())
				b := newTill(t)
				g := openStaged(t, b, stubAt(t, u.URL), stagedTerms{})
				c := g.dial(t)
				if _, err := io.WriteString(c, chatRequest(body)); err != nil {
					t.Fatal(err)
				}
				leave(t, u, nil, c.Close)
				rep := g.reports.next(t)
				if rep.Client != report.ClientGoneFirst && rep.Client != report.ClientGoneStreaming {
					t.Errorf("report: %s, status %d", rep.Client, rep.Status)
				}
				if n := len(u.Requests()); n != len(d.Answers) {
					t.Errorf("%d requests went up, %d answers", n, len(d.Answers))
				}
				if failed := rep.Stages.Failed(); !strings.Contains(name, "without") && (failed == nil || failed.Outcome != report.StageLeft || len(rep.Stages.Called) != len(d.Answers)) {
					t.Errorf("report %+v", rep.Stages)
				}
				g.givesBack(t)
			})
		}
	}
}

// The client of a stream reads a comment at the beginning of each stage, before its model answers.
// Without a stream, and before the first answer of an upstream, it reads nothing.
func TestStagedProgress(t *testing.T) {
	arrived, release := make(chan int), make(chan struct{})
	u := newUpstream(t, func(s seen, w io.Writer) {
		arrived <- stageOf(s)
		<-release
		say(said(stageOf(s)))(s, w)
	})
	g := openStaged(t, newTill(t), u, stagedTerms{})
	c := g.dial(t)
	if _, err := io.WriteString(c, chatRequest(weeksStream)); err != nil {
		t.Fatal(err)
	}
	if n := receive(t, arrived); n != 1 {
		t.Fatalf("stage %d is asked first", n)
	}
	release <- struct{}{}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%+v, %v", resp, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for stage := 2; stage <= 4; stage++ {
		if n := receive(t, arrived); n != stage {
			t.Fatalf("stage %d is asked, not %d", n, stage)
		}
		want := fmt.Sprintf(": sidenote stage %d/4 %s\n", stage, fourStages()[stage-1].Name)
		for line := ""; line != want; {
			if line, err = lines.ReadString('\n'); err != nil || line != want && line != "\n" && !strings.HasPrefix(line, ": sidenote stage") {
				t.Fatalf("%q, %v, want %q", line, err, want)
			}
		}
		release <- struct{}{}
	}
	if rest, err := io.ReadAll(lines); err != nil || !bytes.Contains(rest, []byte(`"Final [1]."`)) || !bytes.HasSuffix(rest, []byte("\n\n"+doneEvent)) || !bytes.Contains(rest, []byte("\n: sidenote-status: staged; stages=4; sources=3; ")) {
		t.Errorf("%s, %v", rest, err)
	}
}

// After two hundred concurrent chats, of which some are left and some fail, nothing stays held,
// and no client reads another one's answer.
func TestStagedTogether(t *testing.T) {
	const many = 200
	atBase(t)
	u := newUpstream(t, func(s seen, w io.Writer) {
		_, who, _ := strings.Cut(s.body, "of caller ")
		who, _, _ = strings.Cut(who, "?")
		if stage := stageOf(s); stage == 3 && strings.HasSuffix(who, "3") {
			writeWhole(w, "500 Oh\r\nContent-Type: application/json", `{"error":{"message":"down"}}`)
		} else {
			say(fmt.Sprintf("%s For caller %s.", said(stage), who))(s, w)
		}
	})
	g := openStaged(t, newTill(t), u, stagedTerms{}, func(cfg *proxy.Config) { cfg.Tenants.Unknown.Budget.Limits[budget.ParallelRequests] = 10 * many })
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			body := weeksBody
			if n%2 == 0 {
				body = weeksStream
			}
			c := g.dial(t)
			defer c.Close()
			if _, err := io.WriteString(c, chatRequest(strings.Replace(body, "leave?", fmt.Sprintf("leave of caller %d?", n), 1))); err != nil {
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
			want := fmt.Sprintf("Final [1]. For caller %d.", n)
			if n%10 == 3 {
				want = fmt.Sprintf("Draft [1]. For caller %d.", n)
			}
			if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte(want)) {
				t.Errorf("%d, %s %v", n, text, err)
			}
		})
	}
	all.Wait()
	for range many {
		g.reports.next(t)
	}
	g.givesBack(t)
}
