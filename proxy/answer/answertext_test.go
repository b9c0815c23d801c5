package answer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sidenote/proxy/answer"
)

// A room has that many bytes left.
type room int

func (r *room) Take(n int) bool {
	if int(*r) < n {
		return false
	}
	*r -= room(n)
	return true
}

func read(stream bool, coding string, memory int, pieces ...string) answer.Text {
	left := room(memory)
	r := answer.NewTextReader(stream, coding, &left)
	for _, p := range pieces {
		_, _ = r.Write([]byte(p))
	}
	return r.Answer()
}

func TestAnswers(t *testing.T) {
	f := func(stream bool, text string, want answer.Text) {
		t.Helper()
		if want.Bytes == 0 {
			want.Bytes = len(want.Text)
		}
		if got := read(stream, "", 1<<20, text); got != want {
			t.Errorf("%.120s\ngot  %+.200v\nwant %+.200v", text, got, want)
		}
	}
	f(false, `{"choices":[{"index":0,"message":{"role":"assistant","content":"16 weeks [1]."},"finish_reason":"stop"},{"index":1,"message":{"content":"no"},"finish_reason":"length"}]}`,
		answer.Text{Text: "16 weeks [1].", Finish: "stop"})
	f(false, `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`, answer.Text{Text: "ab"})
	f(false, `{"choices":[{"message":{"content":null,"refusal":"I may not."},"finish_reason":"stop"}]}`, answer.Text{Text: "I may not.", Finish: "stop"})
	f(false, `{"choices":[{"message":{"content":null,"tool_calls":[{}]},"finish_reason":"tool_calls"}]}`, answer.Text{Finish: "tool_calls"})
	f(false, `{"choices":[{"message":{"content":7}}]}`, answer.Text{})
	f(false, `{"error":{"message":"no"}}`, answer.Text{Unread: answer.TextMalformed})
	f(false, `{"choices":[{"message":{"content":"cut of`, answer.Text{Unread: answer.TextMalformed})
	f(false, ``, answer.Text{Unread: answer.TextMalformed})
	f(false, strings.Repeat(" ", answer.MaxWholeText+1), answer.Text{Unread: answer.TextTooLarge})
	f(true, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: a comment\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"16 \"}}]}\r\n\r\n"+
		"data:{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}},{\"index\":0,\"delta\":{\"content\":\"weeks\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n", answer.Text{Text: "16 weeks", Finish: "stop"})
	f(true, "data: {\"choices\":[{\"delta\":{\"content\":\"16 \"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"con", answer.Text{Text: "16 "})
	f(true, "data: {\"error\":{}}\n\n", answer.Text{})
	f(true, "\xef\xbb\xbfdata: {\"choices\":[{\"delta\":{\"content\":\"16 \"}}]}\n\ndata: {\"choices\":\ndata: [{\"delta\":\r\nid: 1\ndata: {\"content\":\"weeks\"}}]}\n\n", answer.Text{Text: "16 weeks"})
	f(true, "data: {\"choices\":[{\"delta\":{\"content\":\"16 \"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"weeks\"}}]}\ndata: [DONE]\n", answer.Text{Text: "16 weeks"})
	f(false, `{"content":"text","choices":[{"message":{"content":"16 weeks"}}]}`, answer.Text{Text: "16 weeks"})
	f(false, `{"type":"message","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"16 ","citations":null},{"type":"tool_use","id":"t","name":"n","input":{"text":"x"}},{"type":"text","text":"weeks"}],"stop_reason":"end_turn"}`,
		answer.Text{Text: "16 weeks", Finish: "end_turn"})
	f(false, `{"type":"error","error":{"type":"overloaded_error","message":"no"}}`, answer.Text{Unread: answer.TextMalformed})
	f(true, messageStarts+strings.Repeat(messageDelta, 2)+messageEnds, answer.Text{Text: "word word ", Finish: "end_turn"})
	f(true, "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"16 \"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"weeks\"}}\n\n"+
		"data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"no\"}}\n\n", answer.Text{Text: "16 weeks"})
	long := strings.Repeat("é", answer.MaxText)
	f(true, "data: {\"choices\":[{\"delta\":{\"content\":\"x"+long+"\"}}]}\n\n", answer.Text{Bytes: 2*answer.MaxText + 1, Text: "x" + long[:answer.MaxText-2]})
}

// A compressed answer is not read, and nothing of it is kept.
func TestCompressed(t *testing.T) {
	left := room(0)
	r := answer.NewTextReader(true, "gzip", &left)
	piece := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
	n := testing.AllocsPerRun(10, func() { _, _ = r.Write(piece) })
	if got := r.Answer(); got != (answer.Text{Unread: answer.TextCompressed}) || n != 0 {
		t.Errorf("%+v, %v allocations", got, n)
	}
}

// Without memory nothing is kept, and the reason is reported.
func TestNoMemory(t *testing.T) {
	for _, stream := range []bool{false, true} {
		text := `{"choices":[{"message":{"content":"0123456789"},"delta":{"content":"0123456789"},"finish_reason":"stop"}]}`
		if stream {
			text = "data: " + text + "\n\n"
		}
		if got := read(stream, "", 9, text, text); got != (answer.Text{Unread: answer.TextNoMemory}) {
			t.Errorf("stream %v: %+v", stream, got)
		}
	}
}

// A text is read correctly, however it is split into pieces.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream, want strings.Builder
		for _, delta := range rapid.SliceOfN(rapid.String(), 0, 20).Draw(t, "deltas") {
			quoted, err := json.Marshal(delta)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&stream, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", quoted)
			want.WriteString(strings.ToValidUTF8(delta, "\ufffd"))
		}
		var pieces []string
		for rest := stream.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := read(true, "", 1<<20, pieces...); got.Text != want.String() || got.Bytes != want.Len() {
			t.Fatalf("got %q, want %q", got.Text, want.String())
		}
	})
}

// For any input, the kept text is bounded and valid UTF-8.
func FuzzAnswer(f *testing.F) {
	f.Add(true, "data: {\"choices\":[{\"delta\":{\"content\":\"16 \"}}]}\n\ndata: [DONE]\n\n", 7)
	f.Add(false, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, 3)
	f.Fuzz(func(t *testing.T, stream bool, text string, cut int) {
		cut = min(max(cut, 0), len(text))
		a := read(stream, "", 1<<20, text[:cut], text[cut:])
		if !utf8.ValidString(a.Text) || len(a.Text) > answer.MaxText || len(a.Text) > a.Bytes || a.Unread != "" && a.Text != "" {
			t.Errorf("%+v", a)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-5-mini","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	left := room(1 << 40)
	r := answer.NewTextReader(true, "", &left)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.Write(event)
	}
}
