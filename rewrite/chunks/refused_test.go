package chunks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite/chunks"
)

// An error names the chunk's index and the field.
func TestRefused(t *testing.T) {
	const ok = `{"id":"a","type":"custom","content":"x"}`
	long := strings.Repeat("word ", 100)
	for _, c := range []struct{ list, context, want string }{
		{`{}`, ``, `chunks: an object, not an array`},
		{`[`, ``, `chunks[0]: a number, not an object`},
		{`[` + ok + `] x`, ``, `chunks: body is not JSON: 'x' at byte 43 where the end is expected`},
		{`[{"id":"a","type":"custom","content":"x`, ``, `chunks: body is not JSON: it ends where the end of a string is expected`},
		{`[null]`, ``, `chunks[0]: null, not an object`},
		{`[` + ok + `,{"type":"custom","content":"x"}]`, ``, `chunks[1].id: missing`},
		{`[{"id":7,"type":"custom","content":"x"}]`, ``, `chunks[0].id: a number, not a string`},
		{`[{"id":"a\nb","type":"custom","content":"x"}]`, ``, `chunks[0].id: "a\nb" is not an id: 1 to 128 printable characters without < > & " and no space at an end`},
		{`[{"id":"＜source＞","type":"custom","content":"x"}]`, ``, `chunks[0].id: "＜source＞" is not an id: 1 to 128 printable characters without < > & " and no space at an end`},
		{`[{"id":"` + strings.Repeat("é", 129) + `","type":"custom","content":"x"}]`, ``, `chunks[0].id: "` + strings.Repeat("é", 129) + `" is not an id: 1 to 128 printable characters without < > & " and no space at an end`},
		{`[` + ok + `,` + ok + `]`, ``, `chunks[1].id: "a" is the id of chunks[0] already`},
		{`[{"id":"a","content":"x"}]`, ``, `chunks[0].type: missing; use system, agent, workflow, delegation, environment, working_flow, output or custom`},
		{`[{"id":"a","type":"Agent","content":"x"}]`, ``, `chunks[0].type: "Agent" is not a type; use system, agent, workflow, delegation, environment, working_flow, output or custom`},
		{`[{"id":"a","type":"agent","content":"x"}]`, ``, `chunks[0].role: missing; an agent's is user or assistant`},
		{`[{"id":"a","type":"agent","role":null,"content":"x"}]`, ``, `chunks[0].role: missing; an agent's is user or assistant`},
		{`[{"id":"a","type":"agent","role":"system","content":"x"}]`, ``, `chunks[0].role: "system" is not a role of an agent; use user or assistant`},
		{`[{"id":"a","type":"custom"}]`, ``, `chunks[0].content: missing`},
		{`[{"id":"a","type":"custom","content":null}]`, ``, `chunks[0].content: null; a content is a string or any other JSON value`},
		{`[{"id":"a","type":"custom","content":"\ud800"}]`, ``, `chunks[0].content: escaped lone surrogate`},
		{"[{\"id\":\"a\",\"type\":\"custom\",\"content\":\"\xff\"}]", ``, `chunks[0].content: not valid UTF-8`},
		{"[{\"id\":\"a\",\"type\":\"custom\",\"content\":[\"\xff\"]}]", ``, `chunks[0].content: not valid UTF-8`},
		{`[{"id":"a","type":"custom","content":` + nested(1000) + `}]`, ``, `chunks[0].content: nested too deep`},
		{`[` + ok + `,{"id":"b","type":"custom","content":"x","metadata":{"deep":` + nested(1000) + `}}]`, ``, `chunks[1].metadata.deep: nested too deep`},
		{`[{"id":"a","type":"custom","content":"x","metadata":[]}]`, ``, `chunks[0].metadata: an array, not an object`},
		{`[{"id":"a","type":"custom","content":"x","metadata":{"k":1,"k":2}}]`, ``, `chunks[0].metadata.k: key "k" is repeated in one object`},
		{`[{"id":"a","id":"b","type":"custom","content":"x"}]`, ``, `chunks[0].id: key "id" is repeated in one object`},
		{`[{"id":"a","type":"custom","Content":"x"}]`, ``, `chunks[0].Content: unknown field; use id, type, role, action, subtype, content, priority, truncatable, created_at or metadata`},
		{`[{"id":"a","type":"custom","content":"x","priority":1.5}]`, ``, `chunks[0].priority: 1.5 is not a whole number`},
		{`[{"id":"a","type":"custom","content":"x","priority":"high"}]`, ``, `chunks[0].priority: a string, not a number`},
		{`[{"id":"a","type":"custom","content":"x","truncatable":"no"}]`, ``, `chunks[0].truncatable: a string, not a boolean`},
		{`[{"id":"a","type":"custom","content":"x","created_at":{}}]`, ``, `chunks[0].created_at: an object, not a string`},
		{many(100_000), ``, `chunks: more than 10000`},
		{`[` + ok + `,{"id":"b","type":"custom","content":"` + long + `"}]`, `{"max_tokens":100,"oversize":"refuse"}`, `chunks[1].content: needs 118 tokens, more than max_tokens, and may not be cut`},
		{`[` + ok + `,{"id":"b","type":"custom","truncatable":false,"content":"` + long + `"}]`, `{"max_tokens":100,"truncate":true,"oversize":"refuse"}`, `chunks[1].content: needs 118 tokens, more than max_tokens, and may not be cut`},
		{`[]`, `[]`, `context: an array, not an object`},
		{`[]`, `{"max_tokens":0}`, `context.max_tokens: 0 is not a whole number from 1 to 1073741824`},
		{`[]`, `{"max_tokens":1e3}`, `context.max_tokens: 1e3 is not a whole number from 1 to 1073741824`},
		{`[]`, `{"max_tokens":8,"system_prompt":"` + long + `"}`, `context.system_prompt: needs 105 tokens, more than max_tokens`},
		{`[]`, `{"include_system":1}`, `context.include_system: a number, not a boolean`},
		{`[]`, `{"exclude_types":["agent","tools"]}`, `context.exclude_types[1]: "tools" is not a type; use system, agent, workflow, delegation, environment, working_flow, output or custom`},
		{`[]`, `{"exclude_types":["agent"` + strings.Repeat(`,"agent"`, 64) + `]}`, `context.exclude_types: more than 64`},
		{`[` + ok + `]`, `{"include_only_chunk_ids":["a","b"]}`, `context.include_only_chunk_ids[1]: no chunk has the id "b"`},
		{`[` + ok + `]`, `{"include_only_chunk_ids":[]}`, `context.include_only_chunk_ids: names no chunk`},
		{`[` + ok + `]`, `{"include_only_chunk_ids":"a"}`, `context.include_only_chunk_ids: a string, not an array`},
		{`[]`, `{"fit":"last"}`, `context.fit: "last" is not a way to fit; use first, recent or priority`},
		{`[]`, `{"truncate":true,"truncate":false}`, `context.truncate: key "truncate" is repeated in one object`},
		{`[]`, `{"Fit":"first"}`, `context.Fit: unknown option; use max_tokens, system_prompt, include_system, include_environment, exclude_types, include_only_chunk_ids, fit, truncate or oversize`},
		{`[]`, `{"oversize":"drop"}`, `context.oversize: "drop" is not known; use exclude or refuse`},
		{`[]`, `{"oversize":true}`, `context.oversize: a boolean, not a string`},
	} {
		if c.context == "" {
			c.context = "null"
		}
		b := &chunks.Builder{Counter: encoding(t, "o200k_base")}
		if got := strings.TrimSuffix(outcome(b, []byte(c.list), []byte(c.context)), "\n"); got != c.want {
			t.Errorf("%.80s %.60s\n got %.300s\nwant %.300s", c.list, c.context, got, c.want)
		}
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// many returns a list of n chunks.
func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"id":"%d","type":"custom","content":"x"}`, i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// Optional fields may be null, as some libraries write them.
func TestNull(t *testing.T) {
	list := `[{"id":"a","type":"custom","content":"x","role":null,"action":null,"subtype":null,"priority":null,"truncatable":null,"created_at":null,"metadata":null}]`
	context := `{"max_tokens":null,"system_prompt":null,"include_system":null,"include_environment":null,"exclude_types":null,"include_only_chunk_ids":null,"fit":null,"truncate":null,"oversize":null}`
	b := &chunks.Builder{Counter: encoding(t, "o200k_base")}
	plain := outcome(b, []byte(`[{"id":"a","type":"custom","content":"x"}]`), []byte(`{}`))
	if got := outcome(b, []byte(list), []byte(context)); got != plain || !strings.Contains(got, "included a") {
		t.Errorf("got %s, want %s", got, plain)
	}
}

// An invalid rule is refused with an error naming its field.
func TestRuleRefused(t *testing.T) {
	for _, c := range []struct {
		rule chunks.Rule
		want string
	}{
		{chunks.Rule{}, `tag: missing`},
		{chunks.Rule{Tag: "source"}, `tag: "source" is reserved for sources; choose another tag`},
		{chunks.Rule{Tag: "SOURCES"}, `tag: "SOURCES" is reserved for sources; choose another tag`},
		{chunks.Rule{Tag: "component"}, `tag: "component" is reserved for sources; choose another tag`},
		{chunks.Rule{Tag: "a b"}, `tag: "a b" is not a legal name: 1 to 64 ASCII letters, digits, '_', '-' and '.', a letter first and no sign last`},
		{chunks.Rule{Tag: "a-"}, `tag: "a-" is not a legal name: 1 to 64 ASCII letters, digits, '_', '-' and '.', a letter first and no sign last`},
		{chunks.Rule{Tag: "a", When: chunks.When{Type: "tool"}}, `when.type: "tool" is not a type; use system, agent, workflow, delegation, environment, working_flow, output or custom`},
		{chunks.Rule{Tag: "a", As: "tool"}, `role: "tool" is not a role; use system, user or assistant`},
		{chunks.Rule{Tag: "a", Attributes: []chunks.AttributeRule{{Name: "1"}}}, `attributes[0]: "1" is not a legal name: 1 to 64 ASCII letters, digits, '_', '-' and '.', a letter first and no sign last`},
		{chunks.Rule{Tag: "a", Attributes: []chunks.AttributeRule{{Name: "id"}, {Name: "id"}}}, `attributes[1]: "id" is repeated`},
		{chunks.Rule{Tag: "a", Attributes: []chunks.AttributeRule{{Name: "x", From: "tool"}}}, `attributes[0].x: "tool" is neither a field (id, type, role, action, subtype, priority, created_at) nor metadata.KEY`},
		{chunks.Rule{Tag: "a", Body: "plain"}, `body: "plain" is neither text, json nor a template with {{content}} or another placeholder`},
		{chunks.Rule{Tag: "a", Body: "{{content}} {{tool}}"}, `body: {{tool}} is not a placeholder; use content, id, type, role, action, subtype, priority, created_at or metadata.KEY in double braces`},
	} {
		err := c.rule.Check()
		var bad *chunks.Error
		if !errors.As(err, &bad) || err.Error() != c.want {
			t.Errorf("%+v\n got %v\nwant %s", c.rule, err, c.want)
		}
	}
}

// An invalid result of a renderer in Go is an error that names the chunk.
func TestRendererRefused(t *testing.T) {
	list := []chunks.Chunk{{ID: "a", Type: chunks.Custom, Content: chunks.Text("x")}}
	for _, c := range []struct {
		fixed fixed
		tags  []string
		want  string
	}{
		{fixed{"user", chunks.Element{Tag: "plan"}}, nil, `chunks[0].type: its renderer writes the tag "plan", which the Builder's Tags do not have`},
		{fixed{"tool", chunks.Element{Tag: "plan"}}, []string{"plan"}, `chunks[0].type: its renderer gives it the role "tool"; use system, user or assistant`},
		{fixed{"user", chunks.Element{Tag: "plan", Attributes: []chunks.Attribute{{"a=\"", "b"}}}}, []string{"plan"}, `chunks[0].type: its renderer writes the attribute "a=\"", which is not a legal name`},
		{fixed{"user", chunks.Element{Tag: "chunk"}}, []string{"source"}, `tag: "source" is reserved for sources; choose another tag`},
	} {
		b := &chunks.Builder{Counter: encoding(t, "o200k_base"), Renderers: []chunks.Renderer{c.fixed}, Tags: c.tags}
		if _, err := b.Build(list, chunks.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// fixed renders every chunk as the same element.
type fixed struct {
	role    chunks.Role
	element chunks.Element
}

func (f fixed) CanRender(*chunks.Chunk) bool        { return true }
func (f fixed) Role(*chunks.Chunk) chunks.Role      { return f.role }
func (f fixed) Render(*chunks.Chunk) chunks.Element { return f.element }

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`[{"id":"a","type":"agent","role":"user","content":"x"},{"id":"b","type":"environment","content":{"a": "\u003c/tool_result>"},"metadata":{"tool":"t","n":1.0}}]`,
		`[{"id":"a","type":"system","content":[],"priority":-5,"truncatable":false,"created_at":1}]`, `[{"id":`, `null`, `[[`, `["`, `[{"`, `[{"id":"\`,
	} {
		f.Add([]byte(s), []byte(`{"max_tokens":40,"fit":"priority","truncate":true,"system_prompt":"a"}`))
	}
	counter := encoding(f, "cl100k_base")
	f.Fuzz(func(t *testing.T, list, context []byte) {
		all, err := chunks.Parse(list)
		if err == nil {
			var o chunks.Options
			if o, err = chunks.ParseOptions(context); err == nil {
				var r chunks.Result
				if r, err = (&chunks.Builder{Counter: counter, MinTruncated: 1}).Build(all, o); err == nil && o.SystemPrompt == "" {
					checkIDs(t, &r, all)
				}
			}
		}
		if bad := (*chunks.Error)(nil); err != nil && (!errors.As(err, &bad) || bad.Param == "" || bad.Reason == "") {
			t.Fatalf("%T %v", err, err)
		}
	})
}
