package office_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/office"
)

// para returns a paragraph with a style and more properties.
func para(style, properties, text string) string {
	return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/>` + properties + `</w:pPr><w:r><w:t xml:space="preserve">` + text + `</w:t></w:r></w:p>`
}

// number returns properties that put a paragraph into a list.
func number(list, level string) string {
	return `<w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="` + list + `"/></w:numPr>`
}

// pack makes a document of a body, with styles and lists.
func pack(title, body string) []byte {
	style := func(id, name, more string) string {
		return `<w:style w:styleId="` + id + `"><w:name w:val="` + name + `"/>` + more + `</w:style>`
	}
	level := func(n, format, text, more string) string {
		return `<w:lvl w:ilvl="` + n + `"><w:start w:val="1"/><w:numFmt w:val="` + format + `"/>` + more + `<w:lvlText w:val="` + text + `"/></w:lvl>`
	}
	kind := func(id, levels string) string {
		return `<w:abstractNum w:abstractNumId="` + id + `">` + levels + `</w:abstractNum>`
	}
	list := func(id, kind, more string) string {
		return `<w:num w:numId="` + id + `"><w:abstractNumId w:val="` + kind + `"/>` + more + `</w:num>`
	}
	return extracttest.Zip(map[string]io.Reader{
		"docProps/core.xml": strings.NewReader(`<cp:coreProperties xmlns:dc="d"><dc:title>` + title + `</dc:title></cp:coreProperties>`),
		"word/styles.xml": strings.NewReader(`<w:styles xmlns:w="w">` +
			style("T", "Title", "") + style("H1", "heading 1", number("4", "0")) + style("H2", "heading 2", `<w:numPr><w:numId w:val="4"/></w:numPr>`) +
			style("Sub", "Sub", `<w:basedOn w:val="H2"/>`) + style("Loop", "Loop", `<w:basedOn w:val="Loop"/>`) +
			style("Bullet", "List Bullet", number("1", "0")) + style("Item", "Item", `<w:basedOn w:val="Bullet"/>`) + `</w:styles>`),
		"word/numbering.xml": strings.NewReader(`<w:numbering xmlns:w="w">` +
			kind("1", level("0", "bullet", "•", "")+level("1", "bullet", "o", "")) +
			kind("2", level("0", "decimal", "%1.", "")+level("1", "lowerLetter", "%2)", "")+level("2", "upperRoman", "%1.%2.%3", "")) +
			kind("3", level("0", "none", "", "")) +
			kind("4", level("0", "decimal", "%1", `<w:pStyle w:val="H1"/>`)+level("1", "decimal", "%1.%2", `<w:pStyle w:val="H2"/>`)) +
			list("1", "1", "") + list("2", "2", "") + list("3", "3", "") + list("4", "4", "") +
			list("5", "2", `<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>`) + `</w:numbering>`),
		"word/document.xml": strings.NewReader(`<?xml version="1.0"?><w:document xmlns:w="w"><w:body>` + body + `</w:body></w:document>`),
	})
}

func text(t *testing.T, raw []byte) string {
	t.Helper()
	d, err := office.Read(t.Context(), extract.DOCX, raw)
	if err != nil || d.Form != extract.Markdown {
		t.Fatalf("form %d, %v", d.Form, err)
	}
	return d.Text
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Title is the name of the document, and Heading 1 the first level below it. Without a title, a
// single heading of level 1 is the title.
func TestTitles(t *testing.T) {
	none := number("0", "0")
	one, two, title, words := para("H1", none, "One"), para("H2", none, "Two"), para("T", "", "The title"), para("", "", "words")
	equal(t, text(t, pack("", title+one+words+two+words)), "# The title\n\n## One\n\nwords\n\n### Two\n\nwords\n")
	equal(t, text(t, pack("", one+words+two+words)), "# One\n\nwords\n\n## Two\n\nwords\n")
	equal(t, text(t, pack("One", one+words)), "# One\n\nwords\n")
	equal(t, text(t, pack("Another", one+words)), "## One\n\nwords\n")
	equal(t, text(t, pack("", one+words+one+words)), "## One\n\nwords\n\n## One\n\nwords\n")
}

// Items keep their bullets, numbers and letters, also those defined by a style, and numbering
// continues or restarts as in Word.
func TestLists(t *testing.T) {
	body := para("", number("1", "0"), "one") + para("", number("1", "1"), "below") + para("Bullet", "", "by style") + para("Item", "", "by its base") +
		para("Bullet", number("0", "0"), "taken out") +
		para("", number("2", "0"), "first") + para("", number("2", "1"), "letter") + para("", number("2", "1"), "next") + para("", number("2", "2"), "deep") +
		para("", number("2", "0"), "second") + para("", number("2", "1"), "anew") +
		para("", "", "between") + para("", number("2", "0"), "goes on") + para("", number("5", "0"), "starts at") + para("", number("5", "0"), "and on") +
		para("", number("3", "0"), "no mark") + para("", number("99", "0"), "unknown")
	equal(t, text(t, pack("", body)), "- one\n  - below\n- by style\n- by its base\n\ntaken out\n\n"+
		"1. first\n  a) letter\n  b) next\n    1.b.I deep\n2. second\n  a) anew\n\nbetween\n\n3. goes on\n7. starts at\n8. and on\n\nno mark\n\n- unknown\n")
}

// Headings have the numbers defined by their styles.
func TestNumberedHeadings(t *testing.T) {
	body := para("T", "", "Rules") + para("H1", "", "Scope") + para("H2", "", "People") + para("Sub", "", "Guests") + para("H1", "", "Terms") + para("H2", "", "Words") + para("", "", "x")
	equal(t, text(t, pack("", body)), "# Rules\n\n## 1 Scope\n\n### 1.1 People\n\n### 1.2 Guests\n\n## 2 Terms\n\n### 2.1 Words\n\nx\n")
}

func TestBody(t *testing.T) {
	body := `<w:p><w:r><w:t>Thirty </w:t></w:r><w:del><w:r><w:delText>forty </w:delText></w:r></w:del><w:r><w:t>days</w:t><w:tab/><w:t>a year.</w:t><w:br/><w:t># Not more.</w:t></w:r></w:p>` +
		para("Loop", `<w:pPrChange><w:pPr><w:pStyle w:val="H1"/>`+number("1", "0")+`</w:pPr></w:pPrChange>`, "Sixteen weeks.") +
		`<w:tbl><w:tr><w:tc>` + para("", "", "Child") + `</w:tc><w:tc>` + para("", "", "Weeks") + `</w:tc></w:tr>` +
		`<w:tr><w:tc>` + para("", "", "first") + para("", "", "born") + `</w:tc><w:tc><w:tbl><w:tr><w:tc>` + para("", "", "16") + `</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>` +
		`<w:p><w:r><w:t>A box: </w:t><w:txbxContent>` + para("", "", "in it") + `</w:txbxContent><mc:Fallback xmlns:mc="m">` + para("", "", "twice") + `</mc:Fallback></w:r></w:p>`
	d, err := office.Read(t.Context(), extract.DOCX, pack("The handbook", body))
	if err != nil || d.Name != "The handbook" {
		t.Fatalf("%q, %v", d.Name, err)
	}
	equal(t, d.Text, "Thirty days a year.\n\\# Not more.\n\nSixteen weeks.\n\n| Child | Weeks |\n| --- | --- |\n| first born | 16 |\n\nA box:\n\nin it\n")
}

// run returns a run with properties.
func run(properties, text string) string {
	return "<w:r><w:rPr>" + properties + `</w:rPr><w:t xml:space="preserve">` + text + "</w:t></w:r>"
}

// Footnotes stand where they are marked, hidden text is left out, and raised digits are not part of
// the number before them.
func TestShown(t *testing.T) {
	body := `<w:p>` + run("", "Either party may leave") + `<w:r><w:rPr><w:rStyle w:val="Mark"/></w:rPr><w:footnoteReference w:id="2"/></w:r>` + run("", ", as agreed.") +
		`<w:r><w:endnoteReference w:id="2"/></w:r></w:p>` +
		`<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>` + run("", "Shown. ") + run("<w:vanish/>", "Secret.") + run(`<w:vanish w:val="0"/>`, "Seen. ") +
		run(`<w:rStyle w:val="Gone"/>`, "Secret.") + run(`<w:rStyle w:val="Gone"/><w:vanish w:val="false"/>`, "Again. ") +
		run(`<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>`, "Was hidden.") + `</w:p>` +
		`<w:p><w:pPr><w:pStyle w:val="Gone"/></w:pPr>` + run("", "Secret.") + run(`<w:vanish w:val="off"/>`, "Shown, too.") + `</w:p>` +
		`<w:p>` + run("", "10") + run(`<w:vertAlign w:val="superscript"/>`, "3") + run("", " of CO") + run(`<w:vertAlign w:val="subscript"/>`, "2") + `</w:p>`
	raw := extracttest.Zip(map[string]io.Reader{
		"word/document.xml": strings.NewReader(`<w:document xmlns:w="w"><w:body>` + body + `</w:body></w:document>`),
		"word/styles.xml":   strings.NewReader(`<w:styles xmlns:w="w"><w:style w:styleId="Gone"><w:rPr><w:vanish/></w:rPr></w:style></w:styles>`),
		"word/footnotes.xml": strings.NewReader(`<w:footnotes xmlns:w="w"><w:footnote w:id="0"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>` +
			`<w:footnote w:id="2">` + para("", "", "Except for") + `<w:p>` + run("", "cause.") + run("<w:vanish/>", "Secret.") + `</w:p></w:footnote></w:footnotes>`),
		"word/endnotes.xml": strings.NewReader(`<w:endnotes xmlns:w="w"><w:endnote w:id="2">` + para("", "", "In 2020.") + `</w:endnote></w:endnotes>`),
	})
	equal(t, text(t, raw), "Either party may leave [footnote: Except for cause.], as agreed. [endnote: In 2020.]\n\n"+
		"Shown. Seen. Again. Was hidden.\n\nShown, too.\n\n10^3 of CO₂\n")
}

// A merged cell stands in each row and column that it covers, but a title of a table only once.
func TestMergedCells(t *testing.T) {
	cell := func(properties, text string) string {
		return "<w:tc><w:tcPr>" + properties + "</w:tcPr><w:p>" + run("", text) + "</w:p></w:tc>"
	}
	row := func(properties, cells string) string {
		return "<w:tr><w:trPr>" + properties + "</w:trPr>" + cells + "</w:tr>"
	}
	body := "<w:tbl>" + row("", cell(`<w:gridSpan w:val="3"/>`, "Rates")) + row("", cell("", "Region")+cell("", "Rate")+cell("", "Term")) +
		row("", cell(`<w:vMerge w:val="restart"/>`, "North")+cell("", "4 %")+cell("", "12")) + row("", cell("<w:vMerge/>", "")+cell("", "5 %")+cell("", "24")) +
		row("<w:hidden/>", cell("", "Secret")+cell("", "1")+cell("", "2")) +
		row("", cell(`<w:vMerge w:val="continue"/>`, "")+cell(`<w:gridSpan w:val="2"/>`, "none")) + row(`<w:gridBefore w:val="1"/>`, cell("", "6 %")+cell("", "36")) + "</w:tbl>"
	equal(t, text(t, extracttest.DOCX(body)), "| Rates |  |  |\n| --- | --- | --- |\n| Region | Rate | Term |\n| North | 4 % | 12 |\n| North | 5 % | 24 |\n"+
		"| North | none | none |\n|  | 6 % | 36 |\n")
}

func TestOffice(t *testing.T) {
	raw, err := os.ReadFile("testdata/office.docx")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, text(t, raw), "# Canteen handbook\n\nThe canteen opens at eleven and closes at three. Guests pay in cash.\n\n"+
		"## Allergens\n\nDishes with peanuts are marked with a red triangle on the board.\n\n- gluten: a yellow circle\n- milk: a blue square\n\n"+
		"## Prices\n\n| Dish | Euro |\n| --- | --- |\n| Soup | 3.20 |\n| Dumplings | 6.80 |\n\nPrices change on the first of March only.\n\n"+
		"Nobody may take dishes home, except on the last day before a holiday, when whatever is left may be taken.\n")
}

// repeated returns a document whose body repeats a part up to a size.
func repeated(start, part string, size int) []byte {
	return extracttest.Zip(map[string]io.Reader{"word/document.xml": io.MultiReader(strings.NewReader(`<w:document xmlns:w="w"><w:body>`+start), strings.NewReader(strings.Repeat(part, size/len(part))))})
}

// A damaged or malicious file only fails itself, with a reason and within a memory limit.
//
// Row K8 of deploy/CONTRIBUTING.md.
func TestHostile(t *testing.T) {
	const room = 400 << 20 // allocated in total; less is held at a time
	type hostile struct {
		name, want string
		raw        []byte
	}
	all := []hostile{
		{"no docx", "it is no DOCX", []byte("PK")},
		{"nothing", "it is no DOCX", nil},
		{"another zip", "it is no DOCX", extracttest.Zip(nil)},
		{"broken", "it is no DOCX", extracttest.DOCX("<w:p>")},
		{"cut", "it is no DOCX", extracttest.DOCX(para("", "", "text"))[:500]},
		{"an entity", "it is no DOCX", extracttest.DOCX("<w:p><w:r><w:t>&bomb;</w:t></w:r></w:p>")},
		{"a claim", "it unpacks to more than 128 MB", extracttest.ZipClaim(1 << 40)},
		{"a lie", "it is no DOCX", extracttest.ZipClaim(1)},
		{"deep", "nested too deeply", extracttest.DeepDOCX(1 << 15)},
		{"empty", "there is no text", extracttest.DOCX("")},
	}
	if !testing.Short() {
		all = append(all, []hostile{
			{"zip bomb", "it unpacks to more than 128 MB", extracttest.ZipBomb(129 << 20)},
			{"a piece", "a piece of text of more than 4 MB", extracttest.ZipBomb(1 << 26)},
			{"long paragraphs", "times its size", repeated("", para("", "", strings.Repeat("x", 1000)), 1<<26)},
			{"paragraphs", "more than 250000 paragraphs", repeated("", para("", "", "x"), 1<<26)},
			{"an attribute", "a piece of text of more than 4 MB", repeated(`<w:p w:val="`, "x", 1<<26)},
		}...)
	}
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := office.Read(t.Context(), extract.DOCX, tc.raw)
			runtime.ReadMemStats(&after)
			broken := (*extract.Broken)(nil)
			if !errors.As(err, &broken) || !strings.Contains(broken.Reason, tc.want) || d.Text != "" {
				t.Errorf("%.60q, %v, want %q", d.Text, err, tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > room {
				t.Errorf("it allocates %d MB", used>>20)
			}
		})
	}
}

// Content that hardly compresses is subject to the size limits, too.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("packs and unpacks 80 MB")
	}
	noise := func(start, part string, size int) []byte { // text that compresses to more than a hundredth
		var b bytes.Buffer
		b.WriteString(start)
		for seed := uint32(1); b.Len() < size; {
			for _, c := range part {
				if c == '?' {
					seed = seed*1664525 + 1013904223
					c = rune('a' + seed>>24%26)
				}
				b.WriteRune(c)
			}
		}
		return extracttest.Zip(map[string]io.Reader{"word/document.xml": io.MultiReader(strings.NewReader(`<w:document xmlns:w="w"><w:body>`), &b)})
	}
	for want, raw := range map[string][]byte{
		"a piece of text of more than 4 MB": noise("<w:p><w:r><w:t>", "???? ", 6<<20),
		"more than 250000 paragraphs":       noise("", "<w:p><w:r><w:t>??</w:t></w:r></w:p>", 12<<20),
		"1000000 cells":                     noise("<w:tbl><w:tr>", "<w:tc w:x=\"??\"/>", 18<<20),
		"more than 32 MB of text":           noise("", "<w:p><w:r><w:t>"+strings.Repeat("?", 1000)+"</w:t></w:r></w:p>", 40<<20),
		"more than 32 MB":                   noise("<w:tbl><w:tr>", `<w:tc><w:tcPr><w:gridSpan w:val="64"/></w:tcPr><w:p><w:r><w:t>`+strings.Repeat("?", 1000)+"</w:t></w:r></w:p></w:tc>", 1<<20),
	} {
		_, err := office.Read(t.Context(), extract.DOCX, raw)
		if broken := (*extract.Broken)(nil); !errors.As(err, &broken) || !strings.Contains(broken.Reason, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Cancellation is reported as such.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := office.Read(ctx, extract.DOCX, extracttest.DOCX(para("", "", "text"))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(para("H1", number("2", "1"), "x")), []byte("<w:lvl>"))
	f.Fuzz(func(t *testing.T, body, numbers []byte) {
		raw := extracttest.Zip(map[string]io.Reader{"word/document.xml": bytes.NewReader(body), "word/numbering.xml": bytes.NewReader(numbers), "word/styles.xml": bytes.NewReader(numbers)})
		d, err := office.Read(t.Context(), extract.DOCX, raw)
		broken := (*extract.Broken)(nil)
		if err != nil && !errors.As(err, &broken) || strings.ToValidUTF8(d.Text, "") != d.Text {
			t.Errorf("%q, %v", d.Text, err)
		}
	})
}
