package office_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/office"
	"sidenote/rewrite/goldentest"
)

// Files of several programs are read as people see them, see testdata/README.md.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.??[a-z]*")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		format := extract.Of(file)
		if !format.Packed() {
			continue
		}
		read++
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d, err := office.Read(t.Context(), format, raw)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToLower(d.Text), "hidden") {
				t.Error("it has hidden text")
			}
			goldentest.Text(t, file+".golden", fmt.Sprintf("name: %s\n\n%s", d.Name, d.Text))
		})
	}
	if read < 10 {
		t.Errorf("%d files", read)
	}
}

// parts are the files of an archive.
type parts map[string]string

func (p parts) zip() []byte {
	files := map[string]io.Reader{}
	for name, text := range p {
		files[name] = strings.NewReader(text)
	}
	return extracttest.Zip(files)
}

const mainRelation = `<Relationships><Relationship Id="r1" Type="http://x/officeDocument" Target="%s"/></Relationships>`

// workbook returns a workbook of sheets, with number formats and texts.
func workbook(formats []string, texts string, sheets ...string) parts {
	p := parts{
		"_rels/.rels":          fmt.Sprintf(mainRelation, "xl/workbook.xml"),
		"xl/sharedStrings.xml": "<sst>" + texts + "</sst>",
	}
	var list, relations, codes, styles strings.Builder
	for i, sheet := range sheets {
		fmt.Fprintf(&list, `<sheet name="S%d" sheetId="%[1]d" r:id="s%[1]d"/>`, i+1)
		fmt.Fprintf(&relations, `<Relationship Id="s%d" Type="x/worksheet" Target="/xl/sheet%[1]d.xml"/>`, i+1)
		p[fmt.Sprintf("xl/sheet%d.xml", i+1)] = `<worksheet>` + sheet + `</worksheet>`
	}
	for i, code := range formats {
		fmt.Fprintf(&codes, `<numFmt numFmtId="%d" formatCode="%s"/>`, 164+i, strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;").Replace(code))
		fmt.Fprintf(&styles, `<xf numFmtId="%d"/>`, 164+i)
	}
	p["xl/workbook.xml"] = `<workbook xmlns:r="r"><sheets>` + list.String() + `</sheets></workbook>`
	p["xl/_rels/workbook.xml.rels"] = `<Relationships><Relationship Id="a" Type="x/sharedStrings" Target="sharedStrings.xml"/>` +
		`<Relationship Id="b" Type="x/styles" Target="styles.xml"/>` + relations.String() + `</Relationships>`
	p["xl/styles.xml"] = `<styleSheet><numFmts>` + codes.String() + `</numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs><xf numFmtId="0"/>` + styles.String() + `</cellXfs></styleSheet>`
	return p
}

// Numbers and dates are read as they are shown.
func TestNumberFormats(t *testing.T) {
	for _, tc := range []struct{ format, value, want string }{
		{"General", "0.30000000000000004", "0.3"},
		{"General", "4006381333931", "4006381333931"},
		{"General", "1E+25", "1E+25"},
		{"0.00", "1.005", "1.01"},
		{"0.00", "-2", "-2.00"},
		{"0", "-0.2", "0"},
		{"#,##0.00", "1234567.891", "1,234,567.89"},
		{"#,##0", "999", "999"},
		{"#.##", "12", "12"},
		{"0.0#", "1.5", "1.5"},
		{"#,##0,", "1234567", "1,235"},
		{"0.0%", "0.125", "12.5%"},
		{`#,##0.00 "€"`, "9.5", "9.50 €"},
		{"[$€-407] #,##0.00", "9.5", "€ 9.50"},
		{"0.00E+00", "12345", "1.23E+4"},
		{"000-0000", "5550123", "555-0123"},
		{"00000", "123", "00123"},
		{"# ?/?", "0.5", "0.5"},
		{"0.00;[Red](0.00)", "-3.5", "(3.50)"},
		{`0;-0;"none"`, "0", "none"},
		{`0_é*é\é"é`, "5", "5 éé"},
		{";;;", "5", ""},
		{"@", "5", "5"},
		{"yyyy-mm-dd", "45352", "2024-03-01"},
		{"DD.MM.YYYY", "45352", "01.03.2024"},
		{"d mmm yy h:mm AM/PM", "45352.6041666667", "1 Mar 24 2:30 PM"},
		{"dddd, mmmm d", "45352", "Friday, March 1"},
		{"hh:mm:ss", "0.5", "12:00:00"},
		{"mm:ss.0", "0.000694444444444444", "01:00"},
		{"[h]:mm", "1.26041666666667", "30:15"},
		{"yyyy-mm-dd", "1", "1900-01-01"},
		{"yyyy-mm-dd", "1e10", "10000000000"},
		{"yyyy-mm-dd", "x", "x"},
	} {
		sheet := `<sheetData><row><c><v>1</v></c><c s="1"><v>` + tc.value + `</v></c></row></sheetData>`
		d, err := office.Read(t.Context(), extract.XLSX, workbook([]string{tc.format}, "", sheet).zip())
		if err != nil {
			t.Fatal(err)
		}
		want := "## S1\n\n1\n"
		if tc.want != "" {
			want = "## S1\n\n1 | " + tc.want + "\n"
		}
		if d.Text != want {
			t.Errorf("%s of %s: got %q, want %q", tc.format, tc.value, d.Text, want)
		}
	}
}

// Cells may lack their place, and texts may have characters in escapes.
func TestSheets(t *testing.T) {
	sheet := `<sheetData><row r="2"><c r="B2" t="s"><v>0</v></c><c t="s"><v>1</v></c><c t="s"><v>9</v></c></row>` +
		`<row><c t="inlineStr"><is><t>a</t></is></c><c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c><c t="d"><v>2024-03-01</v></c><c><f>A1</f></c></row></sheetData>`
	d, err := office.Read(t.Context(), extract.XLSX, workbook(nil, "<si><t>x_x000D_\ny_x0041_z_x</t></si><si><r><t>two</t></r><r><t> runs</t></r><rPh><t>spoken</t></rPh></si>", sheet).zip())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, d.Text, "## S1\n\nx\nyAz_x: two runs\n\na, TRUE, #N/A, 2024-03-01\n")
}

// A damaged or malicious file only fails itself, with a reason and within a memory limit; what could
// be read of its sheets or slides is read.
func TestHostileFiles(t *testing.T) {
	const room = 2 << 30 // allocated in total; far less is held at a time
	rows := func(n int, cells string) string { return strings.Repeat("<row>"+cells+"</row>", n) }
	sheet := func(text string) []byte {
		return workbook(nil, "<si><t>"+strings.Repeat("x", 1<<16)+"</t></si>", text).zip()
	}
	content := func(kind, text string) []byte {
		return parts{"content.xml": `<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x"><office:body><office:` + kind + `>` + text}.zip()
	}
	slide := func(text string) []byte {
		return parts{
			"_rels/.rels":           fmt.Sprintf(mainRelation, "p.xml"),
			"p.xml":                 `<p xmlns:r="r"><sldId id="1" r:id="a"/><sldId id="1" r:id="a"/></p>`,
			"_rels/p.xml.rels":      `<Relationships><Relationship Id="a" Type="x/slide" Target="s.xml"/></Relationships>`,
			"_rels/s.xml.rels":      `<Relationships><Relationship Id="a" Type="x/notesSlide" Target="s.xml"/></Relationships>`,
			"[Content_Types].xml":   "",
			"s.xml":                 "<sld>" + text,
			"docProps/app.xml":      "",
			"ppt/presentation.xml":  "",
			"ppt/unrelated/any.xml": "",
		}.zip()
	}
	const textCell, empty = `<c t="s"><v>0</v></c>`, `<c s="1"/>`
	type hostile struct {
		name, want string
		format     extract.Format
		raw        []byte
		part       bool // some of it is read
	}
	all := []hostile{
		{"no xlsx", "it is no XLSX", extract.XLSX, []byte("PK"), false},
		{"another zip", "it is no ODS", extract.ODS, extracttest.Zip(nil), false},
		{"no main part", "it is no PPTX", extract.PPTX, extracttest.Zip(nil), false},
		{"locked", "password", extract.XLSX, append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 600)...), false},
		{"locked odf", "password", extract.ODT, parts{"content.xml": "\x01\x02", "META-INF/manifest.xml": "<m><encryption-data/></m>"}.zip(), false},
		{"an entity", "it is no ODT", extract.ODT, parts{"content.xml": `<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/passwd">]><a><body><p>&b;</p></body></a>`}.zip(), false},
		{"lol", "it is no XLSX", extract.XLSX, sheet(`<!DOCTYPE a [<!ENTITY b "bb">]><sheetData><row><c><v>&b;</v></c></row>`), false},
		{"cut", "it is no XLSX", extract.XLSX, sheet("<sheetData>" + rows(3, textCell)), true},
		{"deep", "nested too deeply", extract.ODT, content("text", strings.Repeat("<text:p>", 1<<15)), false},
		{"deep slide", "nested too deeply", extract.PPTX, slide("<p><r><t>text</t></r></p>" + strings.Repeat("<p>", 1<<15)), true},
		{"one text often", "more than 32 MB", extract.XLSX, sheet("<sheetData>" + rows(2000, textCell)), true},
		{"one merge", "more than 32 MB", extract.XLSX, sheet("<sheetData>" + rows(1, textCell+`<c><v>1</v></c>`) + rows(1000, "<c><v>1</v></c><c><v>1</v></c>") +
			`</sheetData><mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>`), true},
		{"many merges", "", extract.XLSX, sheet("<sheetData>" + rows(1000, "<c><v>1</v></c><c><v>1</v></c>") +
			"</sheetData>" + strings.Repeat(`<mergeCell ref="A1:B1000"/>`, 2000)), false},
		{"wide rows", "more than 2000000 cells", extract.XLSX, sheet("<sheetData>" + rows(200, `<c r="XFD1"><v>1</v></c>`)), true},
		{"repeated rows", "more than 2000000 cells", extract.ODS, content("spreadsheet", `<table:table table:name="T"><table:table-row table:number-rows-repeated="1048576">`+
			`<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p></table:table-cell></table:table-row></table:table>`), true},
		{"repeated text", "more than 32 MB", extract.ODS, content("spreadsheet", `<table:table table:name="T"><table:table-row table:number-rows-repeated="1048576">`+
			`<table:table-cell><text:p>`+strings.Repeat("x", 1<<16)+`</text:p></table:table-cell></table:table-row></table:table>`), true},
		{"repeated columns", "more than 32 MB", extract.ODT, content("text", `<table:table>`+strings.Repeat(`<table:table-row><table:table-cell table:number-columns-repeated="99999"><text:p>`+
			strings.Repeat("x", 1<<12)+`</text:p></table:table-cell></table:table-row>`, 200)), false},
	}
	if !testing.Short() {
		all = append(all, []hostile{
			{"a million rows of ten thousand cells", "more than 5000000 tags", extract.XLSX, sheet("<sheetData>" + rows(1, textCell) + rows(1000, strings.Repeat(empty, 10_000))), true},
			{"empty rows", "", extract.XLSX, sheet("<sheetData>" + rows(1, textCell) + rows(1_000_000, "") + "</sheetData>"), false},
			{"a piece", "more than 4 MB", extract.XLSX, sheet("<sheetData><row><c><v>" + strings.Repeat("1", 8<<20)), false},
			{"strings", "more than 32 MB", extract.XLSX, workbook(nil, strings.Repeat("<si/>", 3<<20)).zip(), false},
			{"bomb", "128 MB", extract.ODT, content("text", strings.Repeat("<text:p x='"+strings.Repeat("y", 1100)+"'/>", 129<<10)), false},
			{"slide bomb", "128 MB", extract.PPTX, slide("<p><r><t>text</t></r></p>" + strings.Repeat("<p x='"+strings.Repeat("y", 1100)+"'/>", 129<<10)), true},
		}...)
	}
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := office.Read(t.Context(), tc.format, tc.raw)
			runtime.ReadMemStats(&after)
			got := ""
			if broken, ok := errors.AsType[*extract.Broken](err); ok {
				got = broken.Reason
			} else if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") || (d.Text != "") != (tc.part || got == "") {
				t.Errorf("%d bytes, %q, want %q", len(d.Text), got, tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > room {
				t.Errorf("it allocates %d MB", used>>20)
			}
		})
	}
}

// checkDocument checks what holds for every file.
func checkDocument(t *testing.T, f extract.Format, raw []byte) {
	t.Helper()
	d, err := office.Read(t.Context(), f, raw)
	if _, ok := errors.AsType[*extract.Broken](err); err != nil && !ok || !utf8.ValidString(d.Text) || strings.ContainsAny(d.Text, "\r\x00") || len(d.Text) > 2*extract.MaxText {
		t.Errorf("%q, %v", d.Text, err)
	}
}

func FuzzXLSX(f *testing.F) {
	f.Add([]byte(`<sheetData><row r="2" hidden="0"><c r="B2" s="0"><v>45352.5</v></c></row></sheetData><mergeCell ref="A1:C3"/>`), "d mmm yyyy;[h]:mm", "<si><r><t>x</t></r></si>")
	f.Add([]byte(`<cols><col min="1" max="3" hidden="1"/></cols><sheetData><row><c t="inlineStr"><is><t>_x000D_&#13;</t></is></c></row>`), `#,##0.00 "x"`, "")
	f.Fuzz(func(t *testing.T, sheet []byte, format, texts string) {
		p := workbook([]string{format}, texts, string(sheet))
		p["xl/styles.xml"] = strings.ToValidUTF8(p["xl/styles.xml"], "")
		checkDocument(t, extract.XLSX, p.zip())
	})
}

func FuzzPPTX(f *testing.F) {
	f.Add([]byte(`<sld><sp><ph type="title"/><p><r><rPr baseline="3"/><t>x&#13;</t></r></p></sp><tbl><tr><tc hMerge="1"><p/></tc></tr></tbl></sld>`))
	f.Fuzz(func(t *testing.T, slide []byte) {
		checkDocument(t, extract.PPTX, parts{
			"_rels/.rels": fmt.Sprintf(mainRelation, "p.xml"), "p.xml": `<p xmlns:r="r"><sldId r:id="a"/></p>`, "s.xml": string(slide),
			"_rels/p.xml.rels": `<Relationships><Relationship Id="a" Type="x/slide" Target="s.xml"/></Relationships>`,
			"_rels/s.xml.rels": `<Relationships><Relationship Id="a" Type="x/notesSlide" Target="s.xml"/></Relationships>`,
		}.zip())
	})
}

func FuzzODF(f *testing.F) {
	f.Add([]byte(`<b><body><text><h outline-level="1">x</h><list><list-item><p>a<note note-class="endnote"><note-body><p>n</p></note-body></note></p></list-item></list></text></body></b>`))
	f.Add([]byte(`<b><body><spreadsheet><table name="t"><table-column visibility="collapse"/><table-row number-rows-repeated="3"><table-cell number-columns-spanned="2"><p>x</p></table-cell>`))
	f.Add([]byte(`<b><body><presentation><page><frame class="title"><p>x</p></frame><notes><p>y</p></notes></page></presentation></body></b>`))
	f.Fuzz(func(t *testing.T, content []byte) {
		raw := extracttest.Zip(map[string]io.Reader{"content.xml": bytes.NewReader(content)})
		for _, format := range []extract.Format{extract.ODT, extract.ODS, extract.ODP} {
			checkDocument(t, format, raw)
		}
	})
}
