package toolcalls_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/toolcalls"
	"sidenote/rewrite/toolcalls/toolcallstest"
)

// read parses a request of a test.
func read(t interface {
	Helper()
	Fatalf(string, ...any)
}, body []byte) *toolcalls.History {
	t.Helper()
	r, err := chat.Completions.Parse(body)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return toolcalls.ReadHistory(r)
}

// apply applies insertions to body.
func apply(body []byte, insertions []toolcalls.Insertion) []byte {
	var b []byte
	at := 0
	for _, in := range insertions {
		b = append(append(b, body[at:in.Offset]...), in.Text...)
		at = in.Offset
	}
	return append(b, body[at:]...)
}

// Each file has a request, the turns stored for it, oldest first (null if missing), and the
// request sent to the upstream.
func TestGolden(t *testing.T) {
	goldentest.Each(t, "testdata/golden", func(t *testing.T, a *goldentest.Archive) {
		body := a.Get("request.json")
		var turns []*toolcalls.Turn
		if err := json.Unmarshal(a.Get("turns.json"), &turns); err != nil {
			t.Fatal(err)
		}
		h := read(t, body)
		if len(turns) != len(h.Keys()) {
			t.Fatalf("%d turns may be restored, the file has %d", len(h.Keys()), len(turns))
		}
		before := toolcallstest.Check(body)
		insertions, _ := h.Restore(turns)
		got := apply(body, insertions)
		if err := toolcallstest.Check(got); err != nil && before == nil {
			t.Errorf("the upstream refuses it: %v", err)
		}
		a.Set("want.json", string(got))
	})
}

const asked = `{"messages":[{"role":"user","content":"?"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"app","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]}`

// sound returns a valid turn for asked.
func sound() *toolcalls.Turn {
	return &toolcalls.Turn{
		Before: []json.RawMessage{
			json.RawMessage(`{"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}]}`),
			json.RawMessage(`{"role":"tool","tool_call_id":"b","content":"<source id=\"1\">\u003c\n</source>"}`),
		},
		Calls:   []toolcalls.HistoryCall{{At: 1, JSON: json.RawMessage(`{"id":"c","type":"function","function":{"name":"read_knowledge","arguments":"{}"}}`)}},
		Results: []json.RawMessage{json.RawMessage(`{"role":"tool","tool_call_id":"c","content":"2"}`)},
		NextID:  3,
	}
}

// twice returns t with a second call at position at.
func twice(t toolcalls.Turn, at int) toolcalls.Turn {
	other := func(b []byte) []byte { return bytes.Replace(b, []byte(`"c"`), []byte(`"d"`), 1) }
	t.Calls = append(t.Calls, toolcalls.HistoryCall{At: at, JSON: other(t.Calls[0].JSON)})
	t.Results = append(t.Results, other(t.Results[0]))
	return t
}

// A turn that would break the upstream's rules is never encoded, and omitted as a whole if it
// comes from elsewhere.
func TestUnsoundTurns(t *testing.T) {
	one := func(s string) []json.RawMessage { return []json.RawMessage{json.RawMessage(s)} }
	for name, change := range map[string]func(*toolcalls.Turn){
		"nothing":               func(t *toolcalls.Turn) { *t = toolcalls.Turn{NextID: 3} },
		"a result is missing":   func(t *toolcalls.Turn) { t.Results = nil },
		"a result too many":     func(t *toolcalls.Turn) { t.Results = slices.Repeat(t.Results, 2) },
		"a result of another":   func(t *toolcalls.Turn) { t.Results = one(`{"role":"tool","tool_call_id":"x","content":"2"}`) },
		"a result by the user":  func(t *toolcalls.Turn) { t.Results = one(`{"role":"user","tool_call_id":"c","content":"2"}`) },
		"a result of two roles": func(t *toolcalls.Turn) { t.Results = one(`{"role":"user","role":"tool","tool_call_id":"c"}`) },
		"a result and more":     func(t *toolcalls.Turn) { t.Results[0] = append(t.Results[0], `,{"role":"user","content":"x"}`...) },
		"a call that is cut":    func(t *toolcalls.Turn) { t.Calls[0].JSON = t.Calls[0].JSON[:20] },
		"a call without id":     func(t *toolcalls.Turn) { t.Calls[0].JSON = []byte(`{"function":{"name":"read_knowledge"}}`) },
		"a call without name":   func(t *toolcalls.Turn) { t.Calls[0].JSON = []byte(`{"id":"c","function":{}}`) },
		"a call that is a list": func(t *toolcalls.Turn) { t.Calls[0].JSON = []byte(`["c"]`) },
		"one id twice": func(t *toolcalls.Turn) {
			t.Calls = append(t.Calls, toolcalls.HistoryCall{At: 2, JSON: t.Calls[0].JSON})
		},
		"calls at one place": func(t *toolcalls.Turn) { *t = twice(*t, 1) },
		"calls out of order": func(t *toolcalls.Turn) { *t = twice(*t, 0) },
		"a call of many levels": func(t *toolcalls.Turn) {
			t.Calls[0].JSON = []byte(`{"x":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `,` + string(t.Calls[0].JSON[1:]))
		},
		"a round in a round": func(t *toolcalls.Turn) {
			t.Before = append(one(strings.Replace(string(t.Before[0]), `"b"`, `"d"`, 1)), t.Before...)
		},
		"a negative place":       func(t *toolcalls.Turn) { t.Calls[0].At = -1 },
		"a round without answer": func(t *toolcalls.Turn) { t.Before = t.Before[:1] },
		"an answer first":        func(t *toolcalls.Turn) { t.Before = t.Before[1:] },
		"a round is cut":         func(t *toolcalls.Turn) { t.Before[1] = t.Before[1][:9] },
		"a round by the user":    func(t *toolcalls.Turn) { t.Before = one(`{"role":"user","content":"x"}`) },
		"a round without calls":  func(t *toolcalls.Turn) { t.Before = one(`{"role":"assistant","content":"x"}`) },
	} {
		turn := sound()
		change(turn)
		if b, err := turn.Encode(); err == nil || errors.Is(err, toolcalls.ErrTooLarge) {
			t.Errorf("%s: encoded as %q, %v", name, b, err)
		}
		if insertions, restored := read(t, []byte(asked)).Restore([]*toolcalls.Turn{turn}); len(insertions)+len(restored) > 0 {
			t.Errorf("%s: inserts %d times", name, len(insertions))
		}
	}
}

// A valid turn whose positions do not exist among the client's calls, or that shares an id with
// them, is omitted.
func TestTurnsThatDoNotFit(t *testing.T) {
	far, same := sound(), sound()
	far.Calls[0].At = 2
	same.Calls[0].JSON = bytes.Replace(same.Calls[0].JSON, []byte(`"c"`), []byte(`"a"`), 1)
	same.Results[0] = bytes.Replace(same.Results[0], []byte(`"c"`), []byte(`"a"`), 1)
	for _, turn := range []*toolcalls.Turn{far, same} {
		if _, err := turn.Encode(); err != nil {
			t.Errorf("not sound: %v", err)
		}
		if insertions, restored := read(t, []byte(asked)).Restore([]*toolcalls.Turn{turn}); len(insertions)+len(restored) > 0 {
			t.Errorf("inserts %d times", len(insertions))
		}
	}
	two := twice(*sound(), 2)
	if _, restored := read(t, []byte(asked)).Restore([]*toolcalls.Turn{&two}); len(restored) != 1 {
		t.Error("a turn of two calls is not restored")
	}
	if _, restored := read(t, []byte(asked)).Restore([]*toolcalls.Turn{sound()}); len(restored) != 1 || restored[0].NextID != 3 {
		t.Errorf("of a turn that fits %v is restored", restored)
	}
}
