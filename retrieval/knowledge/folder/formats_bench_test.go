package folder_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkFormats measures reading, cutting and indexing 50 files of a format.
func BenchmarkFormats(b *testing.B) {
	sentences := func(n int) string {
		var text strings.Builder
		for i := range 12 {
			fmt.Fprintf(&text, "Sentence t%d has terms u%d and v%d in it. ", n*i, n+i, i)
		}
		return text.String()
	}
	for name, part := range map[string]func(n int) string{
		"md":    func(n int) string { return fmt.Sprintf("## Part %d\n\n%s\n\n", n, sentences(n)) },
		"html":  func(n int) string { return fmt.Sprintf("<h2>Part %d</h2>\n<p>%s</p>\n", n, sentences(n)) },
		"jsonl": func(n int) string { return fmt.Sprintf(`{"id":%d,"text":"%s"}`+"\n", n, sentences(n)) },
		"csv":   func(n int) string { return fmt.Sprintf("Part %d,\"%s\"\n", n, sentences(n)) },
		"go":    func(n int) string { return fmt.Sprintf("\nfunc f%d() {\n\tprintln(`%s`)\n}\n", n, sentences(n)) },
		"py":    func(n int) string { return fmt.Sprintf("def f%d():\n    print(\"%s\")\n\n", n, sentences(n)) },
	} {
		fsys, bytes := fstest.MapFS{}, 0
		for i := range 50 {
			text := map[string]string{"csv": "Part,Text\n", "go": "package a\n"}[name]
			for n := range 100 {
				text += part(i*100 + n)
			}
			fsys[fmt.Sprintf("%d.%s", i, name)] = &fstest.MapFile{Data: []byte(text)}
			bytes += len(text)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			chunks := 0
			for b.Loop() {
				c, report, err := knowledge.FromFS(b.Context(), fsys, folder.Folder{ID: "x"}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
				if err != nil || len(report.Skipped) > 0 {
					b.Fatal(err, report.Skipped)
				}
				chunks = c.Chunks()
			}
			b.ReportMetric(float64(chunks*b.N)/b.Elapsed().Seconds(), "chunks/s")
		})
	}
}
