package answer_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy/answer"
)

// rounds plays the streams and returns what the client gets. Calls of ours are answered as long as
// streams are left.
func rounds(t *testing.T, r answer.LoopRules, comment string, streams ...string) string {
	t.Helper()
	l := answer.NewLoop(r)
	var out bytes.Buffer
	var splitter answer.Splitter
	for n, stream := range streams {
		l.Begin(n == len(streams)-1)
		splitter.Reset(true, &out, l.Stage)
		if _, err := splitter.Write([]byte(stream)); err != nil {
			t.Fatal(err)
		}
		if err := splitter.Close(); err != nil {
			t.Fatal(err)
		}
		turn, err := l.EndStream(&out)
		if err != nil {
			t.Fatal(err)
		}
		if n == len(streams)-1 {
			err = l.Finish(&out, nil, comment)
		} else if !turn.Ended || !turn.Continues() {
			t.Fatalf("answer %d is the last one: %+v", n+1, turn)
		} else {
			err = l.Continue(&out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// event returns an event with one choice that has a delta, and a finish reason unless that is "".
func event(id, delta, finish string) string {
	reason := "null"
	if finish != "" {
		reason = `"` + finish + `"`
	}
	return `data: {"id":"` + id + `","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + reason + "}]}\n\n"
}

const (
	callDelta = `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}]}`
	doneEvent = "data: [DONE]\n\n"
	// Azure's first event.
	aboutPrompt = `data: {"id":"","choices":[],"prompt_filter_results":[]}` + "\n\n"
)

// Streams of servers that deviate from the usual format.
func TestOddStreams(t *testing.T) {
	call := event("a", callDelta, "") + event("a", "{}", "tool_calls") + doneEvent
	for _, row := range []struct {
		name    string
		hide    bool
		comment string
		streams []string
		want    string
	}{
		{name: "the role comes with text that is hidden", hide: true, streams: []string{
			event("a", `{"role":"assistant","content":"I look."}`, "") + call, event("b", `{"role":"assistant","content":"14."}`, "") + event("b", `{}`, "stop") + doneEvent,
		}, want: event("a", `{"role":"assistant","content":"14."}`, "") + event("a", `{}`, "stop") + doneEvent},
		{name: "the role comes with the reason to finish", streams: []string{
			event("a", strings.Replace(callDelta, "{", `{"role":"assistant",`, 1), "tool_calls") + doneEvent, event("b", `{"role":"assistant","content":"14."}`, "stop") + doneEvent,
		}, want: event("a", `{"role":"assistant","content":"14."}`, "stop") + doneEvent},
		{name: "the role comes with each call", streams: []string{
			event("a", `{"role":"assistant","content":""}`, "") + event("a", strings.Replace(callDelta, "{", `{"role":"assistant",`, 1), "") + event("a", "{}", "tool_calls"),
			event("b", `{"content":"14."}`, "stop") + doneEvent,
		}, want: event("a", `{"role":"assistant","content":""}`, "") + event("a", `{"content":"14."}`, "stop") + doneEvent},
		{name: "something follows the reason to finish", streams: []string{
			event("a", `{"content":"14."}`, "") + event("a", "{}", "stop") + ": cost 3\n\n" + event("a", "{}", "") + "event: done\ndata: {}\n\n" + doneEvent + ": end\n\n",
		}, want: event("a", `{"content":"14."}`, "") + event("a", "{}", "stop") + ": cost 3\n\n" + event("a", "{}", "") + "event: done\ndata: {}\n\n" + doneEvent + ": end\n\n"},
		{name: "lines end in CRLF", streams: []string{
			strings.ReplaceAll(call, "\n", "\r\n"), strings.ReplaceAll(event("b", `{"content":"14."}`, "stop")+doneEvent, "\n", "\r\n"),
		}, want: strings.ReplaceAll(event("a", `{"content":"14."}`, "stop")+doneEvent, "\n", "\r\n")},
		{name: "no space behind the colon", streams: []string{
			strings.ReplaceAll(call, "data: ", "data:"), strings.ReplaceAll(event("b", `{"content":"14."}`, "stop"), "data: ", "data:") + "data:[DONE]\n\n",
		}, want: strings.ReplaceAll(event("a", `{"content":"14."}`, "stop"), "data: ", "data:") + "data:[DONE]\n\n"},
		{name: "data on several lines", streams: []string{
			strings.ReplaceAll(call, `,"choices":`, ",\ndata: \"choices\":"), event("b", `{"content":"14."}`, "stop") + doneEvent,
		}, want: event("a", `{"content":"14."}`, "stop") + doneEvent},
		{name: "data on several lines that is not ours", streams: []string{
			"data: {\ndata: \"choices\":[]}\n\n" + event("b", `{"content":"14."}`, "stop") + doneEvent,
		}, want: "data: {\ndata: \"choices\":[]}\n\n" + event("b", `{"content":"14."}`, "stop") + doneEvent},
		{name: "the last event has no empty line", comment: "status", streams: []string{
			event("a", `{"content":"14."}`, "") + strings.TrimSpace(event("a", "{}", "stop")),
		}, want: event("a", `{"content":"14."}`, "") + event("a", "{}", "stop") + ": status\n\n"},
		{name: "cut within an event", comment: "status", streams: []string{
			event("a", `{"content":"14."}`, "") + `data: {"id":"a","cho`,
		}, want: event("a", `{"content":"14."}`, "") + `data: {"id":"a","cho`},
		{name: "the id is repeated, the number is not there", streams: []string{
			event("a", `{"tool_calls":[{"id":"c1","type":"function","function":{"name":"search_knowledge","arguments":""}}]}`, "") +
				event("a", `{"tool_calls":[{"id":"c1","function":{"arguments":"{}"}}]}`, "") + event("a", "{}", "tool_calls"),
			event("b", `{"content":"14."}`, "stop"),
		}, want: event("a", `{"content":"14."}`, "stop")},
		{name: "the name comes in pieces", streams: []string{
			event("a", `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"search_"}}]}`, "") +
				event("a", `{"tool_calls":[{"index":0,"function":{"name":"knowledge"}}]}`, "") + event("a", `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`, "") + event("a", "{}", "tool_calls"),
			event("b", `{"content":"14."}`, "stop"),
		}, want: event("a", `{"content":"14."}`, "stop")},
		{name: "content is a list of parts", streams: []string{
			event("a", `{"content":[{"type":"thinking","thinking":"Hm."}]}`, "") + event("a", `{"content":"I look."}`, "") + call,
			event("b", `{"content":[{"type":"thinking","thinking":"So."}]}`, "") + event("b", `{"content":"14."}`, "stop"),
		}, want: event("a", `{"content":[{"type":"thinking","thinking":"Hm."}]}`, "") + event("a", `{"content":"I look."}`, "") +
			event("a", `{"content":[{"type":"thinking","thinking":"So."}]}`, "") + event("a", `{"content":"\n\n14."}`, "stop")},
		{name: "the first event is about the prompt, and its id is empty", streams: []string{
			aboutPrompt + event("a", `{"role":"assistant","content":"I look."}`, "") + call, aboutPrompt + event("b", `{"role":"assistant","content":"14."}`, "stop") + doneEvent,
		}, want: aboutPrompt + event("a", `{"role":"assistant","content":"I look."}`, "") +
			`data: {"id":"a","choices":[],"prompt_filter_results":[]}` + "\n\n" + event("a", `{"content":"\n\n14."}`, "stop") + doneEvent},
		{name: "a further choice", streams: []string{
			`data: {"choices":[{"index":0,"delta":{"content":"14."}},{"index":1,"delta":{"content":"15."}}]}` + "\n\n" + doneEvent,
		}, want: `data: {"choices":[{"index":0,"delta":{"content":"14."}},{"index":1,"delta":{"content":"15."}}]}` + "\n\n" + doneEvent},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, rounds(t, rules(row.hide), row.comment, row.streams...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A stream with an error is over, even if the model called a tool before.
func TestErrorInStream(t *testing.T) {
	l := answer.NewLoop(rules(false))
	l.Begin(false)
	var out bytes.Buffer
	var splitter answer.Splitter
	splitter.Reset(true, &out, l.Stage)
	const failed = `data: {"error":{"message":"overloaded"}}` + "\n\n"
	if _, err := splitter.Write([]byte(event("a", callDelta, "") + failed + doneEvent)); err != nil {
		t.Fatal(err)
	}
	turn, err := l.EndStream(&out)
	if err != nil || turn.Ended {
		t.Errorf("%+v, %v", turn, err)
	}
	if err := l.Finish(&out, nil, "status"); err != nil || out.String() != failed+": status\n\n"+doneEvent {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Content parts are sent back as parts in the next round.
func TestMessageInParts(t *testing.T) {
	l := answer.NewLoop(rules(false))
	l.Begin(false)
	stage := l.Stage(new(bytes.Buffer))
	for _, delta := range []string{`{"content":[{"type":"thinking","thinking":"Hm."}]}`, `{"content":"I "}`, `{"content":"look."}`, callDelta} {
		if _, err := stage.Write([]byte(event("a", delta, ""))); err != nil {
			t.Fatal(err)
		}
	}
	turn, err := l.EndStream(new(bytes.Buffer))
	const want = `{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"I look."}],` +
		`"tool_calls":[{"id":"c1","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}]}`
	if got := string(turn.Messages()[0]); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

// In a whole answer with content parts, the text of earlier rounds becomes a part.
func TestWholeInParts(t *testing.T) {
	l := answer.NewLoop(rules(false))
	l.Begin(false)
	call := `{"choices":[{"message":{"role":"assistant","content":"I look.",` + callDelta[1:] + `,"finish_reason":"tool_calls"}]}`
	if turn, ok := l.EndWhole([]byte(call)); !ok || !turn.Continues() {
		t.Fatalf("%+v", turn)
	}
	l.Begin(true)
	turn, ok := l.EndWhole([]byte(`{"choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"14."}]},"finish_reason":"stop"}]}`))
	whole, changed := l.Whole(&turn, nil)
	const want = `{"choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"text","text":"14."}]},"finish_reason":"stop"}]}`
	if !ok || !changed || string(whole) != want {
		t.Errorf("%s", whole)
	}
}

// Any input is handled, and events without choices pass unchanged.
func FuzzStage(f *testing.F) {
	f.Add([]byte(event("a", `{"role":"assistant","content":"x"}`, "")+event("a", callDelta, "tool_calls")+doneEvent), uint8(3), true)
	f.Add([]byte("data: {\ndata: \"choices\":[{\"delta\":{\"content\":[1]}}]}\n\n: c\n\ndata: {\"error\":1}\r\n\r\ndata: [DONE]"), uint8(1), false)
	f.Add([]byte(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":9,"function":{"name":"x"}},{"index":"1"},7]}}],"usage":{"a":1}}`), uint8(0), false)
	f.Fuzz(func(t *testing.T, stream []byte, size uint8, hide bool) {
		l := answer.NewLoop(rules(hide))
		var out bytes.Buffer
		var splitter answer.Splitter
		for last := range 2 { // the second time as a later round
			l.Begin(last == 1)
			splitter.Reset(true, &out, l.Stage)
			for piece := range slices.Chunk(stream, int(size)+1) {
				if _, err := splitter.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if err := splitter.Close(); err != nil {
				t.Fatal(err)
			}
			turn, err := l.EndStream(&out)
			if err != nil {
				t.Fatal(err)
			}
			if message := turn.Messages()[0]; !json.Valid(message) {
				t.Errorf("the message that goes up is %s", message)
			}
			if last == 0 && turn.Ended && turn.Continues() {
				if err := l.Continue(&out); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := l.Finish(&out, nil, ""); err != nil {
				t.Fatal(err)
			}
			if last == 0 && !bytes.Contains(stream, []byte("choices")) && !bytes.Contains(stream, []byte(`\`)) && bytes.Count(stream, []byte("DONE")) == 0 && !bytes.Equal(out.Bytes(), stream) {
				t.Errorf("%q became %q", stream, out.Bytes())
			}
			return
		}
	})
}

// Any whole answer is handled, and without calls of ours it stays unchanged.
func FuzzWhole(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3}}`))
	f.Add([]byte(`{"choices":[{"message":{"content":["x"],"tool_calls":{}}}],"usage":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l := answer.NewLoop(rules(false))
		l.Begin(false)
		turn, ok := l.EndWhole(slices.Clone(body))
		if !ok {
			return
		}
		whole, changed := l.Whole(&turn, nil)
		if !json.Valid(turn.Messages()[0]) || !json.Valid(whole) {
			t.Errorf("%s, message %s", whole, turn.Messages()[0])
		}
		if len(turn.OurCalls) == 0 && (changed || !bytes.Equal(whole, body)) {
			t.Errorf("%s became %s", body, whole)
		}
	})
}
