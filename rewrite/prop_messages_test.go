package rewrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// messagesGen draws requests of the Messages API: system as a string or blocks, marks, thinking and
// tool use with its results, images, the application's own search results and blocks of unknown
// types.
func messagesGen() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
		str := func(most int) string {
			b, err := json.Marshal(textGen(most).Draw(t, "text"))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		text := func() string {
			mark := rapid.SampledFrom([]string{"", "", `,"cache_control":{"type":"ephemeral"}`}).Draw(t, "mark")
			return `{"type":"text",` + space() + `"text":` + str(6) + mark + "}"
		}
		result := func(cited string) string {
			return `{"type":"search_result","source":"https://example.com","title":` + str(3) + `,"content":[{"type":"text","text":` + str(4) + `}],"citations":{"enabled":` + cited + `}}`
		}
		blocks := func(first ...string) string {
			list := first
			for range rapid.IntRange(1, 3).Draw(t, "blocks") {
				switch rapid.IntRange(0, 7).Draw(t, "block") {
				case 0:
					list = append(list, `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`)
				case 1:
					list = append(list, result(rapid.SampledFrom([]string{"true", "true", "false"}).Draw(t, "cited")))
				case 2:
					list = append(list, `{"type":"novel","content":[7],"text":"x"}`)
				default:
					list = append(list, text())
				}
			}
			return "[" + space() + strings.Join(list, ","+space()) + "]"
		}
		var turns []string
		say := func(role, content string) {
			turns = append(turns, `{"role":"`+role+`",`+space()+`"content":`+content+`}`)
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "turns") {
			switch rapid.IntRange(0, 3).Draw(t, "question") {
			case 0:
				say("user", str(10))
			case 1:
				say("user", "[]")
			default:
				say("user", blocks())
			}
			switch rapid.IntRange(0, 4).Draw(t, "answer") {
			case 0, 1: // a round of tools
				id := fmt.Sprintf("toolu_%d", i)
				say("assistant", `[{"type":"thinking","thinking":`+str(4)+`,"signature":"c2ln"},{"type":"tool_use","id":"`+id+`","name":"f","input":{}}]`)
				say("user", blocks(`{"type":"tool_result","tool_use_id":"`+id+`","content":`+rapid.SampledFrom([]string{str(5), "[" + text() + "]", "[" + result("true") + "]"}).Draw(t, "result")+`}`))
			case 2:
				say("assistant", str(8))
			case 3:
				say("system", str(8))
			}
		}
		members := []string{`"messages":[` + space() + strings.Join(turns, ","+space()) + `]`, `"max_tokens":` + rapid.SampledFrom([]string{"0", "1", "1024"}).Draw(t, "limit")}
		if rapid.IntRange(0, 2).Draw(t, "with system") > 0 {
			members = append(members, `"system":`+rapid.SampledFrom([]string{"null", str(8), "[]", "[" + text() + "," + text() + "]", `"A {{sidenote}} B"`, `[{"type":"text","text":"A {{sidenote}} B"}]`}).Draw(t, "system"))
		}
		for _, extra := range []string{`"model":"claude"`, `"x":[1.0,{"a":null}]`, `"sidenote":{"query":"leave"}`, `"cache_control":{"type":"ephemeral"}`, `"thinking":{"type":"adaptive"}`, `"tools":[{"name":"f","input_schema":{"type":"object"}}]`, `"output_config":{"format":{"type":"json_schema","schema":{}}}`} {
			if rapid.IntRange(0, 2).Draw(t, "extra") == 0 {
				members = append(members, extra)
			}
		}
		members = rapid.Permutation(members).Draw(t, "order")
		return "{" + space() + strings.Join(members, space()+","+space()) + space() + "}" + space()
	})
}

// A rewritten request of the Messages API differs from the sent one in its edits alone: no message
// is added, removed or moved. The system member grows at its end, and the last user message without
// results of tools, at the end of its content. Marks, thinking, tool use and results stay as they
// are, and search results of sources come after those of the application.
func TestRewriteHoldsForMessages(t *testing.T) {
	tally := map[string]int{}
	counters := map[string]retrieval.Counter{"words": words{}, "o200k_base": encoding(t, "o200k_base")}
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(messagesGen().Draw(t, "body"))
		policy := policyGen().Draw(t, "policy")
		policy.SourcesFormat = rapid.SampledFrom([]rewrite.SourcesFormat{rewrite.SourcesTags, rewrite.SourcesPlain, rewrite.SourcesSearchResult, rewrite.SourcesSearchResult}).Draw(t, "format")
		found := rapid.SliceOfN(sourceGen(), 0, 4).Draw(t, "sources")
		encoding := rapid.SampledFrom([]string{"words", "o200k_base"}).Draw(t, "encoding")
		rw := rewrite.OneOfMany(&rewrite.Rewriter{
			Retriever: answering(found),
			Models:    models{model.Model{Row: "test", Encoding: encoding, Counter: counters[encoding], SearchResults: true, Estimated: policy.SourcesFormat == rewrite.SourcesSearchResult, Window: rapid.SampledFrom([]int{0, 0, 600, 5000}).Draw(t, "window")}},
		})
		req, err := chat.Messages.Parse(body)
		if err != nil {
			t.Fatalf("Parse(%s): %v", body, err)
		}
		options, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		res := rw.Rewritten(t.Context(), policy, req, options)
		out := rewrite.ApplyEdits(nil, body, res.Edits)
		editsAreSound(t, body, res.Edits)
		var sent, got map[string]json.RawMessage
		if json.Unmarshal(body, &sent) != nil || json.Unmarshal(out, &got) != nil {
			t.Fatalf("not JSON: %s", out)
		}
		for name, value := range sent {
			if name != "messages" && name != "system" && name != "sidenote" && !bytes.Equal(value, got[name]) {
				t.Fatalf("%s is %s, was %s", name, got[name], value)
			}
		}
		for name := range got {
			if sent[name] == nil && name != "system" {
				t.Fatalf("new member %s", name)
			}
		}
		if bytes.Count(body, []byte("cache_control")) != bytes.Count(out, []byte("cache_control")) {
			t.Fatalf("another number of marks: %s", out)
		}
		type message struct {
			Role    string
			Content json.RawMessage
		}
		var before, after []message
		if json.Unmarshal(sent["messages"], &before) != nil || json.Unmarshal(got["messages"], &after) != nil || len(before) != len(after) {
			t.Fatalf("%d messages, were %d", len(after), len(before))
		}
		asked := -1
		for i, m := range before {
			if m.Role == "user" && !bytes.Contains(m.Content, []byte(`"tool_result"`)) {
				asked = i
			}
		}
		marked := bytes.Contains(body, []byte("{{sidenote}}"))
		for i := range before {
			if before[i].Role != after[i].Role {
				t.Fatalf("message %d has role %s, had %s", i, after[i].Role, before[i].Role)
			}
			if bytes.Equal(before[i].Content, after[i].Content) {
				continue
			}
			if i != asked && !marked {
				t.Fatalf("message %d is %s, was %s", i, after[i].Content, before[i].Content)
			}
			was, is := blocksOf(t, before[i].Content), blocksOf(t, after[i].Content)
			if len(is) < len(was) || len(was) > 1 && !reflect.DeepEqual(was, is[:len(was)]) {
				t.Fatalf("message %d is %s, was %s", i, after[i].Content, before[i].Content)
			}
		}
		if results := res.Ledger.Results; results != nil {
			all, theirs := bytes.Count(out, []byte(`"search_result"`)), bytes.Count(body, []byte(`"search_result"`))
			if results.First != theirs || len(results.IDs) != all-theirs || len(results.IDs) == 0 {
				t.Fatalf("%d search results, %d of the application, %+v", all, theirs, results)
			}
			tally["search results"]++
		}
		tally[string(res.Ledger.Placement)]++
	})
	for _, want := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceLastUser, rewrite.PlaceMarker, "", "search results"} {
		if tally[string(want)] == 0 {
			t.Errorf("no case with %q: %v", want, tally)
		}
	}
}

// blocksOf returns a content as blocks.
func blocksOf(t *rapid.T, content json.RawMessage) (blocks []map[string]any) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []map[string]any{{"type": "text", "text": text}}
	}
	if err := json.Unmarshal(content, &blocks); err != nil {
		t.Fatal(err)
	}
	return blocks
}
