package toolcalls_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/toolcalls"
	"sidenote/rewrite/toolcalls/toolcallstest"
)

// A said is a message of a dialogue before it is encoded as JSON.
type said struct {
	role    string
	text    string
	calls   []toolcalls.AppCall
	ours    map[string]bool // ids of calls that the client never sees
	answers string
}

var texts = rapid.OneOf(
	rapid.SampledFrom([]string{"", " ", "a", "Let me see.", "ü €\n\t\"\\/<source>", "𝄞", "null", "[]"}),
	rapid.StringN(0, 12, 40),
)

// arguments draws arguments of any kind: small objects, invalid JSON, nothing.
var arguments = rapid.OneOf(
	rapid.SampledFrom([]string{"", "{}", "not JSON", `{"b":[1,{"y":null,"x":"ü"}],"a":1.5e3}`, `"text"`, "{", `{"a":1}x`}),
	rapid.Map(rapid.MapOf(rapid.StringN(0, 4, 8), rapid.Int32()), func(m map[string]int32) string {
		b, _ := json.Marshal(m)
		return string(b)
	}),
)

// drawDialogue draws a valid conversation as the model sees it. Every turn with calls has a call
// of the application.
func drawDialogue(t *rapid.T) []said {
	list := []said{{role: rapid.SampledFrom([]string{"system", "developer", "user"}).Draw(t, "first"), text: texts.Draw(t, "text")}}
	id := 0
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		list = append(list, said{role: "user", text: texts.Draw(t, "question")})
		if rapid.Bool().Draw(t, "plain") {
			list = append(list, said{role: "assistant", text: texts.Draw(t, "answer")})
			continue
		}
		n := rapid.IntRange(1, 4).Draw(t, "calls")
		app := rapid.IntRange(0, n-1).Draw(t, "app's")
		m := said{role: "assistant", text: texts.Draw(t, "preamble"), ours: map[string]bool{}}
		for i := range n {
			id++
			c := toolcalls.AppCall{ID: fmt.Sprint("call_", id), Name: rapid.SampledFrom([]string{"now", "weather", "search_knowledge"}).Draw(t, "name"), Arguments: arguments.Draw(t, "arguments")}
			m.calls = append(m.calls, c)
			m.ours[c.ID] = i != app && rapid.Bool().Draw(t, "ours")
		}
		list = append(list, m)
		for _, ours := range []bool{true, false} { // the order of the client's results is independent
			var answers []said
			for _, c := range m.calls {
				if m.ours[c.ID] == ours {
					answers = append(answers, said{role: "tool", answers: c.ID, text: texts.Draw(t, "result")})
				}
			}
			if !ours {
				answers = rapid.Permutation(answers).Draw(t, "order")
			}
			list = append(list, answers...)
		}
	}
	return list
}

// client returns the client's view of a dialogue, and the turns that complete it.
func client(all []said) (list []said, turns []*toolcalls.Turn) {
	hidden := map[string]bool{}
	for _, m := range all {
		switch {
		case m.role == "tool" && hidden[m.answers]:
			t := turns[len(turns)-1]
			t.Results = append(t.Results, plainly(m))
			continue
		case len(m.calls) > 0:
			t := &toolcalls.Turn{}
			calls := m.calls
			m.calls = nil
			for i, c := range calls {
				if m.ours[c.ID] {
					hidden[c.ID] = true
					t.Calls = append(t.Calls, toolcalls.HistoryCall{At: i, JSON: plainCall(c)})
				} else {
					m.calls = append(m.calls, c)
				}
			}
			turns = append(turns, t)
		}
		list = append(list, m)
	}
	return list, turns
}

func plainCall(c toolcalls.AppCall) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"id": c.ID, "type": "function", "function": map[string]string{"name": c.Name, "arguments": c.Arguments}})
	return b
}

func plainly(m said) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"role": m.role, "tool_call_id": m.answers, "content": m.text})
	return b
}

// However a client encodes its conversation, its turns have the same keys as when they were the
// answers to earlier requests.
func TestKeysOutliveTheClient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, _ := client(drawDialogue(t))
		later := read(t, request(t, list)).Keys()
		var earlier []toolcalls.TurnKey
		for i, m := range list {
			if len(m.calls) > 0 {
				earlier = append(earlier, read(t, request(t, list[:i])).KeyOfAnswer(m.text, m.calls))
			}
		}
		if !slices.Equal(later, earlier) {
			t.Fatalf("the answers had the keys %x, later these are %x", earlier, later)
		}
	})
}

// Whatever relevant value a client changes, later turns get other keys, and earlier ones keep
// theirs.
func TestKeysTellConversationsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, _ := client(drawDialogue(t))
		before := read(t, request(t, list)).Keys()
		n := rapid.IntRange(0, len(list)-1).Draw(t, "message")
		changed := slices.Clone(list)
		m := &changed[n]
		if len(m.calls) > 0 {
			m.calls = slices.Clone(m.calls)
			c := &m.calls[rapid.IntRange(0, len(m.calls)-1).Draw(t, "call")]
			switch what := rapid.SampledFrom([]*string{&c.ID, &c.Name, &c.Arguments, &m.text}).Draw(t, "of the call"); what {
			case &c.ID: // in its answer too
				answer := slices.IndexFunc(changed, func(m said) bool { return m.answers == c.ID })
				c.ID += "x"
				changed[answer].answers = c.ID
			default:
				*what += "x"
			}
		} else if m.role == "tool" || rapid.Bool().Draw(t, "the text") {
			m.text += "x"
		} else {
			m.role = map[string]string{"system": "user", "developer": "user", "user": "assistant", "assistant": "user"}[m.role]
		}
		after := read(t, request(t, changed)).Keys()
		first := 0 // the first turn that contains or follows the change
		for _, m := range list[:n] {
			if len(m.calls) > 0 {
				first++
			}
		}
		if len(after) != len(before) {
			t.Fatalf("%d turns, then %d", len(before), len(after))
		}
		for i := range before {
			if same := before[i] == after[i]; same != (i < first) {
				t.Fatalf("message %d is changed, and turn %d has the same key: %v", n, i, same)
			}
		}
	})
}

// The tool_call_id of a message is part of the key.
func TestKeysOfAnswers(t *testing.T) {
	const call = `{"id":"%s","type":"function","function":{"name":"f","arguments":"{}"}}`
	keys := map[toolcalls.TurnKey]bool{}
	for _, first := range []string{"a", "b"} {
		second := map[string]string{"a": "b", "b": "a"}[first]
		body := fmt.Sprintf(`{"messages":[{"role":"assistant","tool_calls":[`+call+`,`+call+`]},
			{"role":"tool","tool_call_id":%q,"content":"1"},{"role":"tool","tool_call_id":%q,"content":"2"},
			{"role":"assistant","tool_calls":[`+call+`]},{"role":"tool","tool_call_id":"c"}]}`, "a", "b", first, second, "c")
		keys[read(t, []byte(body)).Keys()[1]] = true
	}
	if len(keys) != 2 {
		t.Error("answers to each other's calls make the same conversation")
	}
}

// Of parts that are not text only the kind is part of the key, not members that SDKs fill in.
func TestKeysOfImages(t *testing.T) {
	key := func(content string) toolcalls.TurnKey {
		return read(t, []byte(`{"messages":[{"role":"user","content":`+content+`}]}`)).KeyOfAnswer("", nil)
	}
	const text = `{"type":"text","text":"What is this?"}`
	image := key(`[` + text + `,{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]`)
	if image != key(`[`+text+`,{"image_url":{"detail":"auto","url":"https://example.com/a.png"},"type":"image_url"}]`) {
		t.Error("a detail makes another conversation")
	}
	for _, other := range []string{`[` + text + `]`, `[` + text + `,{"type":"input_audio"}]`, `[{"type":"image_url"},` + text + `]`, `[` + text + `,` + text + `]`} {
		if image == key(other) {
			t.Errorf("an image is as much as %s", other)
		}
	}
	if key(`[`+text+`]`) != key(`"What is this?"`) || key(`null`) != key(`""`) || key(`[{"type":"text","text":""}]`) != key(`""`) {
		t.Error("the form of a text makes another conversation")
	}
}

// A client that shortens its history, or changes its system message, has other turns.
func TestKeysOfAShorterHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, _ := client(drawDialogue(t))
		keys := read(t, request(t, list)).Keys()
		for _, key := range read(t, request(t, list[1:])).Keys() {
			if slices.Contains(keys, key) {
				t.Fatalf("a turn has its key without the first message")
			}
		}
	})
}

// Restored turns yield exactly the dialogue that the model had; all other bytes are the client's.
func TestRestoreIsWhatTheModelSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawDialogue(t)
		list, turns := client(all)
		hidden := 0
		for i, turn := range turns {
			if len(turn.Calls) == 0 {
				turns[i] = nil
				continue
			}
			hidden++
			encoded, err := turn.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if turns[i], err = toolcalls.DecodeTurn(encoded); err != nil {
				t.Fatal(err)
			}
		}
		body := request(t, list)
		h := read(t, body)
		insertions, restored := h.Restore(turns)
		up := apply(body, insertions)
		if err := toolcallstest.Check(up); err != nil || len(restored) != hidden {
			t.Fatalf("%d of %d turns, %v in %s", len(restored), hidden, err, up)
		}
		got, want := dialogue(t, up), []said(nil)
		for _, m := range all {
			want = append(want, said{role: m.role, text: m.text, calls: m.calls, answers: m.answers})
		}
		if fmt.Sprint(canonically(got)) != fmt.Sprint(canonically(want)) {
			t.Fatalf("got\n%v\nwant\n%v", got, want)
		}
		if back := without(up, insertions); string(back) != string(body) {
			t.Fatalf("without the insertions it is %s, want %s", back, body)
		}
	})
}

// without removes insertions from the result of apply.
func without(up []byte, insertions []toolcalls.Insertion) []byte {
	var b []byte
	at, shift := 0, 0
	for _, in := range insertions {
		b = append(b, up[at:in.Offset+shift]...)
		shift += len(in.Text)
		at = in.Offset + shift
	}
	return append(b, up[at:]...)
}

// dialogue parses a request independently of the package.
func dialogue(t *rapid.T, body []byte) (list []said) {
	var r struct {
		Messages []struct {
			Role    string
			Content any
			Calls   []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
			Answers string `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, m := range r.Messages {
		s := said{role: m.Role, answers: m.Answers}
		switch content := m.Content.(type) {
		case string:
			s.text = content
		case []any:
			s.text = content[0].(map[string]any)["text"].(string)
		}
		for _, c := range m.Calls {
			s.calls = append(s.calls, toolcalls.AppCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		list = append(list, s)
	}
	return list
}

// canonically rewrites arguments that are JSON, or empty, in a canonical form.
func canonically(list []said) []said {
	list = slices.Clone(list)
	for i := range list {
		list[i].calls = slices.Clone(list[i].calls)
		for j := range list[i].calls {
			var value any
			a := &list[i].calls[j].Arguments
			if *a == "" {
				*a = "{}"
			}
			if json.Unmarshal([]byte(*a), &value) == nil {
				b, _ := json.Marshal(value)
				*a = string(b)
			}
		}
	}
	return list
}
