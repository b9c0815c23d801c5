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
	"sidenote/proxy/answer/answertest"
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
	starts, ends int
}

// readMessage reads the client's stream.
func readMessage(stream string) (m clientMessage, err error) {
	joined, err := answertest.JoinMessage(stream)
	if err != nil {
		return m, err
	}
	raw, err := json.Marshal(joined.Message)
	if err != nil {
		return m, err
	}
	m.starts, m.ends = joined.Starts, joined.Ends
	return m, json.Unmarshal(raw, &m)
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

// blocksJSON returns blocks in a form in which equal ones have equal texts.
func blocksJSON(list []writtenBlock) (all []string) {
	for i := range list {
		var v any
		if err := json.Unmarshal([]byte(list[i].json()), &v); err != nil {
			panic(err)
		}
		raw, _ := json.Marshal(v)
		all = append(all, string(raw))
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

// messageStream returns a stream with one block of each of the given ones.
func messageStream(stop string, blocks ...string) string {
	var b strings.Builder
	b.WriteString(`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n")
	for n, block := range blocks {
		fmt.Fprintf(&b, "data: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":%s}\n\ndata: {\"type\":\"content_block_stop\",\"index\":%d}\n\n", n, block, n)
	}
	fmt.Fprintf(&b, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":%q},\"usage\":{\"output_tokens\":5}}\n\ndata: {\"type\":\"message_stop\"}\n\n", stop)
	return b.String()
}

const ourUse = `{"type":"tool_use","id":"o","name":"search_knowledge","input":{"query":"x"}}`

// readRound reads a stream as a round of a loop and returns what the client gets before its end.
func readRound(t testing.TB, l answer.Loop, last bool, stream string) (turn answer.LoopTurn, out *bytes.Buffer) {
	t.Helper()
	l.Begin(last)
	out = new(bytes.Buffer)
	var splitter answer.Splitter
	splitter.Reset(true, out, l.Stage)
	if _, err := splitter.Write([]byte(stream)); err != nil {
		t.Fatal(err)
	}
	if err := splitter.Close(); err != nil {
		t.Fatal(err)
	}
	turn, err := l.EndStream(out)
	if err != nil {
		t.Fatal(err)
	}
	return turn, out
}

// An answer that is cut short or paused does not continue, whatever it calls.
func TestMessagesThatDoNotContinue(t *testing.T) {
	for stop, finish := range map[string]string{"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "content_filter", "pause_turn": "pause_turn"} {
		l := answer.NewLoop(messagesRules(false))
		turn, out := readRound(t, l, false, messageStream(stop, ourUse))
		if turn.Continues() || turn.Finish != finish || !turn.Ended || len(turn.OurCalls) != 1 {
			t.Errorf("%s: %+v", stop, turn)
		}
		if err := l.Finish(out, nil, ""); err != nil {
			t.Fatal(err)
		}
		if m, err := readMessage(out.String()); err != nil || m.Stop != stop || len(m.Content) != 0 {
			t.Errorf("%s: %v in %s", stop, err, out)
		}
	}
	l := answer.NewLoop(messagesRules(false))
	if turn, _ := readRound(t, l, false, strings.Replace(messageStream("tool_use", ourUse), "data: {\"type\":\"message_stop\"}\n\n", `data: {"type":"error","error":{"type":"api_error","message":"x"}}`+"\n\n", 1)); turn.Ended {
		t.Error("an answer with an error ended")
	}
}

// Servers that give the input of a call as a string, no id, or a stop reason without calls are
// understood.
func TestOddCallsOfMessages(t *testing.T) {
	for block, want := range map[string]string{
		ourUse: `{"query":"x"}`,
		strings.Replace(ourUse, `{"query":"x"}`, `"{\"query\":\"x\"}"`, 1): `{"query":"x"}`,
		strings.Replace(ourUse, `{"query":"x"}`, `""`, 1):                  `{}`,
		strings.Replace(ourUse, `{"query":"x"}`, `null`, 1):                `{}`,
		strings.Replace(ourUse, `{"query":"x"}`, `[1]`, 1):                 `{}`,
		strings.Replace(ourUse, `"id":"o",`, "", 1):                        `{"query":"x"}`,
	} {
		for _, stream := range []bool{true, false} {
			l := answer.NewLoop(messagesRules(false))
			var turn answer.LoopTurn
			if stream {
				turn, _ = readRound(t, l, false, messageStream("end_turn", block))
			} else {
				l.Begin(false)
				turn, _ = l.EndWhole([]byte(`{"content":[` + block + `]}`))
			}
			var m struct {
				Content []struct {
					ID    string
					Input json.RawMessage
				}
			}
			if err := json.Unmarshal(turn.Messages()[0], &m); err != nil || !turn.Continues() {
				t.Fatalf("%s: %v, continues %v", block, err, turn.Continues())
			}
			if got := m.Content[0]; string(got.Input) != want || got.ID == "" || got.ID != turn.OurCalls[0].ID {
				t.Errorf("stream %v, %s went up as %s", stream, block, turn.Messages()[0])
			}
		}
	}
}

// Blocks that are not announced are passed on, as is everything unknown.
func TestUnannouncedBlocks(t *testing.T) {
	const stream = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"hm"}}` + "\n\n" +
		`data: {"type":"x_new","index":7}` + "\n\ndata: no JSON\n\n" + `data: {"type":"content_block_stop","index":9}` + "\n\n" +
		`data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}` + "\n\n" +
		`data: {"type":"message_stop"}` + "\n\n"
	for _, hide := range []bool{false, true} {
		l := answer.NewLoop(messagesRules(hide))
		turn, out := readRound(t, l, false, stream)
		if turn.Text != "Hi" || !turn.Ended || len(turn.ClientCalls) != 1 || !l.HasOutput() {
			t.Errorf("%+v", turn)
		}
		if err := l.Finish(out, nil, ""); err != nil {
			t.Fatal(err)
		}
		if out.String() != stream && !hide || len(out.String()) != len(stream) {
			t.Errorf("hide %v: it became %s", hide, out)
		}
	}
}

// The member "sidenote" and the comment come near the end. Errors have Anthropic's form.
func TestEndsOfMessages(t *testing.T) {
	l := answer.NewLoop(messagesRules(false))
	_, out := readRound(t, l, true, messageStream("end_turn", `{"type":"text","text":"Hi"}`))
	if err := l.Finish(out, json.RawMessage(`{"a":1}`), "done"); err != nil {
		t.Fatal(err)
	}
	if j, err := answertest.JoinMessage(out.String()); err != nil || j.Ends != 1 || !cmp.Equal(j.Vendor, any(map[string]any{"a": 1.0})) || !strings.Contains(out.String(), "\n\n: done\n\ndata: {\"type\":\"message_delta\"") {
		t.Errorf("%v, %v: %s", j.Vendor, err, out)
	}
	body, changed := wholeLoop(t, `{"content":[{"type":"text","text":"Hi"}]}`).Whole(nil, json.RawMessage(`{"a":1}`))
	if want := `{"content":[{"type":"text","text":"Hi"}],"sidenote":{"a":1}}`; string(body) != want || !changed {
		t.Errorf("%s, want %s", body, want)
	}
	for body, want := range map[string]string{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:    `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		`{"error":{"type":"server_error","message":"x","param":null,"code":"not_sent"}}`: `{"type":"error","error":{"type":"api_error","message":"x"}}`,
		`<html>`: `{"type":"error","error":{"type":"api_error","message":"The answer broke off between two calls; try again."}}`,
	} {
		out.Reset()
		if err := l.Fail(out, []byte(body)); err != nil || out.String() != "event: error\ndata: "+want+"\n\n" {
			t.Errorf("%s became %s, %v", body, out, err)
		}
	}
}

// wholeLoop returns a loop that has read a whole answer in its only round.
func wholeLoop(t testing.TB, body string) answer.Loop {
	t.Helper()
	l := answer.NewLoop(messagesRules(false))
	l.Begin(true)
	if _, ok := l.EndWhole([]byte(body)); !ok {
		t.Fatalf("not an answer: %s", body)
	}
	return l
}

// Other bodies are no answers.
func TestNoMessages(t *testing.T) {
	for _, body := range []string{``, `7`, `{}`, `{"content":null}`, `{"content":"x"}`, `{"type":"error","error":{},"content":[]}`, `{"input_tokens":7}`, `{"content":[`} {
		l := answer.NewLoop(messagesRules(false))
		l.Begin(false)
		if _, ok := l.EndWhole([]byte(body)); ok {
			t.Errorf("%s is an answer", body)
		}
	}
}

// A whole answer becomes a stream from which clients read the same.
func TestEventsOfMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var blocks []writtenBlock
		for n, kind := range rapid.SliceOfN(rapid.SampledFrom(anyBlocks), 0, 5).Draw(t, "blocks") {
			blocks = append(blocks, drawWritten(t, kind, fmt.Sprint("id", n)))
		}
		body := wholeOf(1, blocks, rapid.SampledFrom(stops).Draw(t, "stop"))
		stream := string(answer.NewLoop(messagesRules(false)).Events([]byte(body), true, "done"))
		var want, got clientMessage
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(stream)
		if err != nil || got.starts != 1 || got.ends != 1 || !strings.Contains(stream, ": done\n\n") {
			t.Fatalf("%v in %s", err, stream)
		}
		if diff := cmp.Diff(blocksJSON(want.Content), blocksJSON(got.Content)); diff != "" || got.Stop != want.Stop || got.Usage != want.Usage || got.ID != want.ID {
			t.Fatalf("%s\n%s\n%s", diff, body, stream)
		}
	})
}

// A round that is discarded leaves nothing but its usage, and an earlier answer can be replayed.
func TestDiscardedMessages(t *testing.T) {
	l := answer.NewLoop(messagesRules(true))
	if _, out := readRound(t, l, true, messageStream("end_turn", `{"type":"text","text":" \n"}`)); l.HasOutput() || out.Len() == 0 {
		t.Errorf("white space is output: %s", out)
	}
	l.DiscardRound()
	_, out := readRound(t, l, true, messageStream("end_turn", `{"type":"text","text":"Hi"}`))
	if err := l.Finish(out, nil, ""); err != nil {
		t.Fatal(err)
	}
	if m, err := readMessage(out.String()); err != nil || m.Usage.Input != 6 || m.Usage.Output != 10 || len(m.Content) != 1 || l.ClientText() != "Hi" {
		t.Errorf("%+v, %v: %s", m, err, out)
	}
	l.DiscardRound()
	body := l.ReplayWhole([]byte(`{"content":[{"type":"text","text":"Draft"}],"usage":{"input_tokens":3,"output_tokens":5}}`))
	if want := `{"content":[{"type":"text","text":"Draft"}],"usage":{"input_tokens":6,"output_tokens":10}}`; string(body) != want {
		t.Errorf("%s, want %s", body, want)
	}
}

// All that a stream makes the loop keep is taken from its memory.
func TestMessagesTakeMemory(t *testing.T) {
	text := strings.Repeat("x", 64<<10)
	for name, event := range map[string]string{
		"a block":  `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"` + text + `"}}`,
		"text":     `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`,
		"input":    `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"` + text + `"}}`,
		"citation": `{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"x":"` + text + `"}}}`,
		"the end":  `{"type":"message_delta","delta":{"stop_reason":"` + text + `"}}`,
		"no JSON":  `[DONE]` + text,
	} {
		taken := 0
		r := messagesRules(false)
		r.Take = func(n int) bool {
			taken += n
			return taken < 2<<20
		}
		l := answer.NewLoop(r)
		l.Begin(false)
		stage := l.Stage(new(bytes.Buffer))
		var err error
		for range 64 { // 4 MB
			if _, err = stage.Write([]byte("data: " + event + "\n\n")); err != nil {
				break
			}
		}
		if !errors.Is(err, answer.ErrNoLoopRoom) || taken < len(text) {
			t.Errorf("%s: %d bytes are taken, %v", name, taken, err)
		}
	}
}

// Answers with very many blocks or pieces are read in linear time; in quadratic time they would take
// minutes.
func TestManyBlocks(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 8000
	}
	for _, hide := range []bool{false, true} {
		for name, block := range map[string]string{
			"texts": `{"type":"text","text":"0123456789012345678901234567890123456789"}`, "ours": ourUse, "thinking": `{"type":"thinking","thinking":"x"}`, "spaces": `{"type":"text","text":" "}`,
		} {
			linear(t, fmt.Sprintf("%s, hide %v", name, hide), n, func(n int) {
				l := answer.NewLoop(messagesRules(hide))
				turn, out := readRound(t, l, false, messageStream("tool_use", slices.Repeat([]string{block}, n)...))
				turn.Messages()
				turn.Unseen()
				if err := l.Finish(out, nil, ""); err != nil {
					t.Fatal(name, err)
				}
				l.Begin(true)
				l.ClientText()
				w := answer.NewLoop(messagesRules(hide))
				w.Begin(false)
				whole, _ := w.EndWhole([]byte(`{"content":[` + strings.Repeat(block+",", n-1) + block + `]}`))
				w.Whole(&whole, nil)
			})
		}
	}
	for _, delta := range []string{`{"type":"text_delta","text":" "}`, `{"type":"citations_delta","citation":{}}`, `{"type":"input_json_delta","partial_json":" "}`, `{"type":"x","a":"b","c":{}}`} {
		linear(t, delta, n, func(n int) {
			l := answer.NewLoop(messagesRules(false))
			readRound(t, l, false, strings.Repeat(`data: {"type":"content_block_delta","index":0,"delta":`+delta+"}\n\n", n))
		})
	}
}

// Any input is handled: what goes back up and what the client gets of a whole answer is JSON.
func FuzzMessagesLoop(f *testing.F) {
	f.Add([]byte(messageStream("tool_use", ourUse)), uint8(3), true)
	f.Add([]byte("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":\"a\",\"content_block\":7}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\r\n\r\ndata: {\"type\":\"message_delta\",\"delta\":7,\"usage\":7}\n\ndata: [DONE]"), uint8(0), false)
	f.Add([]byte(`{"type":"message","content":[{"type":"thinking"},`+ourUse+`,7,null,{"type":"text","text":"x"}],"stop_reason":"tool_use","usage":7}`), uint8(9), false)
	f.Fuzz(func(t *testing.T, stream []byte, size uint8, hide bool) {
		l := answer.NewLoop(messagesRules(hide))
		var out bytes.Buffer
		var splitter answer.Splitter
		for _, last := range []bool{false, true} {
			l.Begin(last)
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
			checkItems(t, turn)
			if !last && turn.Ended && turn.Continues() {
				if err := l.Continue(&out); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := l.Finish(&out, nil, "c"); err != nil {
				t.Fatal(err)
			}
			break
		}
		l = answer.NewLoop(messagesRules(hide))
		l.Begin(false)
		if turn, ok := l.EndWhole(slices.Clone(stream)); ok {
			checkItems(t, turn)
			body, changed := l.Whole(&turn, nil)
			if !json.Valid(body) && json.Valid(stream) {
				t.Errorf("%s became %s", stream, body)
			}
			if len(turn.OurCalls) == 0 && (changed || !bytes.Equal(body, stream)) {
				t.Errorf("%s became %s", stream, body)
			}
			l.Events(body, true, "c")
		}
	})
}
