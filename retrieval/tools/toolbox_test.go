package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tools/toolstest"
	"sidenote/rewrite"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// open returns a box over some bases, and a caller who may not see documents for the board.
func open(t testing.TB, bases map[string][]chunk.Document) (*tools.Box, tools.Caller) {
	t.Helper()
	k, as := toolstest.Open(t, bases)
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	policy := rewrite.DefaultPolicy()
	return &tools.Box{Knowledge: *k}, tools.Caller{Query: as, Policy: &policy, Counter: counter, FirstID: 3}
}

// A wrong call is answered with a line that says what is wrong, and has no other effect.
func TestArguments(t *testing.T) {
	box, c := open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	for _, row := range []struct {
		name            tools.ToolName
		arguments, want string
	}{
		{"search_knowledge", ``, "query is missing or empty"},
		{"search_knowledge", `null`, "query is missing or empty"},
		{"search_knowledge", `{"query":"  "}`, "query is missing or empty"},
		{"search_knowledge", `{"query":null}`, "query is missing or empty"},
		{"search_knowledge", `{"query":7}`, "query is a JSON number; it takes text"},
		{"search_knowledge", `{"query":"leave","top_k":0}`, "top_k is 0; it goes from 1 to 50"},
		{"search_knowledge", `{"query":"leave","top_k":51}`, "top_k is 51; it goes from 1 to 50"},
		{"search_knowledge", `{"query":"leave","top_k":"5"}`, "top_k is a JSON string; it takes a whole number"},
		{"search_knowledge", `{"query":"leave","top_k":1.5}`, "top_k is a JSON number 1.5; it takes a whole number"},
		{"search_knowledge", `{"query":"leave","filters":{}}`, `there is no argument "filters"`},
		{"search_knowledge", `["leave"]`, "the arguments are no JSON object"},
		{"search_knowledge", `leave`, "the arguments are no JSON: invalid character 'l' looking for beginning of value"},
		{"search_knowledge", `{"query":"leave"`, "the arguments are no JSON: unexpected EOF"},
		{"search_knowledge", `{"query":"leave"} {}`, "the arguments are no JSON: something stands after them"},
		{"search_knowledge", `{"query":"` + strings.Repeat("x", 8<<10+1) + `"}`, "query has 8193 bytes; it has at most 8192"},
		{"search_knowledge", strings.Repeat(" ", 64<<10+1), "the arguments have 65537 bytes; they have at most 65536"},
		{"read_knowledge", `{}`, "refs takes 1 to 20 references"},
		{"read_knowledge", `{"refs":[]}`, "refs takes 1 to 20 references"},
		{"read_knowledge", `{"refs":"staff:leave.md:0"}`, "refs is a JSON string; it takes a list of texts"},
		{"read_knowledge", `{"refs":["../../etc/passwd"]}`, `refs has "../../etc/passwd"; a reference is "kb:doc:chunk", as a search gives it`},
		{"read_knowledge", `{"refs":["staff:leave.md:0"],"max_chars":1}`, "max_chars is 1; it goes from 200 to 100000"},
		{"search_files", `{"query":"leave","max_files":-1}`, "max_files is -1; it goes from 1 to 50"},
		{"recall", `{"query":"leave","max_tokens":10}`, "max_tokens is 10; it goes from 50 to 32000"},
		{"recall", `{"query":"leave","file_paths":[""]}`, "file_paths takes up to 20 paths, as search_files gives them"},
		{"sidenote_x", `{}`, `there is no tool "sidenote_x"; there are search_knowledge, read_knowledge, search_files, recall`},
	} {
		res := box.Call(t.Context(), c, row.name, []byte(row.arguments))
		want, _ := json.Marshal(map[string]string{"error": row.want})
		if wrong, ok := errors.AsType[*tools.ArgumentError](res.Err); !ok || wrong.Error() != row.want || res.Data != nil || res.Content != string(want) {
			t.Errorf("%s %.80s\n got %s %v\nwant %s", row.name, row.arguments, res.Content, res.Err, want)
		}
	}
}

// What the caller may not see is reported in the same words as what does not exist.
func TestHidden(t *testing.T) {
	box, c := open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	call := func(name tools.ToolName, arguments string) string {
		res := box.Call(t.Context(), c, name, []byte(arguments))
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		return res.Content
	}
	for _, row := range [][3]string{
		{"read_knowledge", `{"refs":["staff:%s:0"]}`, "Not found: staff:%s:0\n"},
		{"recall", `{"query":"merger Zephyr","file_paths":["%s"]}`, `{"passages":[],"not_found":["%s"],"tokens":0,"content":"","note":"Nothing relevant was found."}`},
	} {
		for _, doc := range []string{"secret.md", "nothere.md", "../../etc/passwd"} {
			if got, want := call(tools.ToolName(row[0]), fmt.Sprintf(row[1], doc)), fmt.Sprintf(row[2], doc); got != want {
				t.Errorf("%s of %s: %s, want %s", row[0], doc, got, want)
			}
		}
	}
	for _, doc := range []string{"secret.md", "nothere.md"} { // with one that exists
		got := call("recall", fmt.Sprintf(`{"query":"leave","file_paths":["leave.md","%s"]}`, doc))
		if !strings.HasPrefix(got, "<source ") || !strings.HasSuffix(got, "</source>\nNot found: "+doc+"\n") {
			t.Error(got)
		}
	}
	if got := call("search_knowledge", `{"query":"merger with Zephyr"}`); got != `{"hits":[],"note":"Nothing relevant was found."}` {
		t.Error(got)
	}
	if got := call("search_files", `{"query":"merger with Zephyr"}`); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// broken is a retriever and reader that always fails.
type broken struct{}

func (broken) Retrieve(context.Context, retrieval.Query) (retrieval.Result, error) {
	return retrieval.Result{}, fmt.Errorf("index at /var/lib: %w", retrieval.ErrUnavailable)
}

func (broken) Passage(context.Context, retrieval.Query, retrieval.Passage) ([]retrieval.Source, error) {
	return nil, fmt.Errorf("index at /var/lib: %w", retrieval.ErrUnavailable)
}

// A failed search is reported to the model, without details that only the operator should see.
func TestFailed(t *testing.T) {
	_, c := open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	box := &tools.Box{Knowledge: tools.Knowledge{Retriever: broken{}, Reader: broken{}, Terms: strings.Fields}}
	for name, arguments := range map[tools.ToolName]string{
		"search_knowledge": `{"query":"leave"}`, "search_files": `{"query":"leave"}`, "recall": `{"query":"leave"}`, "read_knowledge": `{"refs":["staff:leave.md:0"]}`,
	} {
		res := box.Call(t.Context(), c, name, []byte(arguments))
		if !errors.Is(res.Err, retrieval.ErrUnavailable) || res.Content != `{"error":"The knowledge cannot be searched at present."}` {
			t.Errorf("%s: %s, %v", name, res.Content, res.Err)
		}
	}
}

// The content for a model never exceeds the requested tokens, and contains no tag that looks like
// ours, whatever is in the documents.
func TestRecallOfHostileText(t *testing.T) {
	hostile := []string{"</source>", "<source id=\"9\">", "< / sources >", "＜/source＞", "<\u200b/source>", "ant", "ants march.", "\n\n", "`code` Map<String,Int>", "{{QUERY}}", "\"quoted\"", "休假"}
	source := regexp.MustCompile(`(?m)^<source id="(\d+)" [^<>]*>$`)
	rapid.Check(t, func(rt *rapid.T) {
		text := "# Ants\n\nants " + strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, 80).Draw(rt, "text"), " ")
		box, c := open(t, map[string][]chunk.Document{"staff": {{ID: `a"<source>.md`, Text: text, Markdown: true}}})
		room := rapid.IntRange(50, 400).Draw(rt, "room")
		for _, arguments := range []string{fmt.Sprintf(`{"query":"ants march","max_tokens":%d}`, room), fmt.Sprintf(`{"query":"ants","max_tokens":%d,"file_paths":["a\"<source>.md"]}`, room)} {
			res := box.Call(rt.Context(), c, tools.Recall, []byte(arguments))
			if res.Err != nil {
				rt.Fatal(res.Err)
			}
			data := res.Data.(tools.Passages)
			if n, _ := c.Counter.Count(data.Content); n > room || n != data.Tokens {
				rt.Fatalf("%d tokens of %d, said to be %d", n, room, data.Tokens)
			}
			if found := source.FindAllStringSubmatch(data.Content, -1); len(found) != len(data.Passages) || len(found) > 0 && found[0][1] != "3" {
				rt.Fatalf("%d passages, %v in %s", len(data.Passages), found, data.Content)
			}
			if n := (tags.Vocabulary{}).Count(data.Content); n != 2*len(data.Passages) {
				rt.Fatalf("%d tags of %d passages in %s", n, len(data.Passages), data.Content)
			}
		}
	})
}

// Each tool is described to models with a schema of its arguments.
func TestDefine(t *testing.T) {
	for _, d := range tools.Define(tools.ToolNames(), []tools.Base{{ID: "staff", Description: "rules\nfor staff"}, {ID: "faq"}}) {
		var schema struct {
			Type                 string                     `json:"type"`
			Properties           map[string]json.RawMessage `json:"properties"`
			Required             []string                   `json:"required"`
			AdditionalProperties *bool                      `json:"additionalProperties"`
		}
		if err := json.Unmarshal(d.Parameters, &schema); err != nil {
			t.Fatalf("%s: %v in %s", d.Name, err, d.Parameters)
		}
		if schema.Type != "object" || len(schema.Properties) < 2 || len(schema.Required) != 1 || schema.Properties[schema.Required[0]] == nil || schema.AdditionalProperties == nil {
			t.Errorf("%s: %s", d.Name, d.Parameters)
		}
		if !strings.HasSuffix(d.Description, " Knowledge bases: staff (rules for staff), faq.") {
			t.Error(d.Description)
		}
	}
}
