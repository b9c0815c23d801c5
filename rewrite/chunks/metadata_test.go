package chunks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/rewrite/chunks"
)

const typedMetadata = `[{"id": "e1", "type": "environment", "content": "x", "metadata": {
	"text": "true", "yes": true, "no": false, "count": 12345678901234567890, "price": 80.0, "none": null,
	"room": {"b": {"floor": 2, "open": true}, "a": "hall"}, "list": ["a", 1, {"k": false}], "empty": {}}}]`

// A matcher is a renderer that inspects the metadata.
type matcher struct{ seen *map[string]any }

func (m matcher) CanRender(c *chunks.Chunk) bool {
	*m.seen = c.Metadata
	return c.Metadata["yes"] == true
}
func (matcher) Role(*chunks.Chunk) chunks.Role { return chunks.RoleUser }
func (matcher) Render(c *chunks.Chunk) chunks.Element {
	return chunks.Element{Tag: "matched", Body: c.Content}
}

// Metadata values reach renderers as decoded JSON.
func TestMetadataKeepsItsTypes(t *testing.T) {
	list, err := chunks.Parse([]byte(typedMetadata))
	if err != nil {
		t.Fatal(err)
	}
	var seen map[string]any
	b := &chunks.Builder{Renderers: []chunks.Renderer{matcher{&seen}}, Tags: []string{"matched"}}
	r, err := b.Build(list, chunks.Options{})
	if err != nil || len(r.Messages) != 1 || !strings.HasPrefix(r.Messages[0].Content, "<matched>") {
		t.Fatalf("%+v, %v", r, err)
	}
	want := map[string]any{
		"text": "true", "yes": true, "no": false, "count": json.Number("12345678901234567890"), "price": json.Number("80.0"),
		"room": map[string]any{"b": map[string]any{"floor": json.Number("2"), "open": true}, "a": "hall"},
		"list": []any{"a", json.Number("1"), map[string]any{"k": false}}, "empty": map[string]any{},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// Attributes show values as given, with the order of keys; a value that was replaced is shown as
// replaced.
func TestMetadataIsShownAsItCame(t *testing.T) {
	list, err := chunks.Parse([]byte(typedMetadata))
	if err != nil {
		t.Fatal(err)
	}
	shown := func(name string) string {
		t.Helper()
		rule := chunks.Rule{Tag: "t", Body: "{{metadata." + name + "}}"}
		return rule.Render(&list[0]).Body.String()
	}
	for name, want := range map[string]string{
		"text": "true", "yes": "true", "no": "false", "count": "12345678901234567890", "price": "80.0", "none": "",
		"room": `{"b":{"floor":2,"open":true},"a":"hall"}`, "list": `["a",1,{"k":false}]`, "empty": "{}",
	} {
		if got := shown(name); got != want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
	list[0].Metadata["room"] = map[string]any{"a": "attic"}
	if got := shown("room"); got != `{"a":"attic"}` {
		t.Errorf("a replaced value is shown as %s", got)
	}
}

// A rule matches nested values: in an object the given keys, in a list all elements.
func TestWhenTakesNestedMetadata(t *testing.T) {
	list, err := chunks.Parse([]byte(typedMetadata))
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	own := chunks.Chunk{Metadata: object{"room": map[string]map[string]int{"b": {"floor": 2}}, "list": []string{"a"}, "yes": true}}
	for _, c := range []struct {
		chunk *chunks.Chunk
		when  object
		want  bool
	}{
		{&list[0], object{"yes": "true"}, true},
		{&list[0], object{"yes": true}, true},
		{&list[0], object{"yes": false}, false},
		{&list[0], object{"price": "80.0"}, true},
		{&list[0], object{"price": "80"}, false},
		{&list[0], object{"room": object{"a": "hall"}}, true},
		{&list[0], object{"room": object{"b": object{"floor": "2", "open": "true"}, "a": "hall"}}, true},
		{&list[0], object{"room": object{"b": object{"floor": 2}}}, true},
		{&list[0], object{"room": object{"b": object{"floor": "3"}}}, false},
		{&list[0], object{"room": object{"c": "hall"}}, false},
		{&list[0], object{"room": object{"b": "x"}}, false},
		{&list[0], object{"room": []any{"a"}}, false},
		{&list[0], object{"yes": object{"a": "x"}}, false},
		{&list[0], object{"list": []any{"a", "1", object{"k": "false"}}}, true},
		{&list[0], object{"list": []any{"a", "1"}}, false},
		{&list[0], object{"list": []any{"a", "1", object{"k": "true"}}}, false},
		{&list[0], object{"none": "x"}, false},
		{&list[0], object{"list": `["a",1,{"k":false}]`}, true},
		{&own, object{"room": object{"b": object{"floor": "2"}}, "list": []any{"a"}, "yes": "true"}, true},
		{&own, object{"list": []any{"b"}}, false},
	} {
		rule := chunks.Rule{When: chunks.When{Metadata: c.when}, Tag: "t"}
		if got := rule.CanRender(c.chunk); got != c.want {
			t.Errorf("%v takes it: %t, want %t", c.when, got, c.want)
		}
	}
}

// A Builder without a Counter estimates four characters per token, fits by that, and reports that
// it is not exact.
func TestBuilderWithoutACounter(t *testing.T) {
	list := []chunks.Chunk{
		{ID: "a", Type: chunks.Agent, Role: "user", Content: chunks.Text(strings.Repeat("word ", 800))},
		{ID: "b", Type: chunks.Agent, Role: "user", Content: chunks.Text(strings.Repeat("wörd ", 800))},
	}
	for _, c := range []struct{ most, in, least, largest int }{{0, 2, 2000, 2050}, {1500, 1, 1000, 1025}, {500, 0, 0, 0}} {
		r, err := (&chunks.Builder{}).Build(list, chunks.Options{MaxTokens: c.most})
		if err != nil {
			t.Fatal(err)
		}
		if r.Exact || len(r.Included) != c.in || r.TokenCount < c.least || r.TokenCount > c.largest {
			t.Errorf("of %d tokens: %d chunks in %d, exact %t; want %d in %d to %d", c.most, len(r.Included), r.TokenCount, r.Exact, c.in, c.least, c.largest)
		}
	}
	if r, err := (&chunks.Builder{}).Build(list, chunks.Options{MaxTokens: 600, Truncate: true}); err != nil || r.Cut != "a" || r.TokenCount > 600 || r.Exact {
		t.Errorf("cut: %+v, %v", r.Cut, err)
	}
	if r, err := (&chunks.Builder{}).Build(nil, chunks.Options{}); err != nil || r.Exact {
		t.Errorf("nothing: exact %t, %v", r.Exact, err)
	}
}
