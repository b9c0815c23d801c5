package extract_test

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// A hostile is a malicious file of any size; its cost must grow with the size.
type hostile struct {
	name   string
	broken string // the reason; "" if it is read
	text   func(size int) string
}

// of repeats part between before and after.
func of(before, part, after string) func(int) string {
	return func(size int) string { return before + strings.Repeat(part, size/len(part)) + after }
}

// numbered repeats a part with a number in it.
func numbered(before, format string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		b.WriteString(before)
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
}

func hostiles() []hostile {
	return []hostile{
		{"divs.html", "nested", of("", "<div>", "")},
		{"closed.html", "nested", func(n int) string { return of("", "<div>", "text")(n/2) + of("", "</div>", "")(n/2) }},
		{"fonts.html", "its HTML", numbered("", "<p><font a=%d>")},
		{"tables.html", "nested", of("", "<table><tr><td>", "")},
		{"lists.html", "", of(strings.Repeat("<ul><li>", 200), "a<br>", "")},
		{"quotes.html", "", of(strings.Repeat("<blockquote>", 400), "<p>a", "")},
		{"headings.html", "", of("", "<div><h2>a</h2><p>b</div>", "")},
		{"links.html", "", of("<main>", "<div><a href=x>a</a><a>b</a><a>c</a></div>", "")},
		{"line.html", "", of("", "x", "")},
		{"attributes.html", "", of("<p ", "a=b ", "")},
		{"names.html", "", numbered("<p ", "a%d=b ")},
		{"comment.html", "", of("", "<!--", "")},
		{"entities.html", "", of("<p>", "&amp;", "")},
		{"spans.html", "", of("<table>", "<tr><td colspan=1000000>a<td>b", "")},
		{"pre.html", "", of("<pre>", "`", "")},
		{"deep.json", "not JSON", of("", "[", "")},
		{"closed.json", "nested", func(int) string { return strings.Repeat("[", 5000) + strings.Repeat("]", 5000) }},
		{"levels.json", "", of(strings.Repeat("[", 90), "1,", "1"+strings.Repeat("]", 90))},
		{"key.json", "", of(`{"`+strings.Repeat("k", 1000)+`":[`, `{"a":1},`, `1]}`)},
		{"keys.json", "", func(n int) string { return numbered("{", `"k%d":1,`)(n) + `"z":1}` }},
		{"escapes.json", "", of(`{"text":"`, `\u0041`, `"}`)},
		{"many.jsonl", "", of("", "12345\n", "")},
		{"same.jsonl", "", of("", `{"id":"a","text":"b","c":1}`+"\n", "")},
		{"numbers.json", "", of("[", "1,", "1]")},
		{"objects.json", "", of("[", "{},", "{}]")},
		{"line.jsonl", "not JSON", of("", "x", "")},
		{"quote.csv", "", of("a,b\n\"", "x\n", "")},
		{"quotes.csv", "", of("a,b\n", `"`, "")},
		{"header.csv", "", of("", "a,", "")},
		{"columns.csv", "", numbered("", "c%d,")},
		{"wide.csv", "", of(strings.Repeat("head,", 1000)+"\n", "1,1,1,1\n", "")},
		{"lines.py", "", of("", "a\n", "")},
		{"defs.py", "", of("", "def f(): pass\n", "")},
		{"nested.py", "", of("class A:\n", " def f():\n  def g():\n   x\n", "")},
		{"comments.py", "", of("", "# a\n", "")},
		{"words.java", "", of("", "a ", "")},
		{"calls.c", "", of("", "int a (\n", "")},
		{"selects.sql", "", of("", "create table a\n\n", "")},
		{"deep.go", "", of("package a\nvar x = ", "(", "")},
		{"line.go", "", of("package a;", "var a int;", "")},
		{"vars.go", "", of("package a\n", "var a int\n", "")},
		{"line.js", "", of("", "x", "")},
		{"quotes.js", "", of("", "'`", "")},
		{"items.rst", "", of("", "- ", "")},
		{"directives.rst", "", of("", ".. a::\n   ", "")},
		{"quotes.rst", "", of("", "x\n  y\n", "")},
		{"rules.rst", "", of("", "== ==\na\n", "")},
		{"titles.rst", "", of("", "a\n=\n--\n", "")},
		{"doctests.rst", "", of("", ">>> 1\n\n", "")},
		{"listings.rst", "", of("", "::\n\n  a\n", "")},
		{"roles.rst", "", of("", ":a:`b``c", "")},
		{"stairs.rst", "", func(n int) string {
			var b strings.Builder
			for i := 0; b.Len() < n; i = (i + 1) % 200 {
				b.WriteString(strings.Repeat(" ", i) + "- a\n")
			}
			return b.String()
		}},
		{"tabs.rst", "", of("", "\t", "a")},
		{"matter.md", "", of("---\n", "a: [{", "\n---\n")},
		{"anchors.md", "", numbered("---\na0: &a0 x\n", "a%[1]d: &a%[1]d [*a0, *a0]\n")},
		{"deep.md", "not TOML", func(n int) string {
			return "+++\na = " + strings.Repeat("[", 30_000) + "\n+++\n" + strings.Repeat("x", n)
		}},
		{"tables.md", "", func(n int) string {
			return "+++\n" + numbered("", "[a.b%d]\n")(30_000) + "+++\n" + strings.Repeat("x", n)
		}},
		{"comments.md", "", of("x", "<!--", "")},
		{"closed.md", "", of("x", "<!-- -->", "")},
		{"percents.md", "", of("", "\n%% ", "")},
		{"braces.mdx", "", of("", "{/*", "")},
		{"data.md", "", of("", "![a](data:", "")},
		{"ticks.md", "", func(n int) string {
			var b strings.Builder
			for i := 1; b.Len() < n; i = i%200 + 1 {
				b.WriteString(strings.Repeat("`", i) + "<")
			}
			return b.String()
		}},
		{"fields.eml", "", numbered("Subject: a\n", "X-%d: a\n")},
		{"folded.eml", "", of("Subject: a\n", " b\n", "\n\nc")},
		{"words.eml", "", of("Subject: ", "=?utf-8?Q?a?= ", "\n\nc")},
		{"addresses.eml", "", of("To: ", "a@b, (", "\n\nc")},
		{"type.eml", "", of("To: a@b\nContent-Type: text/plain", "; a=b", "\n\nc")},
		{"lines.eml", "", of("To: a@b\n\n", "> a\n\nb\n", "")},
		{"parts.eml", "parts", of("To: a@b\nContent-Type: multipart/mixed; boundary=x\n\n", "--x\n\na\n", "--x--")},
		{"boundaries.eml", "parts", of("To: a@b\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\n", "--xa\n-x\n", "")},
		{"nested.eml", "too early", numbered("To: a@b\n", "Content-Type: multipart/mixed; boundary=x%[1]d\n\n--x%[1]d\n")},
		{"attached.eml", "nested", of("To: a@b\n", "Content-Type: message/rfc822\n\n", "")},
		{"base64.eml", "", of("To: a@b\nContent-Transfer-Encoding: base64\n\n", "YWFh\n=", "")},
		{"quoted.eml", "", of("To: a@b\nContent-Transfer-Encoding: quoted-printable\n\n", "=41=\n", "")},
		{"flowed.eml", "", of("To: a@b\nContent-Type: text/plain; format=flowed\n\n", ">a \n>>b \n", "")},
		{"tags.eml", "HTML", numbered("To: a@b\nContent-Type: text/html\n\n", "<p><font a=%d>")},
		{"many.mbox", "", of("", "From a Mon Jan  1 00:00:00 2024\nTo: a@b\n\n> a\n\n", "")},
		{"said.mbox", "", numbered("From a Mon Jan  1 00:00:00 2024\nTo: a@b\n\n", "> w%d w\n")},
		{"dashes.mbox", "", of("From a Mon Jan  1 00:00:00 2024\nTo: a@b\n\n", "-- ", "\n")},
		{"empty.mbox", "messages", of("", "From a 0:0\n\n", "")},
		{"cells.ipynb", "", of(`{"cells":[`, `{"cell_type":"code"},`, `{}]}`)},
		{"lines.ipynb", "", of(`{"cells":[{"cell_type":"code","source":[`, `"a\n",`, `"b"]}]}`)},
		{"deep.ipynb", "not JSON", of(`{"cells":[{"source":`, "[", "")},
		{"pages.ipynb", "", of(`{"cells":[{"cell_type":"code","outputs":[`, `{"output_type":"display_data","data":{"text/html":"<div>a"}},`, `{}]}]}`)},
		{"terminal.ipynb", "", of(`{"cells":[{"cell_type":"code","outputs":[{"output_type":"stream","text":"`, `\u001b[\r`, `"}]}]}`)},
		{"aliases.yaml", "", numbered("a0: &a0 x\n", "a%[1]d: &a%[1]d [*a0, *a0]\n")},
		{"stairs.yaml", "", func(n int) string {
			var b strings.Builder
			for i := 0; b.Len() < n; i = (i + 1) % 200 {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}},
		{"items.yaml", "", of("", "- a: b\n", "")},
		{"comments.yaml", "", of("", "# a\n", "b: c")},
		{"keys.yaml", "", numbered("", "k%d: v\n")},
		{"colons.yaml", "", of("", "a:", "")},
		{"flow.yaml", "", of("openapi: 3\npaths: ", "[", "")},
		{"paths.yaml", "", numbered("openapi: '3'\ninfo: {title: x}\npaths:\n", "  /p%d: {get: {responses: {200: {description: x}}}}\n")},
		{"bomb.yaml", "", numbered("openapi: '3'\ninfo: {title: x}\npaths: {}\na0: &a0 x\n", "a%[1]d: &a%[1]d [*a0, *a0]\n")},
		{"refs.json", "", of(`{"openapi":"3","info":{},"components":{"parameters":{"a":{"$ref":"#/components/parameters/a"}}},"paths":{"/":{"get":{"parameters":[`, `{"$ref":"#/components/parameters/a"},`, `{}]}}}}`)},
		{"types.json", "", of(`{"openapi":"3","info":{},"paths":{},"components":{"schemas":{"a":`+strings.Repeat(`{"oneOf":[`, 90), `{"type":"string"},`, `{}`+strings.Repeat(`]}`, 90)+`}}}`)},
		{"quotes.toml", "", of("a = ", `'"`, "\n[b]\n")},
		{"brackets.toml", "", of("", "[[a", "]]\n")},
		{"tables.toml", "", of("", "#\n[a]\n", "")},
		{"lines.ini", "", of("", "[a]\n\nb=c\n", "")},
		{"escapes.properties", "", of("a=", `\u0041`, "")},
		{"deep.xml", "nested", of("", "<a>", "")},
		{"names.xml", "too early", numbered("<a>", "<b%[1]d>x</b%[1]d>")},
		{"unclosed.xml", "nested", of("<a>", "<p>x</b>", "")},
		{"entities.xml", "", func(n int) string {
			return "<!DOCTYPE a [<!ENTITY e0 'x'>" + numbered("", "<!ENTITY e%d '&e0;&e0;'>")(n/2) + "]><a>" + of("", "&e9;", "</a>")(n/2)
		}},
		{"fields.xml", "broken", numbered("<a ", "b%d='c' ")},
		{"mixed.xml", "", of("<a><p>"+strings.Repeat("<i>", 150), "x<b>y</b>", strings.Repeat("</i>", 150)+"</p></a>")},
		{"deep.rtf", "nested", of(`{\rtf1 `, "{", "")},
		{"groups.rtf", "", of(`{\rtf1 `, `{a}`, "}")},
		{"cells.rtf", "", of(`{\rtf1 `, `a\cell`, "}")},
		{"rows.rtf", "", of(`{\rtf1 `, `a\cell\row`, "}")},
		{"notes.rtf", "", of(`{\rtf1 `, `{\footnote a}`, "}")},
		{"styles.rtf", "too early", numbered(`{\rtf1{\stylesheet`, `{\s%d heading 1;}`)},
		{"scripts.rtf", "", of(`{\rtf1 `, `\super a\sub `, "}")},
		{"words.rtf", "", of(`{\rtf1 `, `\par\u-1?`, "}")},
		{"bin.rtf", "too early", of(`{\rtf1 `, `\bin99999999 `, "}")},
		{"titles.csv", "", of("", "a\n", "b;c;d\n")},
		{"latin.txt", "", of("", "\xe9", "")},
		{"zeros.txt", "", of("", "a\x00", "")},
	}
}

// smallSize is the size of the smaller of two compared files. A tenth of the largest file that is
// read is enough.
const (
	smallSize = 64 << 10
	growth    = 4
)

// The cost of reading any file grows no faster than its size: a file four times as long must not
// cost sixteen times as much. Time is measured repeatedly, because other tests may take some of
// it; allocation does not depend on them.
//
// Row K8 of deploy/CONTRIBUTING.md.
func TestHostile(t *testing.T) {
	size := smallSize
	if testing.Short() {
		size = smallSize / 2 // still shows what is quadratic, as the race detector makes it slower
	}
	for _, tc := range hostiles() {
		t.Run(tc.name, func(t *testing.T) {
			small, large := tc.text(size), tc.text(growth*size)
			var a, b cost
			const tries = 5
			for range tries {
				a, b = costOf(t, tc, small), costOf(t, tc, large)
				if b.took < 2*growth*max(a.took, 10*time.Millisecond) {
					break
				}
			}
			t.Logf("%v, then %v", a, b)
			if b.took >= 2*growth*max(a.took, 10*time.Millisecond) {
				t.Errorf("%d times as long takes %v rather than %v", growth, b.took, a.took)
			}
			if b.allocated > 2*growth*max(a.allocated, megabyte) {
				t.Errorf("%d times as long allocates %d bytes rather than %d", growth, b.allocated, a.allocated)
			}
		})
	}
}

const megabyte = 1 << 20

type cost struct {
	took      time.Duration
	allocated uint64
}

// costOf reads a file like a knowledge base.
func costOf(t *testing.T, tc hostile, text string) cost {
	t.Helper()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // its idle workers take all remaining time
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := knowledgetest.CPU(t)
	documents, err := extract.Read(extract.Of(tc.name), tc.name, []byte(text))
	for _, d := range documents {
		if d.Form == extract.Code {
			extract.Outline(d.Lang, d.Text, func(text string) bool { return len(text) < 1600 })
		}
	}
	took := knowledgetest.CPU(t) - start
	runtime.ReadMemStats(&after)
	broken, left := (*extract.Broken)(nil), (*extract.AttributesLeftOut)(nil)
	if !errors.As(err, &left) && (errors.As(err, &broken) != (tc.broken != "") || err != nil && !strings.Contains(err.Error(), tc.broken)) {
		t.Errorf("%v, want %q", err, tc.broken)
	}
	return cost{took, after.TotalAlloc - before.TotalAlloc}
}

// The amount of text that is read of a file is limited.
func TestBounds(t *testing.T) {
	for _, tc := range []struct{ name, text, broken string }{
		{"tags.html", strings.Repeat("<p>", 250_001), "250000 tags"},
		{"many.jsonl", strings.Repeat("1\n", extract.MaxDocuments+1), "documents"},
		{"objects.json", "[" + strings.Repeat("{},", extract.MaxDocuments) + "{}]", "documents"},
		{"key.json", `{"` + strings.Repeat("k", 60) + `":[` + strings.Repeat(`{"":1},`, 600_000) + `1]}`, "32 MB"},
		{"wide.csv", strings.Repeat("c", 60) + ",b\n" + strings.Repeat("1\n", 600_000), "32 MB"},
	} {
		_, err := extract.Read(extract.Of(tc.name), tc.name, []byte(tc.text))
		if broken := (*extract.Broken)(nil); !errors.As(err, &broken) || !strings.Contains(err.Error(), tc.broken) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.broken)
		}
	}
}
