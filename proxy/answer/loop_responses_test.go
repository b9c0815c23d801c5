package answer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/proxy/answer"
	"sidenote/rewrite/chat"
)

// responsesRules are the rules of these tests.
func responsesRules(hide, stateless bool) answer.LoopRules {
	return answer.LoopRules{API: chat.Responses, Ours: isOurs, HideText: hide, Stateless: stateless}
}

// A streamedItem is an output item and the events that it is streamed in.
type streamedItem struct {
	kind   string
	raw    string   // finished
	begun  string   // as output_item.added has it
	events []string // those between, as members that begin with the type
	ours   bool
	theirs bool // the client must answer it
	sealed bool // reasoning with encrypted_content
}

// A responseHabit is how a server streams a response.
type responseHabit struct {
	noEventLines, noNumbers, noCreated, noAdded, noIDs bool
	sameIndex, otherIDs, emptyEnd, done                bool
	comments, interleaved, crlf, mark                  bool
	first, step                                        int    // sequence numbers
	layout                                             string // of JSON: "", spaces or lines
	terminal                                           string // completed, incomplete, failed; "" for none
	fault                                              string // an event in the middle
}

// secret is in each call of ours, and must not reach the client.
const secret = "SECRET"

var itemTexts = rapid.StringOfN(rapid.SampledFrom([]rune("abc \n\"\\<&ä查😀{}[]\u2028")), 0, 12, -1)

// drawItem draws the item with that number of a round.
func drawItem(t *rapid.T, kind string, id string) (i streamedItem) {
	str := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	deltas := func(event, text, more string) {
		for _, piece := range append([]string{""}, strings.SplitAfter(text, " ")...) {
			i.events = append(i.events, fmt.Sprintf(`"type":"response.%s","delta":%s%s`, event, str(piece), more))
		}
	}
	i.kind = kind
	odd := rapid.SampledFrom([]string{"", `,"x_odd":1.0`, `,"x_odd":{"a":[12345678901234567890,1e3]}`}).Draw(t, "odd")
	head := fmt.Sprintf(`{"id":%q,"type":%q`, id, kind)
	switch kind {
	case "reasoning":
		text := itemTexts.Draw(t, "thought")
		deltas("reasoning_summary_text.delta", text, `,"summary_index":0`)
		i.raw = head + `,"summary":[{"type":"summary_text","text":` + str(text) + "}]"
		if i.sealed = rapid.Bool().Draw(t, "sealed"); i.sealed {
			i.raw += `,"encrypted_content":"gAAA=="`
		}
		i.begun = head + `,"summary":[]`
	case "message":
		var parts []string
		for n := range rapid.IntRange(0, 3).Draw(t, "parts") {
			text, at := itemTexts.Draw(t, "text"), fmt.Sprintf(`,"content_index":%d`, n)
			part := `{"type":"output_text","annotations":[],"text":` + str(text) + "}"
			if rapid.Bool().Draw(t, "refused") {
				part = `{"type":"refusal","refusal":` + str(text) + "}"
				deltas("refusal.delta", text, at)
			} else {
				i.events = append(i.events, `"type":"response.content_part.added","part":{}`+at)
				deltas("output_text.delta", text, at+`,"logprobs":[],"obfuscation":"x9"`)
				i.events = append(i.events, `"type":"response.content_part.done","part":`+part+at)
			}
			parts = append(parts, part)
		}
		i.raw = head + `,"role":"assistant","content":[` + strings.Join(parts, ",") + "]"
		i.begun = head + `,"role":"assistant","content":[]`
	case "ours", "function_call":
		name := rapid.SampledFrom([]string{"weather", "search", "search_knowledge_2", "s"}).Draw(t, "name")
		arguments := str(`{"query":` + str(itemTexts.Draw(t, "query")) + "}")
		i.theirs = kind == "function_call"
		if i.ours = !i.theirs; i.ours {
			name = rapid.SampledFrom(ours).Draw(t, "ours")
			arguments = str(`{"` + secret + `":1}`)
			i.kind, id = "function_call", secret+id
		}
		head = fmt.Sprintf(`{"id":%q,"type":"function_call","call_id":"call_%s"`, id, id)
		deltas("function_call_arguments.delta", arguments[1:2], `,"x":"`+id+`"`)
		i.events[1] = `"type":"response.function_call_arguments.delta","delta":` + arguments
		named := fmt.Sprintf(`,"name":%q`, name)
		i.raw, i.begun = head+named+`,"arguments":`+arguments, head+named+`,"arguments":""`
		switch rapid.SampledFrom([]string{"", "", "", "arguments", "done"}).Draw(t, "named at") {
		case "arguments":
			i.begun = head + `,"arguments":""`
			i.events = append(i.events, `"type":"response.function_call_arguments.done","arguments":`+arguments+named)
		case "done":
			i.begun = head + `,"arguments":""`
		default:
			i.events = append(i.events, `"type":"response.function_call_arguments.done","arguments":`+arguments)
		}
	case "custom_tool_call":
		i.theirs = true
		deltas("custom_tool_call_input.delta", itemTexts.Draw(t, "input"), "")
		head += `,"call_id":"call_` + id + `","name":"search_knowledge"`
		i.raw, i.begun = head+`,"input":"x"`, head+`,"input":""`
	default:
		i.theirs = kind == "computer_call"
		deltas(kind+".progress", itemTexts.Draw(t, "progress"), "")
		i.raw, i.begun = head+`,"status":"completed"`, head+`,"status":"in_progress"`
	}
	i.raw += odd + "}"
	i.begun += "}"
	return i
}

// drawRound draws the items of a round.
func drawRound(t *rapid.T, round int, kinds []string) (items []streamedItem) {
	for n, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 6).Draw(t, "items") {
		items = append(items, drawItem(t, kind, fmt.Sprintf("it_%d_%d", round, n)))
	}
	return items
}

var (
	goingKinds = []string{"reasoning", "message", "web_search_call", "mcp_call", "x_hologram", "ours", "ours"}
	anyKinds   = append(slices.Clone(goingKinds), "function_call", "custom_tool_call", "computer_call", "reasoning")
)

// drawHabit draws how a server streams.
func drawHabit(t *rapid.T) (h responseHabit) {
	one := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) == 0 }
	h = responseHabit{
		noEventLines: one("no event lines"), noNumbers: one("no numbers"), noCreated: one("not created"), noAdded: one("not added"), noIDs: one("no ids"),
		sameIndex: one("same index"), otherIDs: one("other ids at the end"), emptyEnd: one("empty end"), done: one("done"),
		comments: one("comments"), interleaved: rapid.Bool().Draw(t, "interleaved"), crlf: one("crlf"), mark: one("mark"),
		first: rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, "first"), step: rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "step"),
		layout: rapid.SampledFrom([]string{"", "", "spaces", "lines"}).Draw(t, "layout"), terminal: rapid.SampledFrom([]string{"completed", "completed", "completed", "incomplete", "failed", ""}).Draw(t, "terminal"),
	}
	if one("fault") {
		h.fault = rapid.SampledFrom([]string{`"type":"error","code":"overloaded","message":"x"`, `"type":"x","error":{"message":"x"}`}).Draw(t, "fault event")
	}
	if h.sameIndex { // its events would belong to any item
		h.interleaved, h.noAdded = false, false
	}
	return h
}

// withoutID removes the id of an item.
func withoutID(raw string) string {
	_, rest, _ := strings.Cut(raw, `,"type"`)
	return `{"type"` + rest
}

// streamOf returns the events of a round, and its items as the last event has them.
func streamOf(t *rapid.T, h responseHabit, round int, items []streamedItem) (events []string, end []string) {
	number := h.first
	add := func(members string) {
		var kind struct{ Type string }
		if err := json.Unmarshal([]byte("{"+members+"}"), &kind); err != nil {
			t.Fatal(err, members)
		}
		if !h.noNumbers {
			members += fmt.Sprintf(`,"sequence_number":%d`, number)
			number += h.step
		}
		data := "{" + members + "}"
		if h.layout != "" {
			var b bytes.Buffer
			if err := json.Indent(&b, []byte(data), "", " "); err != nil {
				t.Fatal(err)
			}
			data = strings.ReplaceAll(b.String(), "\n", map[string]string{"spaces": " ", "lines": "\ndata: "}[h.layout])
		}
		event := "data: " + data + "\n\n"
		if !h.noEventLines {
			event = "event: " + kind.Type + "\n" + event
		}
		if h.crlf {
			event = strings.ReplaceAll(event, "\n", "\r\n")
		}
		events = append(events, event)
		if h.comments {
			events = append(events, ": "+kind.Type+"\n\n")
		}
	}
	response := func(status string, output []string) string {
		return fmt.Sprintf(`"response":{"id":"resp_%d","object":"response","created_at":%d,"status":%q,"output":[%s],"usage":{"input_tokens":3,"output_tokens":%d,"total_tokens":5}}`,
			round, 1000+round, status, strings.Join(output, ","), round)
	}
	if !h.noCreated {
		add(`"type":"response.created",` + response("in_progress", nil))
		add(`"type":"response.in_progress",` + response("in_progress", nil))
	}
	queues := make([][]string, len(items))
	for n, i := range items {
		raw, begun := i.raw, i.begun
		at := fmt.Sprintf(`,"output_index":%d`, n)
		if h.sameIndex {
			at = `,"output_index":0`
		}
		id := itemID(t, raw)
		within := at + fmt.Sprintf(`,"item_id":%q`, id)
		if h.noIDs {
			raw, begun, within = withoutID(raw), withoutID(begun), at
		}
		if !h.noAdded {
			queues[n] = append(queues[n], `"type":"response.output_item.added","item":`+begun+at)
		}
		for _, members := range i.events {
			queues[n] = append(queues[n], members+within)
		}
		queues[n] = append(queues[n], `"type":"response.output_item.done","item":`+raw+at)
		if h.otherIDs {
			raw = strings.Replace(raw, `"id":"`, `"id":"other_`, 1)
			raw = strings.Replace(raw, `"call_id":"`, `"call_id":"other_`, 1)
		}
		end = append(end, raw)
	}
	begun := 0
	for left := true; left; {
		left = false
		var open []int
		for n := range queues {
			if len(queues[n]) > 0 && n <= begun {
				open = append(open, n)
			}
		}
		if len(open) > 0 {
			left = true
			n := open[0]
			if h.interleaved {
				n = rapid.SampledFrom(open).Draw(t, "next")
			}
			add(queues[n][0])
			queues[n] = queues[n][1:]
			if n == begun {
				begun++
			}
			if rapid.IntRange(0, 19).Draw(t, "between") == 0 {
				add(rapid.SampledFrom([]string{`"type":"response.rate_limits.updated","x":1`, `"type":"response.in_progress",` + response("in_progress", nil)}).Draw(t, "event between"))
			}
			if n == 0 && h.fault != "" {
				add(h.fault)
				h.fault = ""
			}
		}
	}
	output := end
	if h.emptyEnd {
		output = nil
	}
	if h.terminal != "" {
		add(`"type":"response.` + h.terminal + `",` + response(h.terminal, output))
	}
	if h.done {
		events = append(events, "data: [DONE]\n\n")
	}
	return events, end
}

func itemID(t *rapid.T, raw string) string {
	var i struct{ ID string }
	if err := json.Unmarshal([]byte(raw), &i); err != nil {
		t.Fatal(err, raw)
	}
	return i.ID
}

// clientItems returns which items of a round the client gets. goes says that another round follows.
func clientItems(items []streamedItem, goes, last, hide, stream bool) (list []int) {
	waiting := []int(nil) // reasoning
	hidden := false
	for n, i := range items {
		switch {
		case i.ours:
		case goes && (hidden || hide && i.kind == "message"):
			hidden = true
		case i.kind == "reasoning" && !(last && stream):
			waiting = append(waiting, n)
		default:
			list = append(append(list, waiting...), n)
			waiting = nil
		}
	}
	for _, n := range waiting {
		next := slices.IndexFunc(items[n:], func(i streamedItem) bool { return i.kind != "reasoning" })
		if !goes && (next < 0 || !items[n+next].ours) { // the upstream ended like this
			list = append(list, n)
		}
	}
	return list
}

// A clientStream is what is read of the client's stream.
type clientStream struct {
	created, ends int
	items         []string // of output_item.done
	output        []string // of the last response
	id            string
	usage         struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
	numbers []int
	indexes []int // of items as they are finished
}

// readClient reads the client's stream.
func readClient(t *rapid.T, stream string) (c clientStream) {
	stream = strings.TrimPrefix(strings.ReplaceAll(stream, "\r\n", "\n"), answer.MarkEvents)
	for _, text := range strings.SplitAfter(stream, "\n\n") {
		data, _ := answer.Data([]byte(text))
		if data == nil || string(bytes.TrimSpace(data)) == "[DONE]" {
			continue
		}
		var e struct {
			Type     string
			Number   *int `json:"sequence_number"`
			Index    int  `json:"output_index"`
			Item     json.RawMessage
			Response *struct {
				ID     string
				Output []json.RawMessage
				Usage  json.RawMessage
			}
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		if e.Number != nil {
			c.numbers = append(c.numbers, *e.Number)
		}
		switch e.Type {
		case "response.created":
			c.created++
			c.id = e.Response.ID
		case "response.output_item.done":
			c.items = append(c.items, compact(t, e.Item))
			c.indexes = append(c.indexes, e.Index)
		case "response.completed", "response.incomplete", "response.failed":
			c.ends++
			if c.id != "" && c.id != e.Response.ID {
				t.Fatalf("%s began and %s ended", c.id, e.Response.ID)
			}
			for _, raw := range e.Response.Output {
				c.output = append(c.output, compact(t, raw))
			}
			if err := json.Unmarshal(e.Response.Usage, &c.usage); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func compact(t *rapid.T, raw []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return b.String()
}

// manyResponses checks hundreds of drawn answers, with SIDENOTE_LONG=1 tens of thousands.
func manyResponses(t *testing.T, check func(*rapid.T)) {
	t.Helper()
	n := 4
	if os.Getenv("SIDENOTE_LONG") != "" {
		n = 200
	}
	for range n {
		rapid.Check(t, check)
	}
}

// Any rounds of a stream become one response: one begin and one end, numbers and indexes without
// gaps, all items but ours in order, the same in their events and at the end, no reasoning whose
// item the client does not get, and the usage of all rounds. The upstream gets back each item as it
// sent it. A stream without anything to leave out stays as it is.
func TestAnyResponsesStream(t *testing.T) {
	manyResponses(t, func(t *rapid.T) { anyResponses(t, true) })
}

// So do whole answers.
func TestAnyWholeResponses(t *testing.T) {
	manyResponses(t, func(t *rapid.T) { anyResponses(t, false) })
}

func anyResponses(t *rapid.T, stream bool) {
	hide, stateless := rapid.Bool().Draw(t, "hide"), rapid.Bool().Draw(t, "stateless")
	habit := drawHabit(t)
	most := rapid.IntRange(1, 3).Draw(t, "rounds")
	l := answer.NewLoop(responsesRules(hide, stateless))
	var out bytes.Buffer
	var splitter answer.Splitter
	var want, sent []string // the client's items, and the last round's bytes
	wantUsage, rounds, touched, lastFailed := 0, 0, false, false
	for {
		rounds++
		last := rounds == most
		kinds := goingKinds
		if last {
			kinds = anyKinds
		}
		items, h := drawRound(t, rounds, kinds), habit
		if !last {
			h.terminal, h.fault = "completed", ""
		}
		wantUsage += rounds
		l.Begin(last)
		var turn answer.LoopTurn
		var end []string
		if stream {
			var events []string
			events, end = streamOf(t, h, rounds, items)
			sent = events
			text := strings.Join(events, "")
			if h.mark {
				text = answer.MarkEvents + text
			}
			splitter.Reset(true, &out, l.Stage)
			for piece := range slices.Chunk([]byte(text), rapid.IntRange(1, 200).Draw(t, "size")) {
				if _, err := splitter.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if err := splitter.Close(); err != nil {
				t.Fatal(err)
			}
			var err error
			if turn, err = l.EndStream(&out); err != nil {
				t.Fatal(err)
			}
			if h.emptyEnd || h.terminal == "" {
				end = nil
				for _, i := range items {
					if end = append(end, i.raw); h.noIDs {
						end[len(end)-1] = withoutID(i.raw)
					}
				}
			}
		} else {
			for _, i := range items {
				end = append(end, i.raw)
			}
			status := "completed"
			if h.terminal == "incomplete" {
				status = h.terminal
			}
			body := fmt.Sprintf(`{"id":"resp_%d", "created_at":%d,"status":%q,"output":[%s],"usage":{"input_tokens":3,"output_tokens":%d}}`, rounds, rounds, status, strings.Join(end, " , "), rounds)
			sent = []string{body}
			var ok bool
			if turn, ok = l.EndWhole([]byte(body)); !ok {
				t.Fatalf("not an answer: %s", body)
			}
		}
		lastFailed = stream && (h.fault != "" && len(items) > 0 || h.terminal == "failed" || h.terminal == "")
		if turn.Ended == lastFailed && stream {
			t.Fatalf("ended %v, failed %v", turn.Ended, lastFailed)
		}
		var back []string
		for _, raw := range turn.Messages() {
			back = append(back, compact(t, raw))
		}
		var wantBack []string
		nOurs, nTheirs := 0, 0
		for n, i := range items {
			if i.ours {
				nOurs++
			}
			if i.theirs {
				nTheirs++
			}
			if i.kind != "reasoning" || i.sealed || !stateless {
				wantBack = append(wantBack, compact(t, []byte(end[n])))
			}
		}
		if diff := cmp.Diff(wantBack, back); diff != "" {
			t.Fatalf("round %d goes back up changed: %s", rounds, diff)
		}
		if len(turn.OurCalls) != nOurs || len(turn.ClientCalls) != nTheirs {
			t.Fatalf("%d calls of ours and %d of the client, want %d and %d", len(turn.OurCalls), len(turn.ClientCalls), nOurs, nTheirs)
		}
		goes := turn.Continues() && !last
		for _, n := range clientItems(items, goes, last, hide, stream) {
			want = append(want, compact(t, []byte(end[n])))
		}
		touched = touched || nOurs > 0
		if !goes {
			if stream {
				if err := l.Finish(&out, nil, ""); err != nil {
					t.Fatal(err)
				}
				break
			}
			body, changed := l.Whole(&turn, nil)
			if changed != touched {
				t.Fatalf("changed %v, although calls of ours %v", changed, touched)
			}
			out.Write(body)
			break
		}
		if err := l.Continue(&out); err != nil {
			t.Fatal(err)
		}
	}
	got := out.String()
	if strings.Contains(got, secret) || strings.Contains(got, "read_knowledge") {
		t.Fatalf("a call of ours reaches the client: %s", got)
	}
	if !touched && rounds == 1 {
		if all := strings.Join(sent, ""); all != got && (!habit.comments || withoutComments(all) != withoutComments(got)) {
			t.Fatalf("nothing was to be changed: %s", cmp.Diff(all, got))
		}
		return
	}
	if !stream {
		var r struct {
			ID     string
			Output []json.RawMessage
			Usage  struct {
				Output int `json:"output_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(got), &r); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		var output []string
		for _, raw := range r.Output {
			output = append(output, compact(t, raw))
		}
		if diff := cmp.Diff(want, output); diff != "" || r.Usage.Output != wantUsage || r.ID != fmt.Sprintf("resp_%d", rounds) {
			t.Fatalf("%s: %s, usage %d, want %d", r.ID, diff, r.Usage.Output, wantUsage)
		}
		return
	}
	checkClient(t, habit, readClient(t, got), want, wantUsage, got)
}

// rawItems returns items of any kinds with few bytes.
func rawItems(n int, kind string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, kind, i)
	}
	return b.String()
}

// Answers with very many items are read in linear time; in quadratic time they would take minutes.
func TestManyItems(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 16_000
	}
	for name, kind := range map[string]string{
		"messages":  `{"type":"message","id":"m%d","content":[{"type":"output_text","text":"0123456789012345678901234567890123456789"}]}`,
		"ours":      `{"type":"function_call","id":"f%d","call_id":"c","name":"search_knowledge","arguments":"{}"}`,
		"reasoning": `{"type":"reasoning","id":"r%d"}`,
		"no ids":    `{"type":"x","n":%d}`,
	} {
		linear(t, name, n, func(n int) {
			body := `{"output":[` + rawItems(n, kind) + `]}`
			whole := answer.NewLoop(responsesRules(false, false))
			whole.Begin(false)
			turn, ok := whole.EndWhole([]byte(body))
			if !ok || len(turn.Messages()) != n {
				t.Fatalf("%d items", len(turn.Messages()))
			}
			whole.Whole(&turn, nil)
			l := answer.NewLoop(responsesRules(false, false))
			l.Begin(false)
			var out bytes.Buffer
			stage := l.Stage(&out)
			write := func(event string) {
				if _, err := stage.Write([]byte("data: " + event + "\n\n")); err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				item := fmt.Sprintf(kind, i)
				write(fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, i, item))
				write(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item))
			}
			write(`{"type":"response.completed","response":` + strings.ReplaceAll(body, `"id":"`, `"id":"other_`) + "}")
			if turn, err := l.EndStream(&out); err != nil || len(turn.Messages()) != n {
				t.Fatalf("%d items, %v", len(turn.Messages()), err)
			}
			if err := l.Finish(&out, nil, ""); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Calls whose names come last hold back what follows, in linear time, too.
func TestManyUnnamedCalls(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 16_000
	}
	linear(t, "calls", n, func(n int) {
		l := answer.NewLoop(responsesRules(false, false))
		l.Begin(false)
		var out bytes.Buffer
		stage := l.Stage(&out)
		for i := range 2 * n {
			name, kind := "", "added"
			if i >= n {
				name, kind = `,"name":"weather"`, "done"
			}
			if _, err := fmt.Fprintf(stage, `data: {"type":"response.output_item.%s","output_index":%d,"item":{"type":"function_call"%s}}`+"\n\n", kind, i%n, name); err != nil {
				t.Fatal(err)
			}
		}
		if turn, err := l.EndStream(&out); err != nil || len(turn.ClientCalls) != n {
			t.Fatalf("%d calls, %v", len(turn.ClientCalls), err)
		}
		if err := l.Finish(&out, nil, ""); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "item.done"); got != n {
			t.Errorf("%d calls are done", got)
		}
	})
}

// All that a stream makes the loop keep is taken from its memory.
func TestResponsesTakeMemory(t *testing.T) {
	text := strings.Repeat("x", 64<<10)
	item := `{"type":"reasoning","id":"r","summary":[{"text":"` + text + `"}]}`
	for name, event := range map[string]string{
		"reasoning": `{"type":"response.output_item.added","output_index":0,"item":` + item + `}`,
		"arguments": `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"` + text + `"}`,
		"the end":   `{"type":"response.completed","response":{"output":[` + item + `]}}`,
		"the head":  `{"type":"response.created","response":{"id":"` + text + `"}}`,
		"no JSON":   `[DONE]` + text,
	} {
		taken := 0
		r := responsesRules(false, false)
		r.Take = func(n int) bool {
			if n < 0 {
				t.Errorf("%s: %d bytes are taken", name, n)
			}
			taken += n
			return taken < 2<<20
		}
		l := answer.NewLoop(r)
		l.Begin(false)
		stage := l.Stage(new(bytes.Buffer))
		if _, err := stage.Write([]byte("data: " + event + "\n\n")); err != nil {
			t.Fatal(err)
		}
		if taken < len(text) {
			t.Errorf("%s: %d bytes are taken, want at least %d", name, taken, len(text))
		}
		var err error
		for range 64 { // 4 MB
			if _, err = stage.Write([]byte("data: " + event + "\n\n")); err != nil {
				break
			}
		}
		if !errors.Is(err, answer.ErrNoLoopRoom) {
			t.Errorf("%s: 4 MB are held, %v", name, err)
		}
	}
}

// Deeply nested usage and items, and usage with very many members, are read in linear time.
func TestDeepResponses(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 16_000
	}
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	wide := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"m%d":1,`, i)
		}
		return b.String()
	}
	const call = `{"type":"function_call","call_id":"c","name":"search_knowledge","arguments":"{}"`
	for name, body := range map[string]func(n int) string{
		"usage": func(n int) string { return `{"usage":` + deep(n) + `,"output":[` + call + `}]}` },
		"wide":  func(n int) string { return `{"usage":{` + wide(n) + `"z":1},"output":[` + call + `}]}` },
		"item":  func(n int) string { return `{"output":[` + call + `,"x":` + deep(n) + `}]}` },
	} {
		linear(t, name, n, func(n int) {
			l := answer.NewLoop(responsesRules(false, false))
			for range 2 {
				l.Begin(false)
				if turn, ok := l.EndWhole([]byte(body(n))); ok {
					l.Whole(&turn, nil)
				}
			}
		})
	}
}

// Any input is handled: what goes back up and what the client gets of a whole answer is JSON.
func FuzzResponsesLoop(f *testing.F) {
	f.Add([]byte(`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"search_knowledge"}}`+"\n\ndata: {\ndata: \"type\":\"response.completed\",\"response\":{\"output\":[]}}\r\n\r\ndata: [DONE]"), uint8(3), true)
	f.Add([]byte(`data: {"type":"response.function_call_arguments.delta","output_index":"a","item_id":7,"delta":{}}`+"\n\n"+`data: {"type":"response.output_item.done","output_index":0}`+"\n\n: c\n\ndata: x"), uint8(0), false)
	f.Add([]byte(`{"status":"completed","output":[{"type":"reasoning"},{"type":"function_call","name":"search_knowledge"},7,null,{"type":"message","content":[{"type":"output_text","text":"x"}]}],"usage":7}`), uint8(9), false)
	f.Fuzz(func(t *testing.T, stream []byte, size uint8, hide bool) {
		l := answer.NewLoop(responsesRules(hide, size%2 == 0))
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
		l = answer.NewLoop(responsesRules(hide, size%2 == 0))
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
		}
	})
}

// checkItems checks that a turn's items are JSON objects.
func checkItems(t *testing.T, turn answer.LoopTurn) {
	t.Helper()
	all := turn.Messages()
	for _, part := range turn.Unseen() {
		all = append(all, part.JSON)
	}
	for _, raw := range all {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Errorf("%v: the item that goes up is %q", err, raw)
		}
	}
	for _, c := range turn.OurCalls {
		if c.ID == "" || !isOurs(c.Name) {
			t.Errorf("a call of ours is %+v", c)
		}
	}
}

// checkClient checks the client's stream of rounds with calls of ours.
func checkClient(t *rapid.T, h responseHabit, c clientStream, want []string, usage int, got string) {
	if c.created > 1 || c.created == 0 && !h.noCreated {
		t.Fatalf("%d responses were created: %s", c.created, got)
	}
	for n, number := range c.numbers {
		if h.step == 1 && n > 0 && number != c.numbers[n-1]+1 || n > 0 && number <= c.numbers[n-1] {
			t.Fatalf("numbers %v: %s", c.numbers, got)
		}
	}
	if !h.interleaved {
		for n, index := range c.indexes {
			if index != n && !h.sameIndex {
				t.Fatalf("indexes %v: %s", c.indexes, got)
			}
		}
	}
	if h.terminal == "" {
		return
	}
	if c.ends != 1 {
		t.Fatalf("%d ends: %s", c.ends, got)
	}
	if diff := cmp.Diff(want, c.output); diff != "" {
		t.Fatalf("the response has other items: %s\n%s", diff, got)
	}
	slices.Sort(c.items)
	if slices.Sort(c.output); !h.otherIDs {
		if diff := cmp.Diff(c.output, c.items); diff != "" {
			t.Fatalf("the items at the end differ from those of events: %s\n%s", diff, got)
		}
	}
	if c.usage.Output != usage {
		t.Fatalf("usage %d, want %d: %s", c.usage.Output, usage, got)
	}
}

// withoutComments removes comments, which are not held back.
func withoutComments(stream string) string {
	var b strings.Builder
	for _, event := range strings.SplitAfter(strings.ReplaceAll(stream, "\r\n", "\n"), "\n\n") {
		if !strings.HasPrefix(event, ":") {
			b.WriteString(event)
		}
	}
	return b.String()
}
