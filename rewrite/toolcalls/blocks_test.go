package toolcalls_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/toolcalls"
	"sidenote/rewrite/toolcalls/toolcallstest"
)

// A modelBlock is a content block as the model wrote it.
type modelBlock struct {
	kind   string // text, thinking, tool_use or tool_result
	text   string // also the id of a call and, of a result, of its call
	input  string
	hidden bool // the client does not get it
}

// A modelTurn is a question and the rounds that answer it. Each round but the last ends with calls
// of ours alone, and the last has one of the client at least.
type modelTurn struct {
	question string
	rounds   [][]modelBlock
	results  []modelBlock // of the client's calls
}

// drawBlocks draws a turn whose calls have ids that begin with the given text.
func drawBlocks(t *rapid.T, id string) (turn modelTurn) {
	turn.question = rapid.SampledFrom([]string{"?", "How long?", "\"ü\\"}).Draw(t, "question")
	hides, thought := rapid.Bool().Draw(t, "hides"), false
	most := rapid.IntRange(1, 3).Draw(t, "rounds")
	for n := range most {
		goes := n < most-1
		var round []modelBlock
		thinks := rapid.IntRange(0, 2).Draw(t, "thoughts")
		for i := range thinks {
			round = append(round, modelBlock{kind: "thinking", text: fmt.Sprint("hm", n, i), hidden: thought})
		}
		thought = thought || thinks > 0
		for range rapid.IntRange(0, 2).Draw(t, "texts") {
			round = append(round, modelBlock{kind: "text", text: rapid.SampledFrom([]string{"a", "I look.", "ü\n", ""}).Draw(t, "text"), hidden: goes && hides})
		}
		calls := rapid.IntRange(1, 3).Draw(t, "calls")
		theirs := rapid.IntRange(0, calls-1).Draw(t, "theirs")
		for i := range calls {
			ours := goes || i != theirs && rapid.Bool().Draw(t, "ours")
			round = append(round, modelBlock{kind: "tool_use", text: fmt.Sprint(id, n, i), input: rapid.SampledFrom([]string{`{}`, `{"q": [1, {"a":"ü"}]}`}).Draw(t, "input"), hidden: ours})
		}
		turn.rounds = append(turn.rounds, round)
	}
	turn.results = rapid.Permutation(answersTo(turn.rounds[most-1], false)).Draw(t, "order")
	return turn
}

// json returns a block as servers write it.
func (b *modelBlock) json() json.RawMessage {
	var v any
	switch b.kind {
	case "thinking":
		v = map[string]string{"type": b.kind, "thinking": b.text, "signature": "s" + b.text}
	case "text":
		v = map[string]string{"type": b.kind, "text": b.text}
	case "tool_use":
		v = map[string]any{"type": b.kind, "id": b.text, "name": "f", "input": json.RawMessage(b.input)}
	case "tool_result":
		v = map[string]string{"type": b.kind, "tool_use_id": b.text, "content": "It is so."}
	}
	raw, _ := json.Marshal(v)
	return raw
}

// answersTo returns the results of the calls in a round that the client gets, or does not get.
func answersTo(round []modelBlock, hidden bool) (list []modelBlock) {
	for _, b := range round {
		if b.kind == "tool_use" && b.hidden == hidden {
			list = append(list, modelBlock{kind: "tool_result", text: b.text})
		}
	}
	return list
}

// hiddenTurn returns what the client does not get of a turn.
func (m *modelTurn) hiddenTurn(asked *toolcalls.OfferRequest) toolcalls.Turn {
	var rounds, last []toolcalls.HistoryCall
	blocks, thought := 0, false
	for n, round := range m.rounds {
		var list []toolcalls.HistoryCall
		for _, b := range round {
			switch {
			case b.hidden:
				list = append(list, toolcalls.HistoryCall{At: blocks, AfterThinking: thought, JSON: b.json()})
			case b.kind == "thinking":
				thought = true
			case b.text != "":
				blocks++
			}
		}
		if n == len(m.rounds)-1 {
			last = list
			break
		}
		var results []toolcalls.Result
		for _, b := range answersTo(round, true) {
			results = append(results, toolcalls.Result{ID: b.text, Content: "It is so."})
		}
		for i := range list { // calls are at the end of the round
			if strings.Contains(string(list[i].JSON), "tool_use") {
				list[i].At, list[i].AfterThinking = blocks, thought
			}
		}
		rounds = append(rounds, list...)
		for _, message := range asked.Results(results) {
			rounds = append(rounds, toolcalls.HistoryCall{At: blocks, AfterThinking: thought, JSON: message})
		}
	}
	var results []toolcalls.Result
	for _, b := range answersTo(m.rounds[len(m.rounds)-1], true) {
		results = append(results, toolcalls.Result{ID: b.text, Content: "It is so."})
	}
	return asked.Turn(rounds, last, results)
}

// clientBlocks returns the blocks of the client's message.
func (m *modelTurn) clientBlocks() (list []modelBlock) {
	for _, round := range m.rounds {
		for _, b := range round {
			if !b.hidden {
				list = append(list, b)
			}
		}
	}
	return list
}

// blocks writes a message of blocks.
func (w *writer) blocks(role string, list []modelBlock) {
	w.object(map[string]func(){"role": func() { w.text(role) }, "content": func() {
		w.list(len(list), func(i int) { w.block(&list[i]) })
	}})
}

func (w *writer) block(b *modelBlock) {
	members := map[string]func(){"type": func() { w.text(b.kind) }}
	switch b.kind {
	case "thinking":
		members["thinking"] = func() { w.text(b.text) }
		members["signature"] = func() { w.text("s" + b.text) }
	case "text":
		members["text"] = func() { w.text(b.text) }
		if w.pick(4) == 0 {
			members["citations"] = func() { w.b.WriteString("null") }
		}
	case "tool_use":
		members["id"], members["name"] = func() { w.text(b.text) }, func() { w.text("f") }
		members["input"] = func() { w.b.WriteString(w.again(b.input)) }
	case "tool_result":
		members["tool_use_id"] = func() { w.text(b.text) }
		members["content"] = func() { w.text("It is so.") }
		if w.pick(3) == 0 {
			members["content"] = func() { w.list(1, func(int) { w.block(&modelBlock{kind: "text", text: "It is so."}) }) }
		}
		if w.pick(4) == 0 {
			members["cache_control"] = func() { w.b.WriteString(`{"type":"ephemeral"}`) }
		}
	}
	w.object(members)
}

// blocksRequest writes the client's request after the turns before.
func blocksRequest(t *rapid.T, turns []modelTurn, next string, drop func(*modelBlock) bool) []byte {
	w := &writer{t: t}
	w.b.WriteString(`{"max_tokens":9,"tools":[{"name":"f"}],"messages":`)
	w.list(3*len(turns)+1, func(i int) {
		if i == 3*len(turns) {
			w.blocks("user", []modelBlock{{kind: "text", text: next}})
			return
		}
		turn := &turns[i/3]
		switch i % 3 {
		case 0:
			if w.pick(2) == 0 {
				w.blocks("user", []modelBlock{{kind: "text", text: turn.question}})
			} else {
				w.object(map[string]func(){"role": func() { w.text("user") }, "content": func() { w.text(turn.question) }})
			}
		case 1:
			w.blocks("assistant", slices.DeleteFunc(turn.clientBlocks(), func(b modelBlock) bool { return drop(&b) }))
		case 2:
			w.blocks("user", turn.results)
		}
	})
	w.b.WriteString("}")
	return []byte(w.b.String())
}

// readBlocksRequest parses a Messages request.
func readBlocksRequest(t interface {
	Helper()
	Fatalf(string, ...any)
}, body []byte) *chat.Request {
	t.Helper()
	r, err := chat.Messages.Parse(body)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r
}

// However a client encodes the messages, and whether or not it sends back thinking and empty texts,
// its turns are found and restored: the upstream gets the messages that it had, with each call in
// the message before its result, and all other bytes are the client's.
func TestRestoreBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turns []modelTurn
		var found []*toolcalls.Turn
		var keys []toolcalls.TurnKey
		hidden := 0
		for n := range rapid.IntRange(1, 3).Draw(t, "turns") {
			turn := drawBlocks(t, fmt.Sprint("c", n))
			r := readBlocksRequest(t, blocksRequest(t, turns, turn.question, func(*modelBlock) bool { return false }))
			asked := toolcalls.ReadOffer(r)
			text := ""
			var calls []toolcalls.AppCall
			for _, b := range turn.clientBlocks() {
				switch b.kind {
				case "text":
					text += b.text
				case "tool_use":
					calls = append(calls, toolcalls.AppCall{ID: b.text, Name: "f", Arguments: b.input})
				}
			}
			keys = append(keys, toolcalls.ReadHistory(r).KeyOfAnswer(text, calls))
			turns = append(turns, turn)
			stored := turn.hiddenTurn(&asked)
			if len(stored.Calls) == 0 {
				found = append(found, nil)
				continue
			}
			hidden++
			encoded, err := stored.Encode()
			if err != nil {
				t.Fatalf("%v: %+v", err, turn)
			}
			decoded, err := toolcalls.DecodeTurn(encoded)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, decoded)
		}
		dropsThinking, dropsEmpty := rapid.Bool().Draw(t, "drops thinking"), rapid.Bool().Draw(t, "drops empty texts")
		drop := func(b *modelBlock) bool {
			return b.kind == "thinking" && dropsThinking || b.kind == "text" && b.text == "" && dropsEmpty
		}
		body := blocksRequest(t, turns, "Bye.", drop)
		h := toolcalls.ReadHistory(readBlocksRequest(t, body))
		if got := h.Keys(); !slices.Equal(got, keys) {
			t.Fatalf("the answers had the keys %x, later these are %x", keys, got)
		}
		insertions, restored := h.Restore(found)
		up := apply(body, insertions)
		if len(restored) != hidden {
			t.Fatalf("%d of %d turns in %s", len(restored), hidden, up)
		}
		if back := without(up, insertions); string(back) != string(body) {
			t.Fatalf("without the insertions it is %s, want %s", back, body)
		}
		empty, theirs := false, map[string]bool{}
		var want []string
		for _, turn := range turns {
			want = append(want, "user text:"+turn.question)
			for n, round := range turn.rounds {
				message := "assistant"
				for _, b := range round {
					if !b.hidden && drop(&b) {
						continue
					}
					if empty = empty || b.kind == "text" && b.text == ""; b.text != "" {
						message += " " + b.kind + ":" + b.text
					}
				}
				results := "user"
				for _, b := range answersTo(round, true) {
					results += " tool_result:" + b.text
				}
				if n == len(turn.rounds)-1 {
					for _, b := range answersTo(round, false) {
						theirs[b.text] = true
						results += " theirs"
					}
				}
				want = append(want, message, results)
			}
		}
		want = append(want, "user text:Bye.")
		if diff := cmp.Diff(want, messagesIn(t, up, theirs)); diff != "" {
			t.Fatalf("%s in %s", diff, up)
		}
		if err := toolcallstest.CheckMessages(up); err != nil && !empty {
			t.Fatalf("%v in %s", err, up)
		}
	})
}

// messagesIn parses a request independently of the package, without empty texts. theirs are the ids
// of the client's calls, whose results may have any order.
func messagesIn(t *rapid.T, body []byte, theirs map[string]bool) (list []string) {
	var r struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, m := range r.Messages {
		blocks, ok := m.Content.([]any)
		if !ok {
			blocks = []any{map[string]any{"type": "text", "text": m.Content}}
		}
		message := m.Role
		for _, b := range blocks {
			b := b.(map[string]any)
			switch kind := b["type"]; {
			case kind == "tool_result" && theirs[b["tool_use_id"].(string)]:
				message += " theirs"
			case kind == "tool_result":
				message += fmt.Sprint(" tool_result:", b["tool_use_id"])
			case kind == "tool_use":
				message += fmt.Sprint(" tool_use:", b["id"])
			case b[kind.(string)] != "":
				message += fmt.Sprint(" ", kind, ":", b[kind.(string)])
			}
		}
		list = append(list, message)
	}
	return list
}

// blocksAsked is a request whose client has text, thinking and a call of the second round.
const blocksAsked = `{"max_tokens":9,"messages":[{"role":"user","content":"?"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},` +
	`{"type":"text","text":"I look."},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"text","text":"Now?"}]}]}`

// soundBlocks returns a turn of blocksAsked: a round whose call is c, and the call d of the last one.
func soundBlocks() *toolcalls.Turn {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	return &toolcalls.Turn{
		API: chat.Messages, NextID: 3,
		Calls: []toolcalls.HistoryCall{
			{At: 1, AfterThinking: true, JSON: raw(`{"type":"tool_use","id":"c","name":"search_knowledge","input":{}}`)},
			{At: 1, AfterThinking: true, JSON: raw(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"2"}]}`)},
			{At: 1, AfterThinking: true, JSON: raw(`{"type":"thinking","thinking":"so","signature":"t"}`)},
			{At: 2, AfterThinking: true, JSON: raw(`{"type":"tool_use","id":"d","name":"search_knowledge","input":{}}`)},
		},
		Results: []json.RawMessage{raw(`{"type":"tool_result","tool_use_id":"d","content":"3"}`)},
	}
}

// The client's message is divided where a round ended, whatever the order of its members.
func TestRestoreDividesTheMessage(t *testing.T) {
	const (
		first  = `{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"c","name":"search_knowledge","input":{}}`
		result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"2"}]}`
		second = `{"type":"thinking","thinking":"so","signature":"t"},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"d","name":"search_knowledge","input":{}}`
		third  = `[{"type":"tool_result","tool_use_id":"d","content":"3"},{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"text","text":"Now?"}]`
	)
	roleLast := strings.Replace(strings.Replace(blocksAsked, `"role":"assistant",`, "", 1), `"input":{}}]}`, `"input":{}}],"role":"assistant"}`, 1)
	for body, want := range map[string][2]string{
		blocksAsked: {`{"role":"assistant","content":[` + first + `]}`, `{"role":"assistant","content":[` + second + `]}`},
		roleLast:    {`{"content":[` + first + `],"role":"assistant"}`, `{"content":[` + second + `],"role":"assistant"}`},
	} {
		insertions, restored := toolcalls.ReadHistory(readBlocksRequest(t, []byte(body))).Restore([]*toolcalls.Turn{soundBlocks()})
		up := string(apply([]byte(body), insertions))
		if messages := strings.Join([]string{`[{"role":"user","content":"?"}`, want[0], result, want[1], `{"role":"user","content":` + third + `}]`}, ","); len(restored) != 1 || !strings.Contains(up, messages) {
			t.Errorf("%d turns in %s\nwant %s", len(restored), up, messages)
		}
	}
}

// A turn of blocks that would break the rules is never encoded or restored.
func TestUnsoundBlocks(t *testing.T) {
	for name, change := range map[string]func(*toolcalls.Turn){
		"nothing":                 func(t *toolcalls.Turn) { t.Calls = nil },
		"messages before":         func(t *toolcalls.Turn) { t.Before = t.Results },
		"a result is missing":     func(t *toolcalls.Turn) { t.Results = nil },
		"a result too many":       func(t *toolcalls.Turn) { t.Results = slices.Repeat(t.Results, 2) },
		"a result that is none":   func(t *toolcalls.Turn) { t.Results[0] = json.RawMessage(`{"type":"text","text":"x"}`) },
		"a result that is cut":    func(t *toolcalls.Turn) { t.Results[0] = t.Results[0][:9] },
		"a result among blocks":   func(t *toolcalls.Turn) { t.Calls[2].JSON = t.Results[0] },
		"a block that is cut":     func(t *toolcalls.Turn) { t.Calls[2].JSON = t.Calls[2].JSON[:9] },
		"a block without type":    func(t *toolcalls.Turn) { t.Calls[2].JSON = json.RawMessage(`{}`) },
		"a call without name":     func(t *toolcalls.Turn) { t.Calls[3].JSON = json.RawMessage(`{"type":"tool_use","id":"d"}`) },
		"an id twice":             func(t *toolcalls.Turn) { t.Calls[3].JSON = t.Calls[0].JSON },
		"a negative place":        func(t *toolcalls.Turn) { t.Calls[0].At = -1 },
		"out of order":            func(t *toolcalls.Turn) { t.Calls[3].At = 0 },
		"before thinking, behind": func(t *toolcalls.Turn) { t.Calls[2].AfterThinking = false },
		"a round without its end": func(t *toolcalls.Turn) { t.Calls[0].At = 0 },
		"a round without calls":   func(t *toolcalls.Turn) { t.Calls = t.Calls[1:] },
		"a round that is open":    func(t *toolcalls.Turn) { t.Calls = slices.Delete(t.Calls, 1, 2) },
		"two ends":                func(t *toolcalls.Turn) { t.Calls = slices.Insert(t.Calls, 1, t.Calls[1]) },
		"an end of the assistant": func(t *toolcalls.Turn) {
			t.Calls[1].JSON = json.RawMessage(strings.Replace(string(t.Calls[1].JSON), "user", "assistant", 1))
		},
		"an end with text": func(t *toolcalls.Turn) {
			t.Calls[1].JSON = json.RawMessage(strings.Replace(string(t.Calls[1].JSON), `"2"}`, `"2"},{"type":"text","text":"x"}`, 1))
		},
	} {
		turn := soundBlocks()
		change(turn)
		if b, err := turn.Encode(); err == nil || errors.Is(err, toolcalls.ErrTooLarge) {
			t.Errorf("%s: encoded as %q, %v", name, b, err)
		}
		if insertions, _ := toolcalls.ReadHistory(readBlocksRequest(t, []byte(blocksAsked))).Restore([]*toolcalls.Turn{turn}); len(insertions) > 0 {
			t.Errorf("%s: inserts %d times", name, len(insertions))
		}
	}
}

// A sound turn is left out if a place is not in the client's message, if a round would end after a
// call of the client, or if an id is the client's.
func TestBlocksThatDoNotFit(t *testing.T) {
	for name, change := range map[string]func(*toolcalls.Turn){
		"far":   func(t *toolcalls.Turn) { t.Calls[3].At = 3 },
		"after": func(t *toolcalls.Turn) { t.Calls[0].At, t.Calls[1].At, t.Calls[2].At = 2, 2, 2 },
		"same": func(t *toolcalls.Turn) {
			t.Calls[3].JSON, t.Results[0] = []byte(`{"type":"tool_use","id":"a","name":"f"}`), []byte(`{"type":"tool_result","tool_use_id":"a"}`)
		},
	} {
		turn := soundBlocks()
		change(turn)
		if _, err := turn.Encode(); err != nil {
			t.Errorf("%s: not sound: %v", name, err)
		}
		if insertions, _ := toolcalls.ReadHistory(readBlocksRequest(t, []byte(blocksAsked))).Restore([]*toolcalls.Turn{turn}); len(insertions) > 0 {
			t.Errorf("%s: inserts %d times", name, len(insertions))
		}
	}
}

// A message whose calls are not all answered in the next one is no turn, nor is one with a member
// given twice.
func TestBlocksThatAreNoTurn(t *testing.T) {
	for _, change := range [][2]string{
		{`"tool_use_id":"a"`, `"tool_use_id":"b"`},
		{`{"type":"tool_result","tool_use_id":"a","content":"1"},`, ""},
		{`{"role":"user","content":[`, `{"role":"user","content":"wait"},{"role":"user","content":[`},
		{`{"role":"user","content":[`, `{"role":"assistant","content":[`},
		{`"role":"assistant",`, `"role":"assistant","role":"assistant",`},
		{`"id":"a"`, `"id":""`},
		{`{"type":"text","text":"I look."}`, strings.Repeat(`{"type":"x"},`, 1023) + `{"type":"x"}`},
	} {
		body := strings.Replace(blocksAsked, change[0], change[1], 1)
		r, err := chat.Messages.Parse([]byte(body))
		if r == nil {
			t.Fatalf("%v: %s", err, body)
		}
		if keys := toolcalls.ReadHistory(r).Keys(); len(keys) != 0 {
			t.Errorf("%d turns in %s", len(keys), body)
		}
	}
}

// Whatever a client sends and a store returns, the rewritten body is JSON if the original was, and
// each restored turn could be restored again.
func FuzzRestoreBlocks(f *testing.F) {
	encoded, err := soundBlocks().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(blocksAsked), encoded)
	f.Add([]byte(strings.Replace(blocksAsked, `{"type":"text","text":"I look."}`, `{"type":"text","text":""}, 7, {"type":"redacted_thinking"}`, 1)), encoded)
	f.Fuzz(func(t *testing.T, body, encoded []byte) {
		turn, err := toolcalls.DecodeTurn(encoded)
		if err != nil {
			return
		}
		r, err := chat.Messages.Parse(body)
		if err != nil {
			return
		}
		h := toolcalls.ReadHistory(r)
		insertions, restored := h.Restore(slices.Repeat([]*toolcalls.Turn{turn}, len(h.Keys())))
		up := apply(body, insertions)
		r, err = chat.Messages.Parse(up)
		if wrong, ok := errors.AsType[*chat.Error](err); ok && wrong.Reason == chat.TooDeep {
			return
		}
		if err != nil || utf8.Valid(body) && !json.Valid(up) {
			t.Fatalf("%v in %s", err, up)
		}
		want := len(h.Keys())
		for _, turn := range restored {
			for _, c := range turn.Calls {
				var m struct{ Role string }
				if json.Unmarshal(c.JSON, &m) == nil && m.Role == "user" {
					want++
				}
			}
		}
		if got := len(toolcalls.ReadHistory(r).Keys()); got != want {
			t.Fatalf("%d turns, want %d, in %s", got, want, up)
		}
	})
}

// Whatever a large body contains, reading it allocates only a few times that in total.
func TestReadBlocksTakesLittleMemory(t *testing.T) {
	size := 4 << 20
	if testing.Short() {
		size = 1 << 20
	}
	for name, parts := range map[string][3]string{
		"blocks that are none": {`{"role":"assistant","content":[0`, `,0`, `]}`},
		"calls":                {`{"role":"assistant","content":[{"type":"tool_use","id":"a"}`, `,{"type":"tool_use","id":"a"}`, `]}`},
		"results":              {`{"role":"user","content":[{"type":"tool_result"}`, `,{"type":"tool_result"}`, `]}`},
		"results of results":   {`{"role":"user","content":[{"type":"tool_result","content":[0`, `,0`, `]}]}`},
		"input":                {`{"role":"assistant","content":[{"type":"tool_use","id":"a","input":{"a":[0`, `,0`, `]}}]}`},
		"rounds":               {`{"role":"user","content":"?"}`, `,{"role":"assistant","content":[{"type":"tool_use","id":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`, ``},
	} {
		body := `{"messages":[` + parts[0] + strings.Repeat(parts[1], size/len(parts[1])) + parts[2] + `]}`
		r, err := chat.Messages.Parse([]byte(body))
		if r == nil {
			t.Fatalf("%s: %v", name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		toolcalls.ReadHistory(r)
		runtime.ReadMemStats(&after)
		if times := (after.TotalAlloc - before.TotalAlloc) / uint64(size); times > 24 {
			t.Errorf("%s: %d times the body", name, times)
		}
	}
}

// offered returns the request with tools, of a first round and of the last.
func offered(t *testing.T, body string) (refusal toolcalls.OfferReason, first, last string) {
	t.Helper()
	r := readBlocksRequest(t, []byte(body))
	o := toolcalls.ReadOffer(r)
	edit := o.Tools([]toolcalls.Tool{{Name: o.Rename("search"), Description: "finds", Parameters: json.RawMessage(`{"type":"object"}`)}})
	apply := func(edits []rewrite.Edit) string {
		var b strings.Builder
		for _, piece := range rewrite.EditPieces(nil, r.Body, rewrite.SortEdits(edits)) {
			b.Write(piece)
		}
		return b.String()
	}
	return o.Refusal, apply([]rewrite.Edit{edit}), apply(o.LastTools(edit))
}

// Tools come after the application's. In the last round they stay if there are no others, but none
// is called.
func TestOfferToMessages(t *testing.T) {
	const (
		body = `{"max_tokens":9,"messages":[{"role":"user","content":"?"}]`
		tool = `{"name":"search","description":"finds","input_schema":{"type":"object"}}`
		none = `,"tool_choice":{"type":"none"}`
		mark = `{"name":"f","input_schema":{},"cache_control":{"type":"ephemeral"}}`
	)
	for _, c := range []struct {
		members, first, last string
		refusal              toolcalls.OfferReason
	}{
		{"", `,"tools":[` + tool + `]`, `,"tools":[` + tool + `]` + none, ""},
		{`,"tools":[]`, `,"tools":[` + tool + `]`, `,"tools":[` + tool + `]` + none, ""},
		{`,"tools":null,"tool_choice":null`, `,"tools":[` + tool + `],"tool_choice":null`, `,"tools":[` + tool + `]` + none, ""},
		{`,"tools":[` + mark + `]`, `,"tools":[` + mark + "," + tool + `]`, `,"tools":[` + mark + `]`, ""},
		{`,"tools":[{"type":"web_search_20250305","name":"search"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, "", "", ""},
		{`,"tools":[` + mark + `],"tool_choice":{"type":"any"}`, "", "", ""},
		{`,"tools":[` + mark + `],"tool_choice":{"type":"tool","name":"f"}`, "", "", toolcalls.ToolChoice},
		{`,"tools":[` + mark + `],"tool_choice":{"type":"none"}`, "", "", toolcalls.ToolChoice},
		{`,"tools":[` + mark + `],"tool_choice":{}`, "", "", toolcalls.ToolChoice},
		{`,"tool_choice":{"type":"auto"}`, "", "", toolcalls.ToolChoice},
		{`,"thread":{"type":"create"}`, "", "", toolcalls.Stored},
		{`,"tools":{}`, "", "", toolcalls.Ambiguous},
		{`,"thinking":{"type":"enabled","budget_tokens":1024}`, "", "", ""},
	} {
		refusal, first, last := offered(t, body+c.members+"}")
		if refusal != c.refusal {
			t.Errorf("%s: %q, want %q", c.members, refusal, c.refusal)
		}
		if c.first != "" && (first != body+c.first+"}" || last != body+c.last+"}") {
			t.Errorf("%s:\n%s\n%s", c.members, first, last)
		}
	}
	if _, first, _ := offered(t, body+`,"tools":[{"type":"web_search_20250305","name":"search"}]}`); !strings.Contains(first, `"sidenote_search"`) {
		t.Errorf("a tool of the vendor has its name too: %s", first)
	}
}
