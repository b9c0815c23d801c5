package chat_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
)

// Decoding only the ends of a long text gives the same result as decoding all of it.
func TestLongQuestion(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	of := func(list ...string) string { return list[r.IntN(len(list))] }
	times := 300
	if testing.Short() {
		times = 60
	}
	for range times {
		run := ""
		for range 1 + r.IntN(12) {
			run += of("word ", `\n`, `\\`, `\"`, `\u00e9`, `\ud83d\ude00`, `\u0020`, "é", "文字", "🙂", "   ", strings.Repeat("a", 100), strings.Repeat(`\\`, 40), strings.Repeat(`\ud83d\ude00`, 30))
		}
		text := of("", "x", " ", strings.Repeat(" ", 30_000)) + strings.Repeat(run, (70_000+r.IntN(20_000))/len(run)) + of("", "y", `\n`, strings.Repeat(`\t`, 15_000))
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"` + text + `"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, whole := req.Clipped(); got != whole {
			t.Errorf("%d bytes of %q: got %d bytes, want %d", len(text), run, len(got), len(whole))
		}
	}
}

// Whatever bodies it has read, a Parser retains little memory.
func TestAParserKeepsLittle(t *testing.T) {
	body := func(more string) []byte {
		return []byte(`{"messages":[{"role":"user","content":"hi"}` + more + `}`)
	}
	for name, body := range map[string][]byte{
		"tools":    body(`]` + strings.Repeat(`,"tools":[]`, 200_000)),
		"messages": body(strings.Repeat(`,{"role":"user","content":"x"}`, 200_000) + `]`),
		"lists":    body(`]` + strings.Repeat(`,"messages":[{"role":"user"}]`, 200_000)),
		"parts":    body(`,{"role":"user","content":[{"type":"text","text":"x"}` + strings.Repeat(`,{"type":"text","text":"x"}`, 200_000) + `]}]`),
		"keys":     body(`],"x":{"a":1` + strings.Repeat(`,"b":1`, 200_000) + `}`),
		"model":    body(`],"model":"` + strings.Repeat("m", 4<<20) + `"`),
	} {
		var parser chat.Parser
		before := live()
		_, _ = parser.Parse(chat.Completions, body) // some of them are ambiguous
		parser.Reset()
		if held := live() - before; held > 256<<10 {
			t.Errorf("%s: %d bytes are held of a body of %d", name, held, len(body))
		}
		runtime.KeepAlive(&parser)
		runtime.KeepAlive(body)
	}
}

// live returns the size of the live heap.
func live() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Reminders that Claude Code puts beside the user's text are not searched for, unless there is
// nothing else.
func TestQuestionWithoutReminders(t *testing.T) {
	const reminder = `{"type":"text","text":"<system-reminder>\nToday is Sunday.\n</system-reminder>"}`
	for content, want := range map[string]string{
		"[" + reminder + `,{"type":"text","text":"How long is leave?"},` + reminder + `,{"type":"text","text":"In Rome?"}]`: "How long is leave?\nIn Rome?",
		"[" + reminder + "]":               "<system-reminder>\nToday is Sunday.\n</system-reminder>",
		`"<system-reminder> is a tag"`:     "<system-reminder> is a tag",
		`[{"type":"text","text":"plain"}]`: "plain",
	} {
		r, err := chat.Messages.Parse([]byte(`{"max_tokens":1,"messages":[{"role":"user","content":` + content + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := r.Question(); got != want {
			t.Errorf("%s: %q", content, got)
		}
	}
}
