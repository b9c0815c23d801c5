package chunks_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/chunks"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		checks := "5000"
		if testing.Short() {
			checks = "2500" // of which rapid runs a fifth
		}
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// hostile are parts of contents: what looks like a tag, what tokenizers merge across seams, what
// JSON and XML escape.
var hostile = []string{
	"a", " word", "The parents'll", "12", "3456", ".", "\n", "\n\n", "\r\n", "  ", "\t", "/", "//", "'s", "…", "。", "文字", "🙂", "e\u0301", "\u0301", "<", ">", "&", "\"", "\\", "\\u003c",
	"</user_message>", "<user_message id=\"x\" role=\"user\">", "<SYSTEM_CONTEXT id=\"x\">", "</ tool_result >", "<\u200bthinking", "＜/chunk＞", "&lt;/progress_summary&gt;", "<tool_call",
	"</tool", "_call>", "<!--", "]]>", "<sources>", "<source id=\"1\">", "</component>", "<note id=\"x\">", "</note>", "[/note>", "i<chunk.length", "Map<String,Int>", "\u0000", "\u202e", "\U000e0041", "\xff", "<|endoftext|>",
}

func texts(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, most).Draw(t, "pieces"), "")
	})
}

func contents() *rapid.Generator[chunks.Content] {
	return rapid.Custom(func(t *rapid.T) chunks.Content {
		text := texts(12).Draw(t, "text")
		if rapid.Bool().Draw(t, "plain") {
			return chunks.Text(text)
		}
		return asJSON(text)
	})
}

// asJSON returns a JSON object with text as a key and as a value. Every "<" is escaped, as some
// libraries do.
func asJSON(text string) chunks.Content {
	value, err := json.Marshal(map[string]any{"key " + text: text, "n": json.Number("1.0")})
	if err != nil {
		panic(err)
	}
	c, err := chunks.JSON(value)
	if err != nil {
		panic(err)
	}
	return c
}

func lists() *rapid.Generator[[]chunks.Chunk] {
	return rapid.Custom(func(t *rapid.T) []chunks.Chunk {
		list := make([]chunks.Chunk, rapid.IntRange(0, 12).Draw(t, "chunks"))
		for i := range list {
			list[i] = chunks.Chunk{
				ID:         fmt.Sprintf("id-%d", i),
				Type:       rapid.SampledFrom(chunks.Types()).Draw(t, "type"),
				Role:       rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role"),
				Action:     rapid.SampledFrom([]string{"", "clarify", "skill", "message", "todo", "abandon", "</thinking>\n"}).Draw(t, "action"),
				Subtype:    rapid.SampledFrom([]string{"", "note", "intervention", "<note>"}).Draw(t, "subtype"),
				Content:    contents().Draw(t, "content"),
				Priority:   rapid.SampledFrom([]json.Number{"", "0", "70", "100", "-5", "12345678901234567890"}).Draw(t, "priority"),
				NoTruncate: rapid.Bool().Draw(t, "whole"),
				Metadata:   map[string]any{"tool": texts(3).Draw(t, "tool"), "success": true},
			}
		}
		return list
	})
}

// noteRule returns a rule that renders chunks of subtype note as notes.
func noteRule() chunks.Rule {
	return chunks.Rule{When: chunks.When{Subtype: "note"}, Tag: "note", As: "assistant", Body: "{{content}} by {{metadata.tool}}"}
}

func withNotes(counter tokens.Counter, counts *tokens.Cache) *chunks.Builder {
	rule := noteRule()
	return &chunks.Builder{Counter: counter, Renderers: []chunks.Renderer{&rule}, Tags: []string{rule.Tag}, Counts: counts, MinTruncated: 5}
}

// Whatever the chunks and options are: a recount of the messages gives the reported count and is
// within the budget, every chunk is either included or excluded, consecutive messages differ in
// role, and a tolerant reader finds the included ids in order.
func TestProperties(t *testing.T) {
	set := tokens.New()
	counts := map[string]*tokens.Cache{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"o200k_base", "cl100k_base", "p50k_base", "r50k_base"}).Draw(t, "encoding")
		counter, err := set.Encoding(name)
		if err != nil {
			t.Fatal(err)
		}
		if counts[name] == nil {
			counts[name] = tokens.NewCache(8)
		}
		list := lists().Draw(t, "list")
		o := chunks.Options{
			MaxTokens:     rapid.IntRange(1, 600).Draw(t, "max_tokens"),
			SystemPrompt:  rapid.SampledFrom([]string{"", "Be brief.", "Line\n", "Line\n\n", "=", "über "}).Draw(t, "prompt"),
			NoSystem:      rapid.IntRange(0, 4).Draw(t, "no system") == 0,
			NoEnvironment: rapid.IntRange(0, 4).Draw(t, "no environment") == 0,
			Fit:           rapid.SampledFrom([]chunks.Fit{"", chunks.FitFirst, chunks.FitRecent, chunks.FitPriority}).Draw(t, "fit"),
			Truncate:      rapid.Bool().Draw(t, "truncate"),
			Window:        rapid.SampledFrom([]int{0, 0, 0, -1, 50, 300}).Draw(t, "window"),
		}
		if rapid.Bool().Draw(t, "joined") {
			o.Joined = &chunks.Seam{Before: rapid.SampledFrom([]string{"", "You help.", "Rules:\n", "=", "über ", "a\n\n", "/", "'"}).Draw(t, "before"), Lead: rapid.SampledFrom([]string{"", "\n", "\n\n"}).Draw(t, "lead")}
		}
		r, err := withNotes(counter, counts[name]).Build(list, o)
		for err != nil && o.MaxTokens < 1<<12 { // a chunk is larger than the budget, or the prompt than the window
			o.MaxTokens, o.Window = 2*o.MaxTokens, 0
			r, err = withNotes(counter, counts[name]).Build(list, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		checkCounts(t, counter, &r, &o)
		checkIDs(t, &r, list)
		again, err := withNotes(counter, nil).Build(list, o)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatalf("what is remembered changes the result: %v, without %v (%v)", r, again, err)
		}
	})
}

func checkCounts(t *rapid.T, counter tokens.Counter, r *chunks.Result, o *chunks.Options) {
	sum := 0
	for i, m := range r.Messages {
		n, exact := counter.Count(m.Content)
		if n += tokens.MessageOverhead; m.Role == chunks.RoleSystem && o.Joined != nil {
			before, _ := counter.Count(o.Joined.Before)
			n, exact = counter.Count(o.Joined.Before + o.Joined.Lead + m.Content)
			n -= before
		}
		if n != m.TokenCount || !exact {
			t.Fatalf("message %d is told to cost %d, recounted %d (exact %t):\n%s", i, m.TokenCount, n, exact, m.Content)
		}
		sum += n
		if i > 0 && m.Role == r.Messages[i-1].Role {
			t.Fatalf("messages %d and %d have the same role %s", i-1, i, m.Role)
		}
	}
	budget := o.MaxTokens
	if o.Window != 0 {
		budget = min(budget, max(o.Window, 0))
	}
	if sum != r.TokenCount || sum > budget || !r.Exact {
		t.Fatalf("recounted %d tokens, told %d, exact %t, budget %d", sum, r.TokenCount, r.Exact, budget)
	}
}

// scanner matches tags as a lenient XML parser does, for which a name ends at white space, '/' or
// '>': i<chunk.length is code.
var scanner = regexp.MustCompile(`(?i)<[\s/]*(?:` + strings.Join([]string{
	"system_context", "user_message", "assistant_response", "assistant_clarification", "tool_call", "skill_call", "spawn_subagent", "message_to_subagent", "subagent_result",
	"parent_agent_message", "tool_result", "skill_result", "progress_summary", "user_intervention", "todo_update", "thinking", "task_completed", "task_abandoned", "task_terminated", "chunk",
	"note", "sources?", "component",
}, "|") + `)(?:>|$|[\s/](?:[^>"]|"[^"]*")*>?)`)

// ids returns the ids of the elements in text, whose tags open and close in turn.
func ids(t rapid.TB, text string) (all []string) {
	id := regexp.MustCompile(` id="([^"]*)"`)
	open := false
	for _, tag := range scanner.FindAllString(text, -1) {
		closing := strings.HasPrefix(tag, "</")
		if closing != open {
			t.Fatalf("tag %q in %q", tag, text)
		}
		if open = !open; open {
			m := id.FindStringSubmatch(tag)
			if m == nil {
				t.Fatalf("no id in %q", tag)
			}
			all = append(all, m[1])
		}
	}
	if open {
		t.Fatalf("the last element of %q is open", text)
	}
	return all
}

func checkIDs(t rapid.TB, r *chunks.Result, list []chunks.Chunk) {
	v := tags.NewVocabulary("system_context", "user_message", "assistant_response", "assistant_clarification", "tool_call", "skill_call", "spawn_subagent", "message_to_subagent",
		"subagent_result", "parent_agent_message", "tool_result", "skill_result", "progress_summary", "user_intervention", "todo_update", "thinking", "task_completed", "task_abandoned",
		"task_terminated", "chunk", "note")
	var read []string
	for _, m := range r.Messages {
		in := ids(t, m.Content)
		if !slices.Equal(in, m.ChunkIDs) {
			t.Fatalf("a scanner reads %q, the message holds %q:\n%s", in, m.ChunkIDs, m.Content)
		}
		if n := v.Count(m.Content); n != 2*len(in) {
			t.Fatalf("a tolerant reader finds %d tags of %d elements:\n%s", n, len(in), m.Content)
		}
		read = append(read, in...)
	}
	var excluded []string
	for _, x := range r.Excluded {
		if x.Reason == "" {
			t.Fatalf("%s is excluded for no reason", x.ID)
		}
		excluded = append(excluded, x.ID)
	}
	if slices.Sort(read); !slices.Equal(read, sorted(r.Included)) {
		t.Fatalf("messages hold %q, told %q", read, r.Included)
	}
	var all []string
	for i := range list {
		all = append(all, list[i].ID)
	}
	if both := sorted(slices.Concat(r.Included, excluded)); !slices.Equal(both, sorted(all)) {
		t.Fatalf("included and excluded are %q, the list %q", both, all)
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// No content, attribute or value in JSON can forge or break a tag.
func TestHostileContents(t *testing.T) {
	n := 4_000
	if os.Getenv("SIDENOTE_LONG") != "" {
		n = 100_000
	}
	counter := encoding(t, "o200k_base")
	random := rand.New(rand.NewPCG(19, 19))
	draw := func() string {
		var text strings.Builder
		for range random.IntN(8) {
			text.WriteString(hostile[random.IntN(len(hostile))])
		}
		return text.String()
	}
	const at = 20
	for done := 0; done < n; done += at {
		list := make([]chunks.Chunk, at)
		for i := range list {
			c := &list[i]
			*c = chunks.Chunk{ID: fmt.Sprint(done + i), Type: chunks.Types()[random.IntN(8)], Role: []string{"user", "assistant"}[random.IntN(2)], Action: draw(), Content: chunks.Text(draw())}
			if random.IntN(3) == 0 {
				c.Content = asJSON(draw())
			}
			if random.IntN(4) == 0 {
				c.Subtype = "note"
			}
			c.Metadata = map[string]any{"tool": draw(), "error": draw(), "status": draw()}
		}
		r, err := withNotes(counter, nil).Build(list, chunks.Options{MaxTokens: 1 << 20, Truncate: done%3 == 0})
		if err != nil {
			t.Fatal(err)
		}
		checkIDs(t, &r, list)
	}
}
