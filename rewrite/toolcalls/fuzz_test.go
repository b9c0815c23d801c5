package toolcalls_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/toolcalls"
)

// Whatever a client sends and a store returns, nothing panics, the rewritten body is JSON if the
// original was, and in it every restored turn could be restored again: all calls are answered,
// and so are those of the rounds before.
func FuzzRestore(f *testing.F) {
	encoded, err := sound().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(asked), encoded)
	for _, a := range goldentest.Load(f, "testdata/golden") {
		var turns []*toolcalls.Turn
		if err := json.Unmarshal(a.Get("turns.json"), &turns); err != nil {
			f.Fatal(err)
		}
		for _, turn := range turns {
			if turn != nil {
				encoded, _ = turn.Encode()
			}
			f.Add(a.Get("request.json"), encoded)
		}
	}
	f.Fuzz(func(t *testing.T, body, encoded []byte) {
		turn, err := toolcalls.DecodeTurn(encoded)
		if err != nil {
			return
		}
		if again, err := turn.Encode(); err == nil {
			if same, err := toolcalls.DecodeTurn(again); err != nil || len(same.Before) != len(turn.Before) || len(same.Calls) != len(turn.Calls) {
				t.Fatalf("encoded again: %v, %v", same, err)
			}
		}
		r, err := chat.Completions.Parse(body)
		if err != nil {
			return
		}
		h := toolcalls.ReadHistory(r)
		insertions, restored := h.Restore(slices.Repeat([]*toolcalls.Turn{turn}, len(h.Keys())))
		up := apply(body, insertions)
		r, err = chat.Completions.Parse(up)
		if wrong, ok := errors.AsType[*chat.Error](err); ok && wrong.Reason == chat.TooDeep {
			return
		}
		if err != nil || utf8.Valid(body) && !json.Valid(up) {
			t.Fatalf("%v in %s", err, up)
		}
		want := len(h.Keys())
		for _, turn := range restored {
			for _, m := range turn.Before {
				var message struct {
					Role  string
					Calls []json.RawMessage `json:"tool_calls"`
				}
				if json.Unmarshal(m, &message) == nil && message.Role == "assistant" && len(message.Calls) > 0 {
					want++
				}
			}
		}
		if got := len(toolcalls.ReadHistory(r).Keys()); got != want {
			t.Fatalf("%d turns, want %d, in %s", got, want, up)
		}
	})
}

// Bytes that were truncated, extended, or are of another version or too large do not decode.
func TestDecodeOtherBytes(t *testing.T) {
	encoded, err := sound().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range encoded {
		if _, err := toolcalls.DecodeTurn(encoded[:n]); err == nil {
			t.Errorf("%d of %d bytes are a turn", n, len(encoded))
		}
	}
	if _, err := toolcalls.DecodeTurn(append(slices.Clone(encoded), 0)); err == nil {
		t.Error("a byte more is a turn")
	}
	if _, err := toolcalls.DecodeTurn(append([]byte{encoded[0] + 1}, encoded[1:]...)); err == nil {
		t.Error("another version is a turn")
	}
	large := binary.AppendUvarint([]byte{encoded[0], 0, 1}, toolcalls.MaxTurnSize) // Before is one text
	large = append(append(large, make([]byte, toolcalls.MaxTurnSize)...), 0, 0)
	if _, err := toolcalls.DecodeTurn(large); err == nil {
		t.Error("more than the largest turn is one")
	}
	turn, err := toolcalls.DecodeTurn(encoded)
	if err != nil || turn.NextID != 3 || !slices.EqualFunc(turn.Before, sound().Before, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Errorf("decoded: %v, %v", turn, err)
	}
}

// A turn larger than MaxTurnSize is not encoded: Encode returns ErrTooLarge.
func TestHugeTurns(t *testing.T) {
	turn := sound()
	for size, fits := range map[int]bool{toolcalls.MaxTurnSize - 1000: true, toolcalls.MaxTurnSize: false, 8 << 20: false} {
		turn.Results[0] = json.RawMessage(`{"role":"tool","tool_call_id":"c","content":"` + strings.Repeat("x", size) + `"}`)
		encoded, err := turn.Encode()
		if fits != (err == nil) {
			t.Errorf("a result of %d bytes: %v", size, err)
		}
		if _, err := toolcalls.DecodeTurn(encoded); fits != (err == nil) {
			t.Errorf("a result of %d bytes, decoded: %v", size, err)
		}
	}
}
