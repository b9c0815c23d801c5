package answer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/proxy/answer"
	"sidenote/rewrite/chat"
)

// messagesCitations returns a checker of messages whose sources are text.
func messagesCitations(remove bool) *answer.CitationChecker {
	return answer.NewCitations(answer.CitationOptions{API: chat.Messages, SourceByID: quotable, Terms: terms, RemoveUnknown: remove})
}

// quotable returns a source whose text clients may see.
func quotable(id int) (answer.CitedSource, bool) {
	s, ok := given(id)
	s.Quote = s.Text
	return s, ok
}

// locationOf returns the citation of a source.
func locationOf(id int) string {
	s, _ := quotable(id)
	return fmt.Sprintf(`{"type":"search_result_location","cited_text":%q,"source":"https://kb/%d","title":"Title %d","search_result_index":%d,"start_block_index":0,"end_block_index":1}`, s.Text, id, id, id-1)
}

func messageOf(blocks ...string) string {
	return `{"id":"msg_1","type":"message", "content":[` + strings.Join(blocks, ", ") + `],"stop_reason":"end_turn","usage":{"output_tokens":5}}`
}

// textBlock returns a text block; members follow its text.
func textBlock(text, members string) string {
	return `{"type":"text", "text":` + quoted(text) + members + `}`
}

func citations(list ...string) string { return `,"citations":[` + strings.Join(list, ",") + `]` }

// Citations are added to the text blocks of a message, one for each source, and all other bytes
// stay.
func TestMessage(t *testing.T) {
	const (
		thinking = `{"type":"thinking","thinking":"so [1] it is","signature":"x"}`
		tool     = `{"type":"tool_use","id":"t","name":"n","input":{"text":"A [1]","type":"text"}}`
		theirs   = `{"type":"char_location","cited_text":"x","document_index":0}`
	)
	for _, c := range [][2]string{
		{messageOf(thinking, textBlock("Größe [1]. [2] So [1].", ""), tool), messageOf(thinking, textBlock("Größe [1]. [2] So [1].", citations(locationOf(1), locationOf(2))), tool)},
		{messageOf(textBlock("A [9]. B [1]", citations(theirs)), textBlock("C [2]", `,"citations":null`)), messageOf(textBlock("A. B [1]", citations(theirs, locationOf(1))), textBlock("C [2]", citations(locationOf(2))))},
		{messageOf(textBlock("A [3]", citations())), messageOf(textBlock("A [3]", citations(locationOf(3))))},
		{messageOf(`{"type":"text","text":["A [1]"]}`, `{"type":7,"text":"[1]"}`, `7`, `null`, `"[1]"`), ""},
		{messageOf(`{"type":"web_search_tool_result","content":[{"type":"text","text":"[1]"}]}`), ""},
		{messageOf(), ""},
		{messageOf(textBlock("A [1]", "")) + "{", ""},
	} {
		want := c[1]
		if want == "" {
			want = c[0]
		}
		if got := string(messagesCitations(true).JSON([]byte(c[0]))); got != want {
			t.Errorf("%s\n got %s\nwant %s", c[0], got, want)
		}
	}
	for _, in := range []string{whole("A [1]"), `{"type":"error","error":{"message":"A [1]"}}`, `{"input_tokens":1}`, `{"content":"A [1]"}`, `[1]`, ``} {
		c := messagesCitations(true)
		if got := string(c.JSON([]byte(in))); got != in || c.Report().Unread != answer.UnreadShape {
			t.Errorf("%s became %s, unread is %q", in, got, c.Report().Unread)
		}
	}
}

// messageEvent returns an event of a streamed message.
func messageEvent(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + members + "}\n\n"
}

func blockDelta(n int, delta string) string {
	return messageEvent("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, n, delta))
}

// blockOf returns the events of a text block whose text comes in these pieces, with the deltas
// before its end.
func blockOf(n int, deltas []string, pieces ...string) string {
	s := messageEvent("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"text","text":""}`, n))
	for _, p := range pieces {
		s += blockDelta(n, `{"type":"text_delta","text":`+quoted(p)+`}`)
	}
	for _, d := range deltas {
		s += blockDelta(n, d)
	}
	return s + messageEvent("content_block_stop", fmt.Sprintf(`,"index":%d`, n))
}

func citationDelta(citation string) string {
	return `{"type":"citations_delta","citation":` + citation + `}`
}

// Citations of a streamed message come before the end of their block, and markers of unknown
// sources are removed.
func TestMessageStream(t *testing.T) {
	start, end := messageEvent("message_start", `,"message":{"content":[]}`), messageEvent("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}`)+messageEvent("message_stop", "")
	thinking := messageEvent("content_block_start", `,"index":0,"content_block":{"type":"thinking","thinking":""}`) + blockDelta(0, `{"type":"thinking_delta","thinking":"see [1]"}`) + messageEvent("content_block_stop", `,"index":0`)
	const theirs = `{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"u"}}`
	for _, names := range []bool{true, false} {
		named := func(s string) string {
			if names {
				return s
			}
			var out strings.Builder
			for line := range strings.Lines(s) {
				if !strings.HasPrefix(line, "event:") {
					out.WriteString(line)
				}
			}
			return out.String()
		}
		in := named(start + thinking + blockOf(1, []string{theirs}, "Refunds take 5 days [", "1]", "[2]. See [1] [9", "].") + "event: ping\ndata: {\"type\": \"ping\"}\n\n" + blockOf(2, nil, "Free [2]") + end)
		want := named(start + thinking + blockOf(1, []string{theirs, citationDelta(locationOf(1)), citationDelta(locationOf(2))}, "Refunds take 5 days [", "1]", "[2]. See [1]", ".") + "event: ping\ndata: {\"type\": \"ping\"}\n\n" + blockOf(2, []string{citationDelta(locationOf(2))}, "Free [2]") + end)
		for size := 1; size < 200; size += 13 {
			c := messagesCitations(true)
			if got := stream(t, c, in, size); got != want {
				t.Fatalf("names %t: got\n%s\nwant\n%s", names, got, want)
			}
			r := c.Report()
			if r.Unknown != 1 || r.Annotations != 3 || len(r.Cited) != 2 || r.Cited[0].Times != 2 || r.Cited[1].Times != 2 || r.Unread != "" {
				t.Errorf("%+v", r)
			}
		}
	}
}

// However the text of a message is split, its citations are those of the whole message.
func TestMessagePieces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringMatching(`([a-c .\x60\n]|\[[1-9]\]| \[7, 1\]|é){0,12}`).Draw(r, "text")
		var pieces []string
		for rest := []rune(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(r, "piece")
			pieces, rest = append(pieces, string(rest[:n])), rest[n:]
		}
		all, parts := messagesCitations(true), messagesCitations(true)
		var want struct {
			Content []struct {
				Text      string
				Citations []json.RawMessage
			}
		}
		if err := json.Unmarshal(all.JSON([]byte(messageOf(textBlock(text, "")))), &want); err != nil {
			r.Fatal(err)
		}
		said, cited := "", 0
		for data := range answer.All([]byte(stream(t, parts, blockOf(0, nil, pieces...), 7))) {
			var e struct {
				Delta struct {
					Text     string
					Citation json.RawMessage
				}
			}
			if err := json.Unmarshal(data, &e); err != nil {
				r.Fatal(err)
			}
			said += e.Delta.Text
			if e.Delta.Citation != nil {
				if string(e.Delta.Citation) != string(want.Content[0].Citations[cited]) {
					r.Fatalf("citation %d is %s", cited, e.Delta.Citation)
				}
				cited++
			}
		}
		if said != want.Content[0].Text || cited != len(want.Content[0].Citations) {
			r.Fatalf("%q became %q with %d citations, want %+v", pieces, said, cited, want)
		}
		if diff := cmp.Diff(all.Report(), parts.Report()); diff != "" {
			r.Fatal(diff)
		}
	})
}

// Citations that the model makes by itself pass byte for byte. Those of sources are counted with the
// text of their block; those of the application's documents are not. A citation of no search result,
// or of a text that its source does not have, is unknown.
func TestMessageNativeCitations(t *testing.T) {
	location := func(n int, text string) string {
		return fmt.Sprintf(`{"cited_text":%s,"type":"search_result_location","search_result_index":%d,"source":"s","title":null,"start_block_index":0,"end_block_index":1}`, quoted(text), n)
	}
	blocks := []struct {
		text      string
		citations []string
	}{
		{"By the policy, ", nil},
		{"refunds take 5 days", []string{location(2, "Refunds  take 5 days."), location(1, "the app's")}},
		{" and shipping is free [1] [9]", []string{location(3, "Shipping is free."), location(3, "Shipping costs 5 dollars."), `{"type":"char_location","document_index":2}`}},
		{" four", []string{location(4, "Four"), location(5, "Five"), location(-1, ""), `{"type":"search_result_location"}`, location(4, "&lt;Four&gt;")}},
	}
	var whole, events []string
	for i, b := range blocks {
		whole = append(whole, textBlock(b.text, citations(b.citations...)))
		var deltas []string
		for _, c := range b.citations {
			deltas = append(deltas, citationDelta(c))
		}
		half := len(b.text) / 2
		events = append(events, blockOf(i, deltas, b.text[:half], b.text[half:]))
	}
	full, most := 1.0, 0.75
	want := answer.CitationReport{Cited: []answer.Cited{{ID: 1, Times: 1, Support: &full}, {ID: 2, Times: 1, Support: &most}, {ID: 4, Times: 2, Support: &full}}, Unknown: 4}
	check := func(name, in string, read func(c *answer.CitationChecker) string) {
		t.Helper()
		c := answer.NewCitations(answer.CitationOptions{
			API: chat.Messages, SourceByID: given, Terms: terms, RemoveUnknown: true,
			SearchResults: func() (int, []int) { return 2, []int{1, 2, 4} },
		})
		if got := read(c); got != in {
			t.Errorf("%s: %s\nbecame %s", name, in, got)
		}
		if diff := cmp.Diff(want, c.Report()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	answered, streamed := messageOf(whole...), strings.Join(events, "")
	check("whole", answered, func(c *answer.CitationChecker) string { return string(c.JSON([]byte(answered))) })
	check("streamed", streamed, func(c *answer.CitationChecker) string { return stream(t, c, streamed, 50) })
}

// A fixed answer of the Messages API can be read, whole and streamed, and costs nothing.
func TestFixedMessage(t *testing.T) {
	f := answer.Fixed{API: chat.Messages, ID: "7", Created: time.Unix(1, 0), Model: `claude "x"`, Request: []byte(`{}`), Text: "Nothing found.\n"}
	const (
		usage = `"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`
		head  = `{"id":"msg_7","type":"message","role":"assistant","model":"claude \"x\"","content":[`
	)
	if got, want := string(f.Append(nil)), head+`{"type":"text","text":"Nothing found.\n"}],"stop_reason":"end_turn","stop_sequence":null,`+usage+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f.Stream = true
	want := messageEvent("message_start", `,"message":`+head+`],"stop_reason":null,"stop_sequence":null,`+usage+`}`) + blockOf(0, nil, f.Text) +
		messageEvent("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},`+usage) + messageEvent("message_stop", "")
	if got := string(f.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// An answer that is cut anywhere, also within a string, passes as far as it came, and is no bug.
func TestCutAnswersAreNoBugs(t *testing.T) {
	for api, all := range map[chat.API][]string{
		chat.Messages: {
			messageOf(textBlock("A [1]", citations(locationOf(1)))),
			blockOf(0, []string{citationDelta(locationOf(1))}, "A [1]", " [9]"),
		},
		chat.Responses: {
			`{"output":[{"type":"message","content":[{"type":"output_text","text":"A [1]","annotations":[]}]}]}`,
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"A [1]\"}\n\n",
		},
	} {
		o := answer.CitationOptions{API: api, SourceByID: given, Terms: terms, CountOnly: true}
		for _, answered := range all {
			for n := range answered {
				cut := answered[:n]
				streamed, whole := answer.NewCitations(o), answer.NewCitations(o)
				if got := stream(t, streamed, cut, 9); got != cut || streamed.Report().Unread == answer.UnreadBug {
					t.Fatalf("%s: the stream %q became %q, %+v", api, cut, got, streamed.Report())
				}
				if got := string(whole.JSON([]byte(cut))); got != cut || whole.Report().Unread == answer.UnreadBug {
					t.Fatalf("%s: %q became %q, %+v", api, cut, got, whole.Report())
				}
			}
		}
	}
}

// Whatever comes instead of a message passes, and without removals byte for byte except for added
// citations.
func FuzzMessages(f *testing.F) {
	f.Add(messageOf(textBlock("A [1]", citations())), 0)
	f.Add(blockOf(0, []string{citationDelta(locationOf(1))}, "A [1]", " [9]"), 1)
	f.Add("data: {\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"text_delta\",\"text\":\"[9\"}}\n\ndata: {\"type\":\"content_block_stop\"}\n\n", 3)
	f.Fuzz(func(t *testing.T, in string, sources int) {
		o := answer.CitationOptions{API: chat.Messages, SourceByID: given, Terms: terms, CountOnly: true}
		if sources > 0 {
			o.SearchResults = func() (int, []int) { return sources - 1, []int{1, 2} }
		}
		c := answer.NewCitations(o)
		if got := stream(t, c, in, 9); got != in {
			t.Fatalf("%q became %q", in, got)
		}
		c.Report()
		o.CountOnly, o.RemoveUnknown = false, true
		if got := answer.NewCitations(o).JSON([]byte(in)); json.Valid([]byte(in)) && !json.Valid(got) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}
