package answer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/proxy/answer"
	"sidenote/rewrite/chat"
)

// responsesCitations returns a checker of responses.
func responsesCitations(remove bool) *answer.CitationChecker {
	return answer.NewCitations(answer.CitationOptions{API: chat.Responses, SourceByID: given, RemoveUnknown: remove})
}

// urlCitation returns an annotation of the Responses API.
func urlCitation(id, start, end int) string {
	return fmt.Sprintf(`{"type":"url_citation","start_index":%d,"end_index":%d,"title":"Title %d","url":"https://kb/%d"}`, start, end, id, id)
}

// outputText returns a part with a text.
func outputText(text, annotations string) string {
	return `{"type":"output_text", "text":` + quoted(text) + `,"annotations":[` + annotations + `]}`
}

// outputMessage returns a message of an output.
func outputMessage(id string, parts ...string) string {
	return `{"id":"` + id + `","type":"message","role":"assistant","content":[` + strings.Join(parts, ", ") + `]}`
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// Annotations are added to the parts of a response, and all other bytes stay.
func TestResponse(t *testing.T) {
	response := func(output string) string {
		return `{"id":"resp_1", "output":[` + output + `],"usage":{"total_tokens":5}}`
	}
	const reasoning = `{"type":"reasoning","content":[{"type":"reasoning_text","text":"so [1] it is"}]},`
	const theirs = `{"type":"file_citation","file_id":"f","index":1}`
	for in, want := range map[string]string{
		reasoning + outputMessage("m", outputText("Größe [1].", ""), outputText("B [2]", theirs)): reasoning +
			outputMessage("m", outputText("Größe [1].", urlCitation(1, 6, 9)), outputText("B [2]", theirs+","+urlCitation(2, 2, 5))),
		outputMessage("m", outputText("A [9]. B [1]", "")):                       outputMessage("m", outputText("A. B [1]", urlCitation(1, 5, 8))),
		`{"id":7,"content":[{"type":"output_text","text":"[9]"}]}`:               `{"id":7,"content":[{"type":"output_text","text":""}]}`,
		`{"content":[{"text":"A [1]","type":"output_text"}]}`:                    `{"content":[{"text":"A [1]","type":"output_text","annotations":[` + urlCitation(1, 2, 5) + `]}]}`,
		`{"content":[{"type":"output_text","annotations":null,"text":"[1]"}]}`:   `{"content":[{"type":"output_text","annotations":[` + urlCitation(1, 0, 3) + `],"text":"[1]"}]}`,
		`{"type":"message","content":"A [1]"},7,null,{"content":[null,"[1]",7]}`: ``,
		`{"type":"function_call","arguments":"[1]"}`:                             ``,
		`{"content":[{"type":"refusal","refusal":"A [1]"}]}`:                     ``,
		`{"content":[{"type":"output_text","text":["A [1]"]}]}`:                  ``,
		outputMessage("m", outputText("A [1]", "")) + `,{`:                       ``,
		``: ``,
	} {
		if want == "" {
			want = in
		}
		if got := string(responsesCitations(true).JSON([]byte(response(in)))); got != response(want) {
			t.Errorf("%s\n got %s\nwant %s", in, got, response(want))
		}
	}
	for _, in := range []string{whole("A [1]"), `{"object":"response.input_tokens","input_tokens":1}`, `{"output":"A [1]"}`, `[1]`, ``} {
		c := responsesCitations(true)
		if got := string(c.JSON([]byte(in))); got != in || c.Report().Unread != answer.UnreadShape {
			t.Errorf("%s became %s, unread is %q", in, got, c.Report().Unread)
		}
	}
}

// A responseStream builds the events of a streamed response.
type responseStream struct {
	text     strings.Builder
	sequence int
}

func (s *responseStream) event(name, members string) {
	fmt.Fprintf(&s.text, "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%d%s}\n\n", name, name, s.sequence, members)
	s.sequence++
}

// at returns the members that name a part, whose item has the id "m" and its index.
func at(item, part int) string {
	return fmt.Sprintf(`,"item_id":"m%d","output_index":%d,"content_index":%d`, item, item, part)
}

// added adds an event with an annotation.
func (s *responseStream) added(item, part, n int, annotation string) {
	s.event("output_text.annotation.added", at(item, part)+`,"annotation_index":`+strconv.Itoa(n)+`,"annotation":`+annotation)
}

func (s *responseStream) delta(item, part int, text string) {
	s.event("output_text.delta", at(item, part)+`,"logprobs":[],"delta":`+quoted(text))
}

func (s *responseStream) endPart(item, part int, text, annotations string) {
	s.event("output_text.done", at(item, part)+`,"text":`+quoted(text))
	s.event("content_part.done", at(item, part)+`,"part":`+outputText(text, annotations))
}

func (s *responseStream) endItem(item int, parts ...string) {
	s.event("output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, item, outputMessage(fmt.Sprint("m", item), parts...)))
}

// Each annotation is an event of its own before the text is repeated, and in all objects with the
// text; the events behind it are renumbered. Removed markers are removed from all of them.
func TestResponseStream(t *testing.T) {
	const theirs = `{"type":"file_citation","file_id":"f","index":1}`
	build := func(first []string, text, second, one, two string, three ...string) string {
		s := &responseStream{sequence: 3}
		s.event("created", `,"response":{"output":[]}`)
		s.event("output_item.added", `,"output_index":0,"item":{"id":"m0","content":[]}`)
		for i, d := range first {
			s.delta(0, 0, d)
			if i == 0 {
				s.delta(1, 1, second)
				s.added(0, 0, 0, theirs)
			}
		}
		for i, a := range three {
			s.added(0, 0, i+1, a)
		}
		list := strings.Join(append([]string{theirs}, three...), ",")
		s.endPart(0, 0, text, list)
		s.endItem(0, outputText(text, list))
		if two != "" {
			s.added(1, 1, 0, two)
		}
		s.endPart(1, 1, one, two)
		s.endItem(1, `{"type":"refusal"}`, outputText(one, two))
		s.event("completed", `,"response":{"output":[`+outputMessage("m0", outputText(text, list))+","+outputMessage("m1", `{"type":"refusal"}`, outputText(one, two))+`],"usage":{"total_tokens":5}}`)
		return s.text.String()
	}
	in := build([]string{"Größe 🙂 ", "[", "1][9", "] and [2]."}, "Größe 🙂 [1][9] and [2].", "B [3", "B [3", "")
	c := responsesCitations(false)
	want := build([]string{"Größe 🙂 ", "[", "1][9", "] and [2]."}, "Größe 🙂 [1][9] and [2].", "B [3", "B [3", "", urlCitation(1, 8, 11), urlCitation(2, 19, 22))
	if got := stream(t, c, in, 7); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r := c.Report(); r.Annotations != 2 || r.Unknown != 1 || r.Times() != 2 {
		t.Errorf("%+v", r)
	}
	c = responsesCitations(true)
	want = build([]string{"Größe 🙂 ", "[", "1]", " and [2]."}, "Größe 🙂 [1] and [2].", "B [3", "B [3", "", urlCitation(1, 8, 11), urlCitation(2, 16, 19))
	if got := stream(t, c, in, 7); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	in = build([]string{"A", " [9]"}, "A [9]", "B [3]", "B [3]", "")
	want = build([]string{"A", ""}, "A", "B [3]", "B [3]", urlCitation(3, 2, 5))
	if got := stream(t, responsesCitations(true), in, 0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c = answer.NewCitations(answer.CitationOptions{API: chat.Responses, SourceByID: given, CountOnly: true})
	if got := stream(t, c, in, 0); got != in || c.Report().Unknown != 1 || len(c.Report().Cited) != 1 {
		t.Errorf("counting makes\n%s\n%+v", got, c.Report())
	}
}

// Servers omit events and members, and streams break off.
func TestOddResponseStreams(t *testing.T) {
	const delta = `data: {"type":"response.output_text.delta","delta":"A [1]"}` + "\n\n"
	added := func(sequence, item string) string {
		return `data: {"type":"response.output_text.annotation.added"` + sequence + item + `,"output_index":0,"content_index":0,"annotation_index":0,"annotation":` + urlCitation(1, 2, 5) + "}\n\n"
	}
	completed := func(sequence, annotations string) string {
		return `data: {"type":"response.completed"` + sequence + `,"response":{"output":[{"id":"m0","content":[` + outputText("A [1]", annotations) + "]}]}}\n\n"
	}
	ours := urlCitation(1, 2, 5)
	long := "data: {\"type\":\"response.image\",\"x\":\"" + strings.Repeat("x", answer.MaxEvent) + "\"}\n\n"
	for name, c := range map[string]struct{ in, want string }{
		"no numbers":               {delta + completed("", ""), delta + added("", `,"item_id":"m0"`) + completed("", ours)},
		"no ids":                   {delta + "data: {\"type\":\"response.output_text.done\",\"text\":\"A [1]\"}\n\n", delta + added("", "") + "data: {\"type\":\"response.output_text.done\",\"text\":\"A [1]\"}\n\n"},
		"gaps":                     {delta + completed(`,"sequence_number":70`, "") + "data: {\"sequence_number\":7}\n\n", delta + added(`,"sequence_number":70`, `,"item_id":"m0"`) + completed(`,"sequence_number":71`, ours) + "data: {\"sequence_number\":8}\n\n"},
		"odd numbers":              {delta + completed(`,"sequence_number":"7"`, ""), delta + added("", `,"item_id":"m0"`) + completed(`,"sequence_number":"7"`, ours)},
		"only the end":             {completed(`,"sequence_number":1`, ""), completed(`,"sequence_number":1`, ours)},
		"a delta after the end":    {delta + completed("", "") + delta, delta + added("", `,"item_id":"m0"`) + completed("", ours) + delta},
		"a delta between two ends": {delta + completed("", "") + delta + completed("", ""), delta + added("", `,"item_id":"m0"`) + completed("", ours) + delta + completed("", ours)},
		"the end twice":            {delta + completed("", "") + completed("", ""), delta + added("", `,"item_id":"m0"`) + completed("", ours) + completed("", ours)},
		"no end":                   {delta, delta},
		"cut":                      {delta + `data: {"type":"response.com`, delta + `data: {"type":"response.com`},
		"another text":             {delta + strings.Replace(completed("", ""), "A [1]", "Another", 1), delta + added("", `,"item_id":"m0"`) + strings.Replace(completed("", ""), "A [1]", "Another", 1)},
		"an event that is large":   {long + delta + completed("", ""), long + delta + completed("", "")},
		"a large end":              {delta + long + "data: {\"sequence_number\":1}\n\n", delta + long + "data: {\"sequence_number\":1}\n\n"},
		"broken":                   {"data: {\"type\"\n\n" + delta + ": ping\n\ndata: [DONE]\n\n", "data: {\"type\"\n\n" + delta + ": ping\n\ndata: [DONE]\n\n"},
		"indexes out of range": {strings.ReplaceAll(delta, `"delta":`, `"output_index":-1,"content_index":70000,"delta":`) + "data: {\"type\":\"response.output_text.done\",\"output_index\":1.5,\"text\":\"A [1]\"}\n\n",
			strings.ReplaceAll(delta, `"delta":`, `"output_index":-1,"content_index":70000,"delta":`) + "data: {\"type\":\"response.output_text.done\",\"output_index\":1.5,\"text\":\"A [1]\"}\n\n"},
		"a chat": {cutInto("A [1]"), cutInto("A [1]")},
	} {
		for _, remove := range []bool{false, true} {
			if got := stream(t, responsesCitations(remove), c.in, 1000); got != c.want {
				t.Errorf("%s: got\n%.3000s\nwant\n%.3000s", name, got, c.want)
			}
		}
	}
}

// A drawnPart is a text of a streamed response that a test draws.
type drawnPart struct {
	item, part int
	deltas     []string
}

// drawResponse draws the stream of a response with texts made of those words, whose deltas are
// interleaved.
func drawResponse(t *rapid.T, words []string) (text string) {
	s := &responseStream{sequence: rapid.IntRange(0, 5).Draw(t, "first number")}
	var open []*drawnPart
	items := make([][]string, rapid.IntRange(1, 3).Draw(t, "items"))
	for i := range items {
		items[i] = make([]string, rapid.IntRange(1, 2).Draw(t, "parts"))
		for j := range items[i] {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 12).Draw(t, "text"), "")
			items[i][j] = outputText(text, "")
			p := &drawnPart{item: i, part: j}
			for rest := []rune(text); len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "delta")
				p.deltas, rest = append(p.deltas, string(rest[:n])), rest[n:]
			}
			open = append(open, p)
		}
	}
	s.event("created", `,"response":{"output":[]}`)
	texts := map[*drawnPart]string{}
	for len(open) > 0 {
		n := rapid.IntRange(0, len(open)-1).Draw(t, "next")
		p := open[n]
		if len(p.deltas) == 0 {
			s.endPart(p.item, p.part, texts[p], "")
			open = slices.Delete(open, n, n+1)
			continue
		}
		s.delta(p.item, p.part, p.deltas[0])
		texts[p] += p.deltas[0]
		p.deltas = p.deltas[1:]
	}
	var output []string
	for i, parts := range items {
		s.endItem(i, parts...)
		output = append(output, outputMessage(fmt.Sprint("m", i), parts...))
	}
	s.event("completed", `,"response":{"output":[`+strings.Join(output, ",")+`]}`)
	return s.text.String()
}

// Without citations every byte stays, wherever the stream is split.
func TestResponsesWithoutCitations(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := drawResponse(r, []string{"A ", "größer", "🙂", ". ", "[", "]", "`", "[x]", "\n", "[1](x)", " 【"})
		c := responsesCitations(rapid.Bool().Draw(r, "remove"))
		if got := stream(t, c, in, rapid.IntRange(1, 200).Draw(r, "piece")); got != in {
			r.Fatalf("got\n%s\nwant\n%s", got, in)
		}
	})
}

// A readPart is a text with its annotations, as one of the places has it.
type readPart struct {
	Text        string
	Annotations []json.RawMessage
}

// The four places agree in text and annotations, and sequence numbers have no gaps.
func TestResponsesAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := drawResponse(r, []string{"A ", "größer", "🙂", ". ", " [1]", "[2, 9]", " [9]", "【3】", "`", "[", "\n"})
		c := responsesCitations(rapid.Bool().Draw(r, "remove"))
		out := stream(t, c, in, rapid.IntRange(1, 200).Draw(r, "piece"))
		streamed, finals, next, annotations := map[string]*readPart{}, map[string]int{}, -1, 0
		agree := func(item, part int, p readPart) {
			key := fmt.Sprint(item, ".", part)
			s := streamed[key]
			if s == nil {
				s = &readPart{}
			}
			if p.Text != s.Text || fmt.Sprintf("%s", p.Annotations) != fmt.Sprintf("%s", s.Annotations) {
				r.Fatalf("%s: got %s, streamed were %s:\n%s", key, p, *s, out)
			}
			finals[key]++
		}
		type item struct{ Content []readPart }
		for data := range answer.All([]byte(out)) {
			var e struct {
				Type       string
				Sequence   int `json:"sequence_number"`
				Item       item
				Output     int `json:"output_index"`
				Content    int `json:"content_index"`
				Index      int `json:"annotation_index"`
				Annotation json.RawMessage
				Delta      string
				Text       string
				Part       readPart
				Response   struct{ Output []item }
			}
			if err := json.Unmarshal(data, &e); err != nil {
				r.Fatal(err, string(data))
			}
			if next >= 0 && e.Sequence != next {
				r.Fatalf("number %d, want %d:\n%s", e.Sequence, next, out)
			}
			next = e.Sequence + 1
			key := fmt.Sprint(e.Output, ".", e.Content)
			if streamed[key] == nil {
				streamed[key] = &readPart{}
			}
			switch s := streamed[key]; strings.TrimPrefix(e.Type, "response.") {
			case "output_text.delta":
				s.Text += e.Delta
			case "output_text.annotation.added":
				if e.Index != len(s.Annotations) || finals[key] > 0 {
					r.Fatalf("annotation %d after %d:\n%s", e.Index, len(s.Annotations), out)
				}
				s.Annotations = append(s.Annotations, e.Annotation)
				annotations++
			case "output_text.done":
				agree(e.Output, e.Content, readPart{e.Text, s.Annotations})
			case "content_part.done":
				agree(e.Output, e.Content, e.Part)
			case "output_item.done":
				for n, p := range e.Item.Content {
					agree(e.Output, n, p)
				}
			case "completed":
				for i := range e.Response.Output {
					for n, p := range e.Response.Output[i].Content {
						agree(i, n, p)
					}
				}
			}
		}
		for key, n := range finals {
			if n != 4 {
				r.Fatalf("%s is in %d places", key, n)
			}
		}
		if n := c.Report().Annotations; n != annotations {
			r.Fatalf("%d annotations are reported, %d added", n, annotations)
		}
	})
}
