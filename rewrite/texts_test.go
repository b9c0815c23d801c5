package rewrite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// written returns a text as encoded by six JSON encoders.
func written(text string) []string {
	plain := `"` + string(chat.Frame{}.JSON([]string{text})) + `"`
	html, _ := json.Marshal(text)
	var ascii strings.Builder
	for _, r := range plain {
		if r < 0x80 {
			ascii.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&ascii, `\u%04x`, unit)
		}
	}
	gson := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "=", `\u003d`, "'", `\u0027`).Replace(plain)
	dotnet := strings.NewReplacer(`\"`, `\u0022`, "<", `\u003C`, ">", `\u003E`, "&", `\u0026`, "'", `\u0027`, "+", `\u002B`, "`", `\u0060`).Replace(ascii.String())
	return []string{plain, string(html), ascii.String(), strings.ReplaceAll(plain, "/", `\/`), gson, dotnet}
}

// Searching for all texts at once finds the same as searching for each in the decoded messages,
// whatever encoder wrote them.
func TestPatterns(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"Every parent may take twelve weeks of leave after six months of service", "the notice period", " and ", "---------------", "aaaaaaaaaaaaaaaaaaaaaaaa",
		"\n", "\"so\"", "/a/b", "don't", "a=b", "a+b", "`go test`", "<p>", "敏捷的棕色狐狸", "🙂", "x", " ", "\u200b", "Which is the longest run of plain text that is looked for, and then some more of it",
	})
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "") })
	counter := model.CostCounter{Cache: tokens.NewCache(8)} // cached results of one check must not affect another
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(text, 1, 8).Draw(t, "texts")
		patterns := newTexts(len(texts), func(i int) string { return texts[i] })
		encoder := rapid.IntRange(0, 5).Draw(t, "encoder")
		var messages, decoded []string
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			message := text.Draw(t, "before")
			if rapid.Bool().Draw(t, "holds one") {
				message += rapid.SampledFrom(texts).Draw(t, "text") + text.Draw(t, "after")
			}
			decoded = append(decoded, message)
			messages = append(messages, `{"role":"user","content":`+written(message)[encoder]+`}`)
		}
		req, err := chat.Completions.Parse([]byte(`{"messages":[` + strings.Join(messages, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		p := presentMessages{req, -1, counter.Of(req), nil}
		got := patterns.FindIn(&p)
		if again := patterns.FindIn(&p); !slices.Equal(again, got) {
			t.Fatalf("found %v, then %v", got, again)
		}
		for i, text := range texts {
			sought := strings.TrimSpace(text)
			want := strings.ContainsFunc(text, visible) && slices.ContainsFunc(decoded, func(m string) bool { return strings.Contains(m, sought) })
			if (got != nil && got[i]) != want {
				t.Fatalf("%q in %q: found %v, want %v", text, decoded, !want, want)
			}
		}
	})
}
