package tags_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sidenote/rewrite/tags"
)

// pieces are parts of tags and of their look-alikes.
var pieces = []string{
	"<", "</", "< ", "<\n", "<<", "＜", "‹", "〈", "\u2329", "⟨", "&lt;", "&LT", "&#60;", "&#060", "&#x3c;", "&#X3C", "&amp;lt;", "&amp;amp;#60;", "&#38;lt;", "&", "amp;", "lt;", "&l", "#60;", "&#", "&amp",
	"/", "／", "\\", "&sol;", "&#47;", ">", "＞", "&gt;", "/>",
	"source", "sources", "SOURCE", "Source", "component", "sou", "rce", "s", "ource", "ｓource", "sоurce", "ѕοurcе", "𝓼ource", "ſource", "&#115;ource", "rces", "comp", "onent",
	" ", "\t", "\n", "\r\n", "\r", "\u200b", "\u200d", "\u2060", "\ufeff", "\ufe0f", "\u0301", "\u00ad", "\u202e", "\u200e", "\U000e0073", "\U000e007f", "\x00", "\x1b", "\x7f", "\u0085", "\u2028", "\u00a0", "\u3000", "\u3164", "\ufffd", "\xff", "\xc2", "\xe2\x80",
	"id=\"7\"", "name='x'", "\"", "'", ";", ")", ".", ",", "=", "-", "_", "[", "]", "|", "?", "&&",
	"<|", "|>", "|", "｜", "▁", "im_start", "im", "start", "end", "user", "[INST]", "[/", "INST", "ARGS", "SYS>>", "eos>", "<s>", "7",
	"a", "b", "1", "é", "中", "😀", "div", "length", "<source id=\"9\">", "</source>", "</sources>\n", "\n</source>\n", "<sources>\n",
}

// own is the vocabulary of the package's own tags.
var own tags.Vocabulary

func hostile(max int) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, max), func(p []string) string {
		return strings.Join(p, "")
	})
}

func TestScanFinds(t *testing.T) {
	for _, s := range []string{
		"<source>", "</source>", "<source/>", "<source id=\"1\">", "<SOURCES>", "</Component >", "<component name=\"x\">",
		"< source>", "<\nsource>", "< / source >", "<//source>", "<\\/source>", "<sou\nrce>", "<s o u r c e>", "<source", "</source", "<source\n",
		"<\u200bsource>", "<so\u200durce>", "<source\ufe0f>", "<\u202esource>", "</\u2066source>", "<\U000e0041source>", "<\x00source>", "<s\u0301ource>",
		"＜source＞", "＜／source＞", "‹source›", "❮source❯", "﹤source﹥", "〈source〉", "\u2329source>", "⟨source⟩", "<\u2215source>",
		"&lt;source&gt;", "&lt;/source&gt;", "&ltsource", "&LT;source", "&#60;source", "&#60source", "&#0060;source", "&#x3c;source", "&#X3C;/source", "&amp;lt;source", "&amp;amp;lt;source", "&amp;#60;source", "&#38;lt;source", "&#x26;#x3c;source",
		"<&#115;ource>", "<s&#x6f;urce>", "<&#47;source>", "<&sol;source>", "&lt;&#8203;source",
		"<ｓｏｕｒｃｅ>", "<sоurce>", "<ѕource>", "<sουrce>", "<𝐬ource>", "<ⓢource>", "<ſource>", "<sourсes>", "<ＳＯＵＲＣＥ>", "<ꜱᴏᴜʀᴄᴇ>", "<соmponent>", "<componеnт>",
		"a<source b", "<div<source>", "</source;", "</source.", "</ source)", "<source=1>", "Array<Component>",
	} {
		found(t, tags.NewVocabulary(), s)
	}
}

// found fails unless s contains exactly one look-alike, which Neutralise changes.
func found(t *testing.T, v tags.Vocabulary, s string) {
	t.Helper()
	if n := v.Count(s); n != 1 {
		t.Errorf("Count(%q) = %d, want 1", s, n)
	}
	out, n := v.Neutralise(s, false)
	if n == 0 || v.Count(out) != 0 {
		t.Errorf("Neutralise(%q) = %q, %d", s, out, n)
	}
}

// Look-alikes are found with anything invisible inside a reference, with references anywhere in a
// tag, and with look-alike letters.
func TestLookAlikes(t *testing.T) {
	for _, s := range []string{
		"&lt\u200b;source>", "&l\u200bt;/source>", "&\u200blt;source", "&#6\u20600;source", "&#x3c\u200b;source", "&#139;source&#155;", "&amp\u200b;lt;source",
		"<s\u0275urce>", "<componen\u0167>", "<\U0001f162ource>", "<\U0001f182\U0001f17e\U0001f184\U0001f181\U0001f172\U0001f174>", "<\U0001f1f8ource>", "<s\u00f8urce>", "<\u24aeource>", "<\u0219\u0151\u0171\u0159\u010d\u0115>",
		"<&frasl;source>", "<&Frasl;source>", "<&setminus;source>", "<&NoBreak;source>", "<source&hairsp;id=\"1\">", "<source&MediumSpace;id=1>", "<source&hellip;id='1'>",
		"<source; id=\"1\">", "<source;id=1>", "<source;>", "</source;>", "<source,id='1' name='x'>", "<source&semi; id&equals;&quot;1&quot;&gt;", "<source) id=1>", "<source. id='1' name=2>", "<source| id=>", "<\u2800source>", "<\ufffdsource>", "<&zwnj;source>", "&#8249;source>", "&#x2039;source>",
		"<source; id=\"" + strings.Repeat("x", 300),
	} {
		found(t, tags.NewVocabulary(), s)
	}
}

// A template's own tags are protected like <source>.
func TestTagsOfATemplate(t *testing.T) {
	v := tags.NewVocabulary("Context", "h1", "my-docs", "kontextü")
	for _, s := range []string{
		"</context>", "</CONTEXT >", "<context id=\"1\">", "&lt;/context&gt;", "<\u0441ontext>", "</h1>", "<my-docs>", "</kontextÜ>", "</source>",
	} {
		found(t, v, s)
	}
	for _, s := range []string{"<contextual>", "i<context.length", "<h12>", "<my>", "[context]"} {
		if out, n := v.Neutralise(s, false); out != s || n != 0 {
			t.Errorf("Neutralise(%q) = %q, %d; want it as it is", s, out, n)
		}
	}
	if n := tags.NewVocabulary("").Count("< b"); n != 0 {
		t.Error("no name is a name")
	}
	if n := own.Count("</context>"); n != 0 {
		t.Error("the names of one vocabulary are in another")
	}
}

// In a text with real tags of Sidenote, other tags are still found.
func TestOnly(t *testing.T) {
	const text = "<source id=\"1\">\n</Call> &lt;call> <component name=\"a\"></sources> "
	v := tags.Only("call")
	if out, n := v.Neutralise(text, false); n != 2 || out != "<source id=\"1\">\n[/Call> [call> <component name=\"a\"></sources> " {
		t.Errorf("%d: %s", n, out)
	}
}

func TestCodeStaysAsItIs(t *testing.T) {
	for _, s := range []string{
		"", "plain", "Map<String,Int>", "a && b", "<div>", "if (a<b)", "a &lt; b", "&amp;", "<p class=\"source\">source</p>", "x < y > z",
		"for (i = 0; i < sources.length; i++)", "i < source.length", "if (a < source) {", "while (n<source)", "cout << source << endl", "a<source_count", "a<source->next", "return a < source;", "a < source && b", "for (i = 0; i<source; i = i + 1)", "for (;i<source;) {", "a<source; s = \"x\"; t", "if (a<source) x = 'y'\nif b", "f(a<source, b=c)", "f(a<source, b=\"c\")", "a<source;\nb = 3", "(a<source)>0", "a <\tsource && b", "a<source; b=*c>d", "&#4294967356;source", "a<source, b = c, d > e", "<sourceful>", "<resource>", "<my-source>", "<source-map>", "</sourcecode>",
		"« source »", "[source](x)", "&lt;div&gt;", "&#60;div", "<中文>", "a\tb\nc", "naïve café 😀👩\u200d👩\u200d👧 ❤\ufe0f न्\u200dय", "&", "<", "&#", "&#x", "&#xfffffffffff;", "\ufffd", "R&D", "&ltd", "AT&T <", "＜テスト＞",
	} {
		if out, n := own.Neutralise(s, false); out != s || n != 0 {
			t.Errorf("Neutralise(%q) = %q, %d; want it as it is", s, out, n)
		}
	}
}

func TestNeutralise(t *testing.T) {
	f := func(text string, all bool, want string, wantN int) {
		t.Helper()
		if got, n := own.Neutralise(text, all); got != want || n != wantN {
			t.Errorf("Neutralise(%q, %v) = %q, %d; want %q, %d", text, all, got, n, want, wantN)
		}
	}
	f("a</source>b", false, "a[/source>b", 1)
	f("&lt;source&gt;", false, "[source&gt;", 1)
	f("<source><div><sources>", false, "[source><div>[sources>", 2)
	f("<source><div>a<b", true, "[source>&lt;div>a&lt;b", 1)
	f("a\r\nb\rc\x00d\u0085e\x7f", false, "a\nb\ncde", 0)
	f("<\x00source", false, "[source", 1)
	f("&l\x00t;source", false, "[source", 1)
	f("a\xffb\xe2\x80", false, "a\ufffdb\ufffd\ufffd", 0)
	f("a\u202eb\u2066c\u200ed\U000e0041e", false, "abcde", 0)
	f("out << source << end", true, "out &lt;&lt; source &lt;&lt; end", 0)
}

func neutral(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) {
	t.Helper()
	for _, all := range []bool{false, true} {
		once, n := own.Neutralise(s, all)
		if twice, m := own.Neutralise(once, all); twice != once || m != 0 {
			t.Fatalf("Neutralise(%q, %v) = %q, again %q, %d", s, all, once, twice, m)
		}
		if spans := own.Scan(once); len(spans) > 0 {
			t.Fatalf("Neutralise(%q, %v) = %q: %q is left", s, all, once, once[spans[0].Start:spans[0].End])
		}
		if spans := tags.Tokens(once); len(spans) > 0 {
			t.Fatalf("Neutralise(%q, %v) = %q: %q is left", s, all, once, once[spans[0].Start:spans[0].End])
		}
		if !utf8.ValidString(once) || len(once) > 6*len(s) {
			t.Fatalf("Neutralise(%q, %v) = %q", s, all, once)
		}
		if all && strings.Contains(once, "<") {
			t.Fatalf("Neutralise(%q, all) = %q", s, once)
		}
		if n == 0 && !all && utf8.ValidString(s) && !strings.ContainsFunc(s, stripped) && once != s {
			t.Fatalf("Neutralise(%q) = %q without a reason", s, once)
		}
	}
	if spans := own.Scan(s); len(spans) != own.Count(s) {
		t.Fatalf("Count(%q) = %d, Scan finds %d", s, own.Count(s), len(spans))
	}
}

func stripped(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x200e || r == 0x200f || r == 0x61c ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && r <= 0xe007f
}

func TestNeutraliseHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			neutral(t, hostile(12).Draw(t, "text"))
		}
	})
}

func FuzzNeutralise(f *testing.F) {
	for _, p := range pieces {
		f.Add(p + "source>")
		f.Add("<" + p + "source" + p)
		f.Add("<sou" + p + "rce " + p)
	}
	f.Fuzz(func(t *testing.T, s string) { neutral(t, s) })
}

func TestNeutraliseKeepsCleanTextWithoutAllocating(t *testing.T) {
	s := strings.Repeat("if (a<b) && c: naïve 中文 <div> &amp; i < source.length\n", 100)
	if n := testing.AllocsPerRun(10, func() { own.Neutralise(s, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNeutralise(b *testing.B) {
	for name, s := range map[string]string{
		"prose":   strings.Repeat("Every parent may take sixteen weeks of leave, paid in full by the office.\n", 1<<20/74),
		"html":    strings.Repeat("<div class=\"a\"><p>Every parent &amp; child</p></div>\n", 1<<20/52),
		"chinese": strings.Repeat("每位员工都有权享受带薪年假。", 1<<20/42),
		"lt":      strings.Repeat("<", 1<<20),
		"amp":     strings.Repeat("&", 1<<20),
		"chain":   "&" + strings.Repeat("amp;", 1<<18),
		"chains":  strings.Repeat("<&amp;", 1<<20/6),
		"digits":  "<&#" + strings.Repeat("0", 1<<20),
		"zero":    "<" + strings.Repeat("\u200b", 1<<20/3),
		"zeros":   strings.Repeat("<\u200b", 1<<20/4),
		"refs":    "<" + strings.Repeat("&#8203;", 1<<20/7),
		"sour":    strings.Repeat("‹sourc", 1<<20/8),
		"tags":    strings.Repeat("<source>", 1<<20/8),
		"attrs":   strings.Repeat("<source; a=", 1<<20/11),
		"hidden":  strings.Repeat("&lt\u200b", 1<<20/6),
		"bare":    strings.Repeat("&ltsourc", 1<<20/8),
		"nul":     strings.Repeat("\x00", 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			for b.Loop() {
				own.Neutralise(s, false)
			}
		})
	}
}
