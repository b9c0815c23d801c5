package answer_test

import (
	"bytes"
	"strings"
	"testing"

	"sidenote/proxy/answer"
)

// A lister finds calls in a text: <list/> is one.
type lister struct{ text string }

func (r *lister) Write(piece []byte) []byte {
	before := len(r.shown())
	r.text += string(piece)
	return []byte(r.shown()[before:])
}

// shown returns the text before the first bracket.
func (r *lister) shown() string {
	text, _, _ := strings.Cut(r.text, "<")
	return text
}

func (r *lister) Close() (text []byte, calls []answer.LoopCall, said int) {
	if rest := r.text[len(r.shown()):]; rest != "<list/>" {
		return []byte(rest), nil, len(r.text)
	}
	return nil, []answer.LoopCall{{Name: "search_knowledge", Arguments: "{}"}}, len(r.text)
}

// Calls are found in content parts as in a string, also across parts, whole and streamed. The
// client gets the text without them, and the other parts, such as reasoning.
func TestCallsInParts(t *testing.T) {
	const (
		thought = `{"type":"thinking","thinking":[{"type":"text","text":"<list/>"}]}`
		sent    = `{"role":"assistant","content":[` + thought + `,{"type":"text","text":"I look.<list/>"}]}`
	)
	in := rules(false)
	in.Text = func() answer.LoopTextReader { return new(lister) }
	l := answer.NewLoop(in)
	l.Begin(false)
	var out bytes.Buffer
	var splitter answer.Splitter
	splitter.Reset(true, &out, l.Stage)
	write := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if _, err := splitter.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(answer.MarkEvents+event("a", `{"content":[`+thought+`]}`, ""), event("a", `{"content":[{"type":"text","text":"I look."},{"text":"<li","type":"text"}]}`, ""),
		event("a", `{"content":[{"type":"text","text":"st/>"}]}`, ""), event("a", "{}", "stop"))
	turn, err := l.EndStream(&out)
	if err != nil || !turn.Continues() || string(turn.Messages()[0]) != sent {
		t.Errorf("streamed: %+v, %v, %s", turn.OurCalls, err, turn.Messages()[0])
	}
	if err := l.Continue(&out); err != nil {
		t.Fatal(err)
	}
	l.Begin(true)
	splitter.Reset(true, &out, l.Stage)
	write(answer.MarkEvents+event("b", `{"content":[{"type":"text","text":"14."}]}`, ""), event("b", "{}", "stop"), doneEvent)
	if _, err := l.EndStream(&out); err != nil {
		t.Fatal(err)
	}
	if err := l.Finish(&out, nil, ""); err != nil {
		t.Fatal(err)
	}
	want := event("a", `{"content":[`+thought+`]}`, "") + event("a", `{"content":[{"type":"text","text":"I look."}]}`, "") +
		event("a", `{"content":[{"type":"text","text":"\n\n14."}]}`, "") + event("a", "{}", "stop") + doneEvent
	if out.String() != want {
		t.Errorf("streamed:\n%s\nwant\n%s", &out, want)
	}

	l = answer.NewLoop(in)
	l.Begin(false)
	ans := func(parts string) []byte {
		return []byte(`{"choices":[{"message":{"role":"assistant","content":[` + parts + `]},"finish_reason":"stop"}]}`)
	}
	turn, ok := l.EndWhole(ans(thought + `,{"type":"text","text":"I look.<li"},{"type":"text","text":"st/>"}`))
	if !ok || !turn.Continues() || string(turn.Messages()[0]) != sent {
		t.Errorf("whole: %+v, %s", turn.OurCalls, turn.Messages()[0])
	}
	l.Begin(true)
	turn, _ = l.EndWhole(ans(thought + `,{"type":"text","text":"14."}`))
	whole, changed := l.Whole(&turn, nil)
	if want := ans(thought + `,{"type":"text","text":"I look.\n\n14."}`); !changed || !bytes.Equal(whole, want) {
		t.Errorf("whole: %s\nwant %s", whole, want)
	}
}
