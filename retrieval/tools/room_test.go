package tools_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tools/toolstest"
)

// anyCall draws a well-formed call of some tool.
func anyCall(rt *rapid.T) (tools.ToolName, string) {
	query := rapid.SampledFrom([]string{"badge tricycles garage", "leave", "merger with Zephyr", "the"}).Draw(rt, "query")
	several := func(from []string) string {
		return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(from), 1, 20).Draw(rt, "several"), `","`) + `"`
	}
	long := "none" + strings.Repeat("/deep", rapid.IntRange(0, 300).Draw(rt, "deep"))
	name := rapid.SampledFrom(tools.ToolNames()).Draw(rt, "name")
	switch name {
	case tools.ReadKnowledge:
		return name, fmt.Sprintf(`{"refs":[%s],"max_chars":%d}`, several([]string{"staff:guide.md:0", "staff:guide.md:1", "staff:guide.md:2", "staff:secret.md:0", "staff:" + long + ":0"}), rapid.IntRange(200, 20_000).Draw(rt, "chars"))
	case tools.Recall:
		paths := "null"
		if rapid.Bool().Draw(rt, "named") {
			paths = "[" + several([]string{"guide.md", "secret.md", long}) + "]"
		}
		return name, fmt.Sprintf(`{"query":%q,"max_tokens":%d,"file_paths":%s}`, query, rapid.IntRange(50, 3000).Draw(rt, "tokens"), paths)
	case tools.SearchFiles:
		return name, fmt.Sprintf(`{"query":%q,"max_files":50}`, query)
	}
	return name, fmt.Sprintf(`{"query":%q,"top_k":50}`, query)
}

// The result of every call fits into the token budget; if the whole result fits, it is the same as
// without a limit, and if nothing fits, the model is told so.
func TestRoom(t *testing.T) {
	box, c := open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	rapid.Check(t, func(rt *rapid.T) {
		name, arguments := anyCall(rt)
		c.MaxTokens = 0
		free := box.Call(rt.Context(), c, name, []byte(arguments))
		if free.Err != nil {
			rt.Fatalf("%s %s: %v", name, arguments, free.Err)
		}
		whole, _ := c.Counter.Count(free.Content)
		c.MaxTokens = rapid.IntRange(1, whole+10).Draw(rt, "room")
		res := box.Call(rt.Context(), c, name, []byte(arguments))
		n, _ := c.Counter.Count(res.Content)
		switch {
		case errors.Is(res.Err, tools.ErrNoRoom):
			if res.Content != `{"error":"no room is left for results in this conversation"}` || res.Data != nil || c.MaxTokens >= min(whole, 600) && !strings.Contains(free.Content, "Nothing fits") {
				rt.Fatalf("%s %s: no room in %d of %d: %s", name, arguments, c.MaxTokens, whole, res.Content)
			}
		case res.Err != nil || n > c.MaxTokens || res.Data == nil:
			rt.Fatalf("%s %s: %d tokens of %d, %v: %s", name, arguments, n, c.MaxTokens, res.Err, res.Content)
		case c.MaxTokens >= whole && res.Content != free.Content:
			rt.Fatalf("%s %s: %s, without a bound %s", name, arguments, res.Content, free.Content)
		case c.MaxTokens < whole && len(res.Sources) > len(free.Sources) && name != tools.Recall: // shortened passages of Recall may not be adjacent any more
			rt.Fatalf("%s %s: %d sources, without a bound %d", name, arguments, len(res.Sources), len(free.Sources))
		}
	})
}

// If not everything fits, the best results stay.
func TestRoomForSome(t *testing.T) {
	box, c := open(t, map[string][]chunk.Document{"staff": toolstest.Staff()})
	for _, row := range []struct {
		room                  int
		name                  tools.ToolName
		arguments, want, gone string
	}{
		{130, "search_knowledge", `{"query":"badge tricycles garage","top_k":9}`, `{"hits":[{"ref_id":"staff:guide.md:`, ""},
		{150, "read_knowledge", `{"refs":["staff:guide.md:0","staff:guide.md:1","staff:guide.md:2"]}`, "Cut to fit: 3 of the refs\n", ""},
		{120, "read_knowledge", `{"refs":["staff:guide.md:0","staff:` + strings.Repeat("long/", 90) + `:0"]}`, "Not found: 1 of the refs\n", "long"},
		{90, "recall", `{"query":"badge tricycles"}`, "velocity", ""},
	} {
		c.MaxTokens = row.room
		res := box.Call(t.Context(), c, row.name, []byte(row.arguments))
		if res.Err != nil || !strings.Contains(res.Content, row.want) || row.gone != "" && strings.Contains(res.Content, row.gone) {
			t.Errorf("%s: %s, %v", row.name, res.Content, res.Err)
		}
	}
	// A max_tokens in which nothing fits is distinguished from an empty result.
	c.MaxTokens = 0
	box, c = open(t, map[string][]chunk.Document{"staff": {{ID: strings.Repeat("ants", 200), Text: "Ants march."}}})
	res := box.Call(t.Context(), c, tools.Recall, []byte(`{"query":"ants march","max_tokens":50}`))
	if want := `"note":"Nothing fits into max_tokens."`; res.Err != nil || !strings.Contains(res.Content, want) {
		t.Errorf("%s, %v", res.Content, res.Err)
	}
}
