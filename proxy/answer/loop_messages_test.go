package answer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/proxy/answer"
	"sidenote/rewrite/chat"
)

// messagesRules are the rules of these tests.
func messagesRules(hide bool) answer.LoopRules {
	return answer.LoopRules{API: chat.Messages, Ours: isOurs, HideText: hide}
}

// A writtenBlock is a content block as the model wrote it.
type writtenBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
	ID        string          `json:"id,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Citations json.RawMessage `json:"citations,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
}

func (b *writtenBlock) ours() bool   { return b.Type == "tool_use" && isOurs(b.Name) }
func (b *writtenBlock) theirs() bool { return b.Type == "tool_use" && !isOurs(b.Name) }
func (b *writtenBlock) thinks() bool { return strings.HasSuffix(b.Type, "thinking") }

func (b *writtenBlock) json() string {
	raw, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// drawWritten draws a content block. Calls of ours have secret in their input.
func drawWritten(t *rapid.T, kind, id string) (b writtenBlock) {
	b.Type = kind
	switch kind {
	case "text":
		text := itemTexts.Draw(t, "text")
		b.Text = &text
		if rapid.IntRange(0, 3).Draw(t, "cited") == 0 {
			b.Citations = json.RawMessage(`[{"type":"search_result_location","cited_text":"x"},{"type":"char_location"}]`)
		}
	case "thinking":
		text := itemTexts.Draw(t, "thinking")
		b.Thinking, b.Signature = &text, "Eq"+id+"=="
	case "redacted_thinking":
		b.Data = "Em" + id
	case "ours":
		b.Type, b.ID, b.Name, b.Input = "tool_use", id, rapid.SampledFrom(ours).Draw(t, "ours"), json.RawMessage(`{"query":"`+secret+` \u00e4"}`)
	case "tool_use", "server_tool_use":
		b.ID, b.Name = id, rapid.SampledFrom([]string{"weather", "search", "search_knowledge_2"}).Draw(t, "name")
		b.Input = json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"city":"Bern","n":1.50}`}).Draw(t, "input"))
	case "web_search_tool_result":
		b.ToolUseID, b.Content = id, json.RawMessage(`[{"type":"web_search_result","url":"x"}]`)
	}
	return b
}

// A messageHabit is how a server streams a message.
type messageHabit struct {
	name                                          string
	noEventLines, noPings, noIndexes, inputAtOnce bool
	noUsageAtEnd, noSignatureDelta, noStops, done bool
	crlf, comments, mark                          bool
	pieces                                        int    // length of the pieces of texts
	cut                                           int    // events at the end that do not come
	fault                                         string // an event in the middle
}

func drawMessageHabit(t *rapid.T) (h messageHabit) {
	one := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) == 0 }
	h = messageHabit{
		noEventLines: one("no event lines"), noPings: one("no pings"), noIndexes: one("no indexes"), inputAtOnce: one("input at once"),
		noUsageAtEnd: one("no usage at the end"), noSignatureDelta: one("signature at once"), noStops: one("no stops"), done: one("done"),
		crlf: one("crlf"), comments: one("comments"), mark: one("mark"), pieces: rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "pieces"),
	}
	if one("cut") {
		h.cut = rapid.IntRange(1, 12).Draw(t, "cut by")
	}
	if one("fault") {
		h.fault = `"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}`
	}
	return h
}

// usageOf is the usage of a round as the stream begins and ends with it.
func usageOf(round int) (begin, end string) {
	begin = fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":2,"cache_read_input_tokens":null,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":1},"output_tokens":1,"service_tier":"standard"}`, 10*round)
	end = fmt.Sprintf(`{"output_tokens":%d,"server_tool_use":{"web_search_requests":1}}`, 100*round)
	return begin, end
}

// eventsOf returns the events of a message in a round.
func (h *messageHabit) eventsOf(t *rapid.T, round int, blocks []writtenBlock, stop string) (events []string) {
	add := func(kind, members string) {
		event := `data: {"type":"` + kind + `"` + members + "}\n\n"
		if !h.noEventLines {
			event = "event: " + kind + "\n" + event
		}
		if h.crlf {
			event = strings.ReplaceAll(event, "\n", "\r\n")
		}
		if events = append(events, event); h.comments {
			events = append(events, ": keep\n\n")
		}
	}
	begin, end := usageOf(round)
	add("message_start", fmt.Sprintf(`,"message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":%s}`, round, begin))
	if !h.noPings {
		add("ping", "")
	}
	for n := range blocks {
		b := blocks[n]
		at := fmt.Sprintf(`,"index":%d`, n)
		if h.noIndexes {
			at = ""
		}
		var deltas []string
		pieces := func(kind, member, text string) {
			for piece := range slices.Chunk([]rune(text), h.pieces) {
				raw, err := json.Marshal(string(piece))
				if err != nil {
					t.Fatal(err)
				}
				deltas = append(deltas, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, member, raw))
			}
		}
		empty := ""
		if b.Text != nil {
			pieces("text_delta", "text", *b.Text)
			b.Text = &empty
		}
		if b.Citations != nil {
			deltas = append(deltas, `{"type":"citations_delta","citation":{"type":"search_result_location","cited_text":"x"}}`, `{"type":"citations_delta","citation":{"type":"char_location"}}`)
			b.Citations = json.RawMessage("[]")
		}
		if b.Thinking != nil {
			pieces("thinking_delta", "thinking", *b.Thinking)
			b.Thinking = &empty
			if !h.noSignatureDelta {
				pieces("signature_delta", "signature", b.Signature)
				b.Signature = ""
			}
		}
		if b.Input != nil && !h.inputAtOnce {
			deltas = append(deltas, `{"type":"input_json_delta","partial_json":""}`)
			pieces("input_json_delta", "partial_json", string(b.Input))
			b.Input = json.RawMessage("{}")
		}
		add("content_block_start", at+`,"content_block":`+b.json())
		for _, d := range deltas {
			add("content_block_delta", at+`,"delta":`+d)
		}
		if !h.noStops {
			add("content_block_stop", at)
		}
		if n == 0 && h.fault != "" {
			events = append(events, "event: error\ndata: {"+h.fault+"}\n\n")
		}
		if !h.noPings && rapid.IntRange(0, 9).Draw(t, "ping") == 0 {
			add("ping", "")
		}
	}
	if end = `,"usage":` + end; h.noUsageAtEnd {
		end = ""
	}
	add("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null}%s`, stop, end))
	add("message_stop", "")
	if h.done {
		events = append(events, "data: [DONE]\n\n")
	}
	return events[:max(1, len(events)-h.cut)]
}

// wholeOf returns the message of a round.
func wholeOf(round int, blocks []writtenBlock, stop string) string {
	var content []string
	for i := range blocks {
		content = append(content, blocks[i].json())
	}
	return fmt.Sprintf(`{"id":"msg_%d", "type":"message","role":"assistant","model":"claude","content":[%s],"stop_reason":%q,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":2,"cache_read_input_tokens":null,`+
		`"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":1},"output_tokens":%d,"service_tier":"standard","server_tool_use":{"web_search_requests":1}}}`,
		round, strings.Join(content, " , "), stop, 10*round, 100*round)
}

// A clientMessage is the message that the client gets.
type clientMessage struct {
	ID      string
	Content []writtenBlock
	Stop    string `json:"stop_reason"`
	Usage   struct {
		Input    int `json:"input_tokens"`
		Output   int `json:"output_tokens"`
		Written  int `json:"cache_creation_input_tokens"`
		Creation struct {
			Hour int `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
		Server struct {
			Searches int `json:"web_search_requests"`
		} `json:"server_tool_use"`
	}
	starts, ends, errors int
	vendor               string
}

// readMessage joins a stream as Anthropic's SDKs do, and checks the order of its events: the start,
// blocks one after the other, and the end.
func readMessage(stream string) (m clientMessage, err error) {
	stream = strings.TrimPrefix(strings.ReplaceAll(stream, "\r\n", "\n"), answer.MarkEvents)
	open, input := false, ""
	stopped := func() {
		if last := len(m.Content) - 1; open && input != "" {
			m.Content[last].Input = json.RawMessage(input)
		}
		open, input = false, ""
	}
	for _, text := range strings.SplitAfter(stream, "\n\n") {
		data, _ := answer.Data([]byte(text))
		if data == nil || string(bytes.TrimSpace(data)) == "[DONE]" {
			continue
		}
		var e struct {
			Type    string
			Message json.RawMessage
			Index   *int
			Block   *writtenBlock `json:"content_block"`
			Delta   struct {
				Text      string
				Thinking  string
				Signature string
				Partial   string          `json:"partial_json"`
				Citation  json.RawMessage `json:"citation"`
				Stop      string          `json:"stop_reason"`
			}
			Usage    json.RawMessage
			Sidenote json.RawMessage
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return m, fmt.Errorf("%w: %q", err, text)
		}
		if m.starts == 0 && e.Type != "message_start" && e.Type != "ping" && e.Type != "error" {
			return m, fmt.Errorf("%s before the start", e.Type)
		}
		if m.Stop != "" && strings.HasPrefix(e.Type, "content_block_") {
			return m, fmt.Errorf("%s after the end", e.Type)
		}
		last := len(m.Content) - 1
		if strings.HasPrefix(e.Type, "content_block_") && e.Index != nil && (*e.Index != last && e.Type != "content_block_start" || e.Type == "content_block_start" && *e.Index != last+1) {
			return m, fmt.Errorf("%s with index %d after %d blocks", e.Type, *e.Index, len(m.Content))
		}
		switch e.Type {
		case "message_start":
			m.starts++
			err = json.Unmarshal(e.Message, &m)
		case "content_block_start":
			stopped()
			m.Content, open = append(m.Content, *e.Block), true
		case "content_block_delta":
			b := &m.Content[last]
			if b.Text != nil {
				text := *b.Text + e.Delta.Text
				b.Text = &text
			}
			if b.Thinking != nil {
				text := *b.Thinking + e.Delta.Thinking
				b.Thinking = &text
			}
			b.Signature += e.Delta.Signature
			input += e.Delta.Partial
			if e.Delta.Citation != nil {
				b.Citations = append(bytes.TrimSuffix(b.Citations, []byte("]")), e.Delta.Citation...)
				b.Citations = append(bytes.Replace(b.Citations, []byte("}{"), []byte("},{"), 1), ']')
			}
		case "content_block_stop":
			stopped()
		case "message_delta":
			if e.Delta.Stop != "" {
				m.Stop = e.Delta.Stop
			}
			if e.Usage != nil {
				err = json.Unmarshal(e.Usage, &m.Usage)
			}
			m.vendor = string(e.Sidenote)
		case "message_stop":
			m.ends++
		case "error":
			m.errors++
		}
		if err != nil {
			return m, fmt.Errorf("%w: %q", err, text)
		}
	}
	stopped()
	return m, nil
}

// clientGets returns the blocks of a round that the client gets.
func clientGets(blocks []writtenBlock, goes, hide, thought bool) (list []writtenBlock) {
	for _, b := range blocks {
		switch {
		case b.ours(), b.thinks() && thought:
		case goes && hide && !b.thinks():
		default:
			list = append(list, b)
		}
	}
	return list
}

// Any rounds become one message: one start and one end, the blocks that the client gets in order with
// indexes without gaps, thinking of one round, the right stop reason, and the usage of all rounds. The
// upstream gets back each block as it wrote it. Streams and whole answers tell the same, and one
// without anything to leave out stays as it is.
func TestAnyMessages(t *testing.T) {
	manyResponses(t, anyMessages)
}

var (
	goingBlocks = []string{"text", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "ours", "ours"}
	anyBlocks   = append(slices.Clone(goingBlocks), "tool_use", "text")
	stops       = []string{"end_turn", "tool_use", "stop_sequence", "max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"}
)

func anyMessages(t *rapid.T) {
	hide := rapid.Bool().Draw(t, "hide")
	habit := drawMessageHabit(t)
	most := rapid.IntRange(1, 3).Draw(t, "rounds")
	l, w := answer.NewLoop(messagesRules(hide)), answer.NewLoop(messagesRules(hide))
	var out bytes.Buffer
	var splitter answer.Splitter
	var want []writtenBlock
	var sent, wantStop, body string
	var shown answer.LoopTurn
	wantInput, wantOutput, round, thought, touched := 0, 0, 0, false, false
	for {
		round++
		last := round == most
		var blocks []writtenBlock
		kinds := goingBlocks
		if last {
			kinds = anyBlocks
		}
		for n, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 6).Draw(t, "blocks") {
			blocks = append(blocks, drawWritten(t, kind, fmt.Sprintf("id_%d_%d", round, n)))
		}
		stop, h := rapid.SampledFrom(stops).Draw(t, "stop"), habit
		if !last {
			h.cut, h.fault, stop = 0, "", "tool_use"
		}
		events := h.eventsOf(t, round, blocks, stop)
		sent = strings.Join(events, "")
		l.Begin(last)
		w.Begin(last)
		splitter.Reset(true, &out, l.Stage)
		text := sent
		if h.mark {
			text = answer.MarkEvents + text
		}
		for piece := range slices.Chunk([]byte(text), rapid.IntRange(1, 200).Draw(t, "size")) {
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
		cut := h.cut > 0 || h.fault != "" && len(blocks) > 0
		body = wholeOf(round, blocks, stop)
		whole, ok := w.EndWhole([]byte(body))
		if !ok {
			t.Fatalf("not an answer: %s", body)
		}
		goes := whole.Continues() && !last
		if !cut {
			checkTurn(t, turn, blocks)
			if turn.Finish != whole.Finish || !turn.Ended || !whole.Ended || turn.Text != whole.Text || l.HasOutput() != w.HasOutput() {
				t.Fatalf("streamed %+v, whole %+v", turn, whole)
			}
			if diff := cmp.Diff(parts(turn), parts(whole)); diff != "" {
				t.Fatalf("what the client does not get differs: %s", diff)
			}
		} else if turn.Ended && strings.Contains(sent, "overloaded_error") {
			t.Fatal("it ended with an error")
		}
		checkTurn(t, whole, blocks)
		got := clientGets(blocks, goes, hide, thought)
		want = append(want, got...)
		touched = touched || len(got) < len(blocks)
		thought = thought || slices.ContainsFunc(got, func(b writtenBlock) bool { return b.thinks() })
		wantInput, wantOutput = wantInput+10*round, wantOutput+100*round
		if !goes {
			shown = whole
			wantStop = stop
			if stop == "tool_use" && len(whole.OurCalls) > 0 && len(whole.ClientCalls) == 0 {
				wantStop = "end_turn"
			}
			break
		}
		if err := errors.Join(l.Continue(&out), w.Continue(&out)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(&out, nil, ""); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if strings.Contains(got, secret) {
		t.Fatalf("a call of ours reaches the client: %s", got)
	}
	body2, changed := w.Whole(&shown, nil)
	if changed != (touched || round > 1) {
		t.Fatalf("changed %v: %s", changed, body2)
	}
	if !touched && round == 1 {
		if got != sent && (!habit.comments && habit.noPings || withoutPings(got) != withoutPings(sent)) {
			t.Fatalf("nothing was to be changed: %s", cmp.Diff(sent, got))
		}
		if string(body2) != body {
			t.Fatalf("%s became %s", body, body2)
		}
	}
	var m clientMessage
	if err := json.Unmarshal(body2, &m); err != nil {
		t.Fatal(err)
	}
	check := func(m clientMessage, streamed bool) {
		t.Helper()
		if diff := cmp.Diff(blocksJSON(want), blocksJSON(m.Content)); diff != "" {
			t.Fatalf("streamed %v, the content differs: %s\n%s", streamed, diff, got)
		}
		if m.Stop != wantStop {
			t.Fatalf("streamed %v, it stopped for %s, not %s", streamed, m.Stop, wantStop)
		}
		if streamed && habit.noUsageAtEnd {
			return
		}
		if m.Usage.Input != wantInput || m.Usage.Output != wantOutput || m.Usage.Written != 2*round || m.Usage.Creation.Hour != round || m.Usage.Server.Searches != round {
			t.Fatalf("streamed %v, usage %+v, want %d and %d of %d rounds", streamed, m.Usage, wantInput, wantOutput, round)
		}
	}
	check(m, false)
	m, err := readMessage(got)
	if err != nil && !(habit.noIndexes || habit.noStops) {
		t.Fatalf("%v in %s", err, got)
	}
	if m.starts != 1 || m.ends > 1 || m.ID != "msg_1" {
		t.Fatalf("%d starts and %d ends of %s in %s", m.starts, m.ends, m.ID, got)
	}
	if habit.cut == 0 && habit.fault == "" {
		if m.ends != 1 {
			t.Fatalf("no end in %s", got)
		}
		check(m, true)
	}
}

// parts returns what the client does not get, with comparable JSON.
func parts(turn answer.LoopTurn) (list []string) {
	for _, p := range turn.Unseen() {
		var v any
		if json.Unmarshal(p.JSON, &v) != nil {
			list = append(list, "not JSON: "+string(p.JSON))
			continue
		}
		raw, _ := json.Marshal(v)
		list = append(list, fmt.Sprint(p.At, p.AfterThinking, string(raw)))
	}
	return list
}

// checkTurn checks that the upstream gets back the blocks as it wrote them.
func checkTurn(t *rapid.T, turn answer.LoopTurn, blocks []writtenBlock) {
	t.Helper()
	messages := turn.Messages()
	var m struct {
		Role    string
		Content []writtenBlock
	}
	if err := json.Unmarshal(messages[0], &m); err != nil || len(messages) != 1 || m.Role != "assistant" {
		t.Fatalf("%v: %s", err, messages)
	}
	var want []writtenBlock
	nOurs, nTheirs := 0, 0
	for _, b := range blocks {
		if b.ours() {
			nOurs++
		}
		if b.theirs() {
			nTheirs++
		}
		if b.Text == nil || strings.TrimSpace(*b.Text) != "" {
			want = append(want, b)
		}
	}
	if diff := cmp.Diff(blocksJSON(want), blocksJSON(m.Content)); diff != "" {
		t.Fatalf("the message goes back up changed: %s", diff)
	}
	if len(turn.OurCalls) != nOurs || len(turn.ClientCalls) != nTheirs {
		t.Fatalf("%d calls of ours and %d of the client, want %d and %d", len(turn.OurCalls), len(turn.ClientCalls), nOurs, nTheirs)
	}
}

func blocksJSON(list []writtenBlock) (all []string) {
	for i := range list {
		all = append(all, list[i].json())
	}
	return all
}

// withoutPings removes comments and pings, which are not held back.
func withoutPings(stream string) string {
	var b strings.Builder
	for _, event := range strings.SplitAfter(strings.ReplaceAll(stream, "\r\n", "\n"), "\n\n") {
		if !strings.HasPrefix(event, ":") && !strings.Contains(event, `"ping"`) {
			b.WriteString(event)
		}
	}
	return b.String()
}
