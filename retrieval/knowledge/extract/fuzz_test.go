package extract_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/rewrite/goldentest"
)

// fuzz checks what holds for every file: texts are text, keys are distinct, and limits are kept.
func fuzz(f *testing.F, format extract.Format, name string) {
	for _, a := range goldentest.Load(f, "testdata") {
		if in := a.Files[0]; extract.Of(in.Name) == format {
			f.Add(in.Data)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		documents, _ := extract.Read(format, name, raw)
		keys := map[string]bool{}
		for _, d := range documents {
			if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Name) || strings.ContainsAny(d.Text, "\r\x00") {
				t.Errorf("name %q, text %q", d.Name, d.Text)
			}
			if keys[d.Key] {
				t.Errorf("key %q comes twice", d.Key)
			}
			keys[d.Key] = true
		}
	})
}

func FuzzHTML(f *testing.F)       { fuzz(f, extract.HTML, "x.html") }
func FuzzJSON(f *testing.F)       { fuzz(f, extract.JSON, "x.json") }
func FuzzJSONLines(f *testing.F)  { fuzz(f, extract.JSONLines, "x.jsonl") }
func FuzzCSV(f *testing.F)        { fuzz(f, extract.CSV, "x.csv") }
func FuzzMarkdown(f *testing.F)   { fuzz(f, extract.MarkdownText, "x.mdx") }
func FuzzEML(f *testing.F)        { fuzz(f, extract.EML, "x.eml") }
func FuzzMBOX(f *testing.F)       { fuzz(f, extract.MBOX, "x.mbox") }
func FuzzNotebook(f *testing.F)   { fuzz(f, extract.Notebook, "x.ipynb") }
func FuzzYAML(f *testing.F)       { fuzz(f, extract.YAML, "x.yaml") }
func FuzzTOML(f *testing.F)       { fuzz(f, extract.TOML, "x.toml") }
func FuzzXML(f *testing.F)        { fuzz(f, extract.XML, "x.xml") }
func FuzzINI(f *testing.F)        { fuzz(f, extract.INI, "x.ini") }
func FuzzProperties(f *testing.F) { fuzz(f, extract.Properties, "x.properties") }
func FuzzRTF(f *testing.F)        { fuzz(f, extract.RTF, "x.rtf") }
func FuzzRST(f *testing.F)        { fuzz(f, extract.RST, "x.rst") }

// Parts are contiguous from the start to the end, and consist of lines.
func FuzzOutline(f *testing.F) {
	languages := []string{"go", "py", "java", "ts", "rs", "sql", "sh", "clj", ""}
	for i, lang := range languages {
		f.Add("// c\nfunc a() {\n\tx()\n}\n\nclass B {\n  int c() {\n  }\n}\n", byte(i))
		f.Add("package a\n\n// B is.\ntype B struct{}; var c = `\n`\n"+lang, byte(i))
	}
	f.Fuzz(func(t *testing.T, text string, n byte) {
		parts := extract.Outline(languages[int(n)%len(languages)], text, func(text string) bool { return len(text) < 20 })
		for i, p := range parts {
			switch {
			case i == 0 && p.Start != 0, i > 0 && p.Start <= parts[i-1].Start, p.Start > len(text):
				t.Fatalf("part %d of %q starts at %d: %+v", i, text, p.Start, parts)
			case p.Start > 0 && text[p.Start-1] != '\n':
				t.Fatalf("part %d of %q starts within a line: %+v", i, text, parts)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{french, russian, japan, "caf\xe9", "\xff\xfea\x00", "a\x00b\x00", "\x1b$B", "\x83J\x83\x81"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text, err := extract.Decode(raw); err == nil && (!utf8.ValidString(text) || strings.ContainsAny(text, "\r\x00")) {
			t.Errorf("%q became %q", raw, text)
		}
	})
}
