package answer_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sidenote/proxy/answer"
)

// delta returns an event with a part of a choice's content, a JSON string.
func delta(choice int, content string) string {
	return fmt.Sprintf("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":%d,\"delta\":{\"content\":%s},\"finish_reason\":null}],\"usage\":null}\n\n", choice, content)
}

const (
	role   = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n"
	finish = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n"
	usage  = "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"total_tokens\":9}}\n\n"
	done   = "data: [DONE]\n\n"
)

// stream passes a stream through a checker in pieces of that size; 0: a single piece.
func stream(t *testing.T, c *answer.CitationChecker, ans string, size int) string {
	t.Helper()
	var out bytes.Buffer
	w := c.Filter(&out)
	for piece := range slices.Chunk([]byte(ans), max(1, min(cmp.Or(size, len(ans)), len(ans)))) {
		if _, err := w.Write(slices.Clone(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A message is a choice of a stream as a client reads it.
type message struct {
	content     string
	annotations []annotation
	finished    bool
	late        bool // annotations came after the finish reason
}

// readCitations reads a stream as clients do.
func readCitations(t *testing.T, answer string) map[int]*message {
	t.Helper()
	out := map[int]*message{}
	for event := range strings.SplitSeq(answer, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			ID      string
			Choices []struct {
				Index int
				Delta struct {
					Content     string
					Annotations []annotation
				}
				Finish *string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		for _, c := range e.Choices {
			m := out[c.Index]
			if m == nil {
				m = &message{}
				out[c.Index] = m
			}
			m.content += c.Delta.Content
			m.late = m.late || m.finished && len(c.Delta.Annotations) > 0
			m.annotations = append(m.annotations, c.Delta.Annotations...)
			m.finished = m.finished || c.Finish != nil
		}
	}
	return out
}

// cutInto returns a stream with these texts as deltas.
func cutInto(parts ...string) string {
	answer := role
	for _, p := range parts {
		text, _ := json.Marshal(p)
		answer += delta(0, string(text))
	}
	return answer + finish + usage + done
}

// However deltas split a text, its citations are those of the whole, and nothing else changes.
func TestEveryCut(t *testing.T) {
	for _, remove := range []bool{false, true} {
		o := answer.CitationOptions{SourceByID: given, Terms: terms, RemoveUnknown: remove}
		for _, c := range markers {
			text, want, report := checked(t, o, c.content)
			check := func(ans string) {
				t.Helper()
				checker := answer.NewCitations(o)
				m := readCitations(t, stream(t, checker, ans, 0))[0]
				got, told := cited(m.content, m.annotations), checker.Report()
				if m.content != text || !slices.Equal(got, want) || m.late || told.Unknown != report.Unknown || len(told.Cited) != len(report.Cited) {
					t.Fatalf("remove %v, %s: got %q %q %+v, want %q %q %+v of\n%s", remove, c.name, m.content, got, told, text, want, report, ans)
				}
			}
			for i := range len(c.content) + 1 {
				for j := i; j <= min(i+3, len(c.content)); j++ {
					if testing.Short() && (i+j)%5 > 0 {
						continue
					}
					if utf8.ValidString(c.content[:i]) && utf8.ValidString(c.content[i:j]) {
						check(cutInto(c.content[:i], c.content[i:j], c.content[j:]))
					}
				}
			}
			check(cutInto(strings.Split(c.content, "")...))
		}
	}
}

// Servers split characters too: bytes of one in two deltas, or the halves of a surrogate pair.
func TestCutCharacters(t *testing.T) {
	for _, parts := range [][]string{
		{`"退\u3010"`, `"1\u3011 [2]"`},
		{"\"退\xe3\"", "\"\x80\"", "\"\x901\xe3\x80\"", "\"\x91 [2]\""},
		{`"\ud83d"`, `"\ude42【1】 [2]"`},
		{`"\ud83d\ude42\u30101\u3011 [2]"`},
		{`"\ud83d【1】 [2]"`},
	} {
		var ans strings.Builder
		for _, p := range parts {
			ans.WriteString(delta(0, p))
		}
		ans.WriteString(finish)
		out := stream(t, answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true}), ans.String(), 0)
		const first, second = `"start_index":1,"end_index":4,"title":"Title 1"`, `"start_index":5,"end_index":8,"title":"Title 2"`
		if !strings.Contains(out, first) || !strings.Contains(out, second) {
			t.Errorf("%q: got %s", parts, out)
		}
	}
}

// The stream gets one event before the finish reason and is otherwise unchanged.
func TestStreamGolden(t *testing.T) {
	const call = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"[1]\"}}]}}]}\n\n"
	before := ": ping\n\n" + role + delta(0, `"A ["`) + call + delta(0, `"1]."`) + "event: x\ndata: {\"a\":\r\n\r\n"
	const annotated = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"usage\":null,\"choices\":[{\"index\":0,\"delta\":{\"annotations\":[{\"type\":\"url_citation\",\"url_citation\":{\"start_index\":2,\"end_index\":5,\"title\":\"Title 1\",\"url\":\"https://kb/1\"}}]},\"finish_reason\":null}]}\n\n"
	behind := finish + usage + done
	for size := range 40 {
		for _, remove := range []bool{false, true} {
			got := stream(t, answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: remove}), before+behind, size)
			if got != before+annotated+behind {
				t.Fatalf("in pieces of %d: got\n%s", size, got)
			}
		}
	}
	if got := stream(t, answer.NewCitations(answer.CitationOptions{SourceByID: given}), before+done, 0); got != before+annotated+done {
		t.Errorf("without a finish reason: got\n%s", got)
	}
	if got := stream(t, answer.NewCitations(answer.CitationOptions{SourceByID: given}), before, 0); got != before {
		t.Errorf("a stream that is cut: got\n%s", got)
	}
	// Like Mistral: text, finish reason and usage in one event.
	last := strings.Replace(strings.Replace(delta(0, `"A [1]"`), `"finish_reason":null`, `"finish_reason":"stop"`, 1), `"usage":null`, `"usage":{"total_tokens":1}`, 1)
	if got, want := stream(t, answer.NewCitations(answer.CitationOptions{SourceByID: given}), last, 0), strings.Replace(annotated, `"usage":null,`, "", 1)+last; got != want {
		t.Errorf("in one event: got\n%s\nwant\n%s", got, want)
	}
}

// Each choice has its own text.
func TestChoices(t *testing.T) {
	finish1 := strings.Replace(finish, `"index":0`, `"index":1`, 1)
	ans := delta(0, `"A ["`) + delta(1, `"Long [2"`) + delta(0, `"1]"`) + delta(1, `"] [9"`) + finish + delta(1, `"] [1]"`) + finish1 + done
	for _, c := range []struct {
		remove bool
		second string
		cited  string
	}{{false, "Long [2] [9] [1]", "[2]@5=2 [1]@13=1"}, {true, "Long [2] [1]", "[2]@5=2 [1]@9=1"}} {
		got := readCitations(t, stream(t, answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: c.remove}), ans, 0))
		if a := cited(got[0].content, got[0].annotations); got[0].content != "A [1]" || strings.Join(a, " ") != "[1]@2=1" || got[0].late {
			t.Errorf("remove %v: first %q %q", c.remove, got[0].content, a)
		}
		if a := cited(got[1].content, got[1].annotations); got[1].content != c.second || strings.Join(a, " ") != c.cited || got[1].late {
			t.Errorf("remove %v: second %q %q", c.remove, got[1].content, a)
		}
	}
}

// Text is held only while it may still become a marker to remove.
func TestHeld(t *testing.T) {
	for _, remove := range []bool{false, true} {
		var out bytes.Buffer
		c := answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: remove})
		w := c.Stage(&out)
		for _, e := range []struct {
			event string
			held  bool
		}{
			{delta(0, `"A"`), false},
			{delta(0, `" ["`), true},
			{": ping\n\n", true},
			{delta(0, `"9"`), true},
			{delta(0, `"]"`), true},
			{delta(0, `"."`), false},
			{delta(0, `" [no"`), false},
			{delta(0, `" "`), true},
			{delta(0, `"B"`), false},
		} {
			if _, err := w.Write([]byte(e.event)); err != nil {
				t.Fatal(err)
			}
			if held := !strings.HasSuffix(out.String(), e.event); held != (e.held && remove) {
				t.Errorf("remove %v: %s is held: %v", remove, e.event, held)
			}
		}
		_, _ = w.Write([]byte(delta(0, `" [9"`)))
		if err := c.Flush(); err != nil || !strings.HasSuffix(out.String(), delta(0, `" [9"`)) {
			t.Errorf("remove %v: what was held when the stream was cut is lost", remove)
		}
	}
	// The limit holds however long it stays undecided.
	var out bytes.Buffer
	w := answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true}).Stage(&out)
	var all strings.Builder
	for i := range 2000 {
		event := delta(1, `"text"`)
		if i == 0 {
			event = delta(0, `"A [9"`)
		}
		all.WriteString(event)
		_, _ = w.Write([]byte(event))
	}
	if held := all.Len() - out.Len(); held > 100<<10 || !strings.HasPrefix(all.String(), out.String()) {
		t.Errorf("%d bytes are held", held)
	}
	_, _ = w.Write([]byte(delta(0, `"]. [8]!"`)))
	if got := readCitations(t, out.String())[0].content; got != "A [9].!" {
		t.Errorf("got %q", got)
	}
}

// An event too large for stages ends the checking and keeps its place.
func TestLargeEvent(t *testing.T) {
	large := delta(0, `"`+strings.Repeat("x", answer.MaxEvent)+`"`)
	ans := delta(0, `"A [1] [9"`) + large + delta(0, `"] [1]"`) + finish + done
	c := answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true})
	if got := stream(t, c, ans, 5000); got != ans || c.Report().Unread != answer.UnreadTooLarge {
		t.Errorf("%d bytes became %d, %+v", len(ans), len(got), c.Report())
	}
}
