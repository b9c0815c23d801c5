package chunk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/rewrite/goldentest"
)

// bytesCounter counts one token per byte, so that a chunk has at most 400 bytes.
type bytesCounter struct{}

func (bytesCounter) Count(text string) (n int, exact bool) { return len(text), true }

// limit is the most tokens of a chunk.
const limit = 400

// cut returns the chunks of one document.
func cut(t testing.TB, id, text string) []retrieval.Source {
	t.Helper()
	fsys := fstest.MapFS{id: {Data: []byte(text)}}
	c, _, err := knowledge.FromFS(t.Context(), fsys, folder.Folder{ID: "x"}, knowledge.Deps{Counter: bytesCounter{}})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(c.All())
}

// Each file contains a document and its chunks; its comment explains its purpose.
func TestChunks(t *testing.T) {
	goldentest.Each(t, "testdata", func(t *testing.T, a *goldentest.Archive) {
		a.Files = a.Files[:1]
		for _, c := range cut(t, a.Files[0].Name, string(a.Files[0].Data)) {
			name := strings.TrimSpace(fmt.Sprintf("%d %s | %s", c.Chunk, c.Name, c.Section))
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(c.Text + "\n")})
		}
	})
}

// Whatever a document consists of, nothing is lost, only heads of tables and fences of code are
// repeated, and no chunk is too long.
func TestChunksHoldEverythingOnce(t *testing.T) {
	fragment := rapid.OneOf(
		rapid.SampledFrom([]string{
			"# Title\n", "## Section\n", "### Sub\n", "\n", "\n\n", "    indented\n", "> quote\n", "- item\n", "  - nested\n",
			"1. one\n", "***\n", "Setext\n======\n", "```go\n", "~~~\n", "| a | b |\n|---|---|\n", "| 1 | 2 |\n", "<div>\n", "</div>\n",
			"[ref]: http://example.com\n", "A sentence. Another one! 第一句。第二句！\n", "\t\n", "- \n", "/* c */\n", "[^1]: note\n",
		}),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab .。!\n|`#>-é漢")), 0, 200, -1),
		rapid.Map(rapid.IntRange(1, 900), func(n int) string { return strings.Repeat("x", n) }),
		rapid.Map(rapid.IntRange(1, 60), func(n int) string { return strings.Repeat("Some words in a line of text\n", n) }),
	)
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Join(rapid.SliceOfN(fragment, 0, 30).Draw(r, "fragments"), "")
		id := rapid.SampledFrom([]string{"a.md", "a.txt"}).Draw(r, "id")
		checkChunks(r, text, cut(t, id, text))
	})
}

func FuzzChunks(f *testing.F) {
	f.Add("# T\n\ntext\n\n```\ncode\n```\n")
	f.Add("| a |\n|---|\n| b |\n")
	f.Add("---\ntitle: x\n---\nbody")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "---") {
			text = "x" + text // front matter is not body
		}
		text = strings.ToValidUTF8(text, "")
		checkChunks(t, text, cut(t, "a.md", text))
	})
}

func checkChunks(t interface{ Fatalf(string, ...any) }, text string, chunks []retrieval.Source) {
	var all strings.Builder
	for i, c := range chunks {
		if len(c.Text) > limit {
			t.Fatalf("chunk %d is %d bytes long: %q", i, len(c.Text), c.Text)
		}
		first, _, _ := strings.Cut(c.Text, "\n")
		if strings.TrimSpace(first) == "" || strings.TrimRightFunc(c.Text, unicode.IsSpace) != c.Text {
			t.Fatalf("chunk %d has blanks around it: %q", i, c.Text)
		}
		all.WriteString(c.Text)
	}
	want, got := solid(text), solid(all.String())
	if !strings.ContainsAny(text, "`~|") && want != got {
		t.Fatalf("chunks say\n%q\nof\n%q", got, want)
	}
	rest := want
	for _, r := range got {
		if after, ok := strings.CutPrefix(rest, string(r)); ok {
			rest = after
		}
	}
	if rest != "" {
		t.Fatalf("lost from %q on, of\n%q\nin\n%q", rest, want, got)
	}
}

// solid removes white space from a text.
func solid(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// Cutting a document takes time linear in its length, whatever it contains.
func TestChunkingIsLinear(t *testing.T) {
	size := 1 << 18
	if testing.Short() {
		size >>= 3
	}
	for name, part := range map[string]string{
		"one word": "a", "blanks": " ", "line breaks": "\n", "quotes": "> ", "quote lines": "> a\n", "deep quotes": ">>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>\n",
		"lists": "- ", "list lines": "- a\n", "headings": "# a\n", "heading": "#", "brackets": "[", "fences": "```\n",
		"table": "|a", "table lines": "|a|\n|-|\n", "pipes": "|\n", "tags": "<a\n", "html": "<div>\n", "comment": "<!--", "sentences": "a. ",
		"stars": "* a\n * b\n", "setext": "a\n=\n", "references": "[a]: b\n", "tabs": "\t", "numbers": "1. ", "backticks": "`", "dashes": "-", "ends": "。",
		"stairs": stairs(1500),
	} {
		knowledgetest.Linear(t, name, size, 8, func(n int) { cut(t, "a.md", strings.Repeat(part, max(1, n/len(part)))) })
	}
}

// stairs returns nested lists.
func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	return b.String()
}
