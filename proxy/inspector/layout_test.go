package inspector

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// shown formats lines as the page does.
func shown(lines []layoutLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.Repeat("  ", l.Indent))
		switch {
		case l.Missing != 0:
			fmt.Fprintf(&b, "… %d …", l.Missing)
		case l.Quoted:
			b.WriteString("| " + l.Text)
		default:
			b.WriteString(l.Text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const chatJSON = `{"model": "gpt-5", "messages":[{"role":"system","content":"Be \"brief\".\n\n<source id=\"1\">\nA \u00fc.\n</source>\n"},
 {"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"data:,x"}}]}], "stop":[],"n":1.50,"tools":[[1,[2]],{}],
 "stream":true,"user":"a\\nb","logit_bias":{"50256":-100}, "content":""}`

const chatShown = `"model": "gpt-5"
"messages":
  - "role": "system"
    "content":
      | Be "brief".
      | 
      | <source id="1">
      | A ü.
      | </source>
      | 
  - "role": "user"
    "content":
      - "type": "text"
        "text":
          | Hi
      - "type": "image_url"
        "image_url":
          "url": "data:,x"
"stop": []
"n": 1.50
"tools":
  - - 1
    - - 2
  - {}
"stream": true
"user":
  | a\nb
"logit_bias":
  "50256": -100
"content": ""
`

func TestLines(t *testing.T) {
	if got := shown(layoutLines(chatJSON)); got != chatShown {
		t.Errorf("%s", got)
	}
	for body, want := range map[string]string{
		"{not JSON\n\"a\": 1": "{not JSON\n\"a\": 1\n", "": "", "{}": "{}\n", `"a\nb"`: "| a\n| b\n", "[1,2]": "- 1\n- 2\n", `["a\nb"]`: "-\n  | a\n  | b\n",
		`{"a":1}{"b":2}`: "{\"a\":1}{\"b\":2}\n", "null": "null\n", strings.Repeat("[", 20000): strings.Repeat("[", 20000) + "\n",
	} {
		if got := shown(layoutLines(body)); got != want {
			t.Errorf("%.50q: %q", body, got)
		}
	}
}

// Wherever a body is cut, the rest is laid out as in the complete body, except for the member that
// was cut.
func TestEnds(t *testing.T) {
	whole := layoutLines(chatJSON)
	for from := 1; from < len(chatJSON); from++ {
		head := layoutEnds(chatJSON[:from], "", -1)
		n := slices.IndexFunc(head, func(l layoutLine) bool { return l.Missing != 0 })
		if n < 0 || n > 2 && !slices.Equal(head[:n-2], whole[:n-2]) {
			t.Fatalf("the head to %d: %s", from, shown(head))
		}
		tail := layoutEnds("", chatJSON[from:], from)
		if tail[0].Missing != from {
			t.Fatalf("%v", tail[0])
		}
		tail = tail[1:]
		// The first lines may be cut, and their dashes may belong to elements that began before.
		same := 0
		for same < min(len(tail), len(whole)) && tail[len(tail)-1-same] == whole[len(whole)-1-same] {
			same++
		}
		if same < len(tail)-3 {
			t.Fatalf("the tail from %d, %q: %s", from, chatJSON[from:], shown(tail))
		}
	}
}

// For any JSON, no line is longer than the input, and each text of it is in a line.
func TestAnyJSON(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("a\"\\\n{}[]:, é\u2028")), 0, 8, -1)
		flat := rapid.OneOf(text.AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
		return rapid.OneOf(flat, rapid.SliceOfN(flat, 0, 3).AsAny(), rapid.MapOfN(text, rapid.OneOf(flat, rapid.MapOfN(text, flat, 0, 3).AsAny()), 0, 3).AsAny()).Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(rapid.SliceOf(value).Draw(t, "values"))
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, l := range layoutLines(string(body)) {
			size += len(l.Text)
			if strings.Contains(l.Text, "\n") {
				t.Fatalf("%q", l.Text)
			}
		}
		if size > 2*len(body) {
			t.Fatalf("%d bytes of %d", size, len(body))
		}
		from, to := 0, 0
		if len(body) > 1 {
			from = rapid.IntRange(0, len(body)-1).Draw(t, "from")
			to = rapid.IntRange(from, len(body)-1).Draw(t, "to")
		}
		layoutEnds(string(body[:from]), string(body[to:]), to-from)
	})
}
