package tags_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sidenote/rewrite/tags"
)

// everyRune calls f for all assigned characters except rare ideographs. With -short it calls f for an
// eighth of the ideographs, syllables and other letters without case that are behind U+3400.
func everyRune(f func(rune)) {
	for r := rune(0); r < 0xe0200; r++ {
		switch r {
		case 0xd800:
			r = 0xdfff // surrogates are not characters
		case 0x20000:
			r = 0xe0000 - 2
		default:
			if testing.Short() && r >= 0x3400 && r%8 > 0 && unicode.Is(unicode.Lo, r) {
				continue
			}
			f(r)
		}
	}
}

// Which characters are read as which part of a tag, and which are not.
func TestCharactersOfATag(t *testing.T) {
	const (
		openers = "<＜﹤‹❮❬❰〈\u2329⟨⧼˂ᐸᚲ𝈶≺⋖"
		slashes = "/\\／⁄∕⧸╱⟋〳＼﹨∖⧵⧹╲"
		closers = ">＞﹥›❯❭❱〉\u232a⟩⧽˃"
	)
	fillers := func(r rune) bool { // characters without width, and white space
		return r == ' ' || r == utf8.RuneError || r == '\u2800' ||
			unicode.In(r, unicode.White_Space, unicode.Cc, unicode.Cf, unicode.M, unicode.Other_Default_Ignorable_Code_Point)
	}
	in := func(set string) func(rune) bool { return func(r rune) bool { return strings.ContainsRune(set, r) } }
	for _, c := range []struct {
		what   string
		around [2]string
		is     func(rune) bool
	}{
		{"an opening bracket", [2]string{"", "source>"}, in(openers)},
		{"a slash", [2]string{"<", "source.length"}, in(slashes)},
		{"a closing bracket", [2]string{"<source;", ""}, in(closers)},
		{"nothing", [2]string{"<s", "ource>"}, fillers},
	} {
		everyRune(func(r rune) {
			if got := own.Count(c.around[0]+string(r)+c.around[1]) > 0; got != c.is(r) {
				t.Errorf("%U is read as %s: %v", r, c.what, got)
			}
		})
	}
}

// The characters removed from texts: controls, those that change the direction of text, and
// invisible ones.
func TestCharactersThatGo(t *testing.T) {
	everyRune(func(r rune) {
		want := "a" + string(r) + "b"
		switch {
		case r == '\r':
			want = "a\nb"
		case r == '\n', r == '\t':
		case unicode.In(r, unicode.Cc, unicode.Bidi_Control), r >= 0xe0000 && r < 0xe0080:
			want = "ab"
		}
		if got, n := own.Neutralise("a"+string(r)+"b", false); got != want || n != 0 {
			t.Errorf("%U: %q, %d; want %q", r, got, n, want)
		}
	})
}

// Each character that follows a variable in code, with and without white space before it.
func TestOperatorsBehindAName(t *testing.T) {
	stays := func(s string) {
		t.Helper()
		if out, n := own.Neutralise(s, false); out != s || n != 0 {
			t.Errorf("Neutralise(%q) = %q, %d; want it as it is", s, out, n)
		}
	}
	for _, operator := range ".;),]}+*|&" {
		stays(fmt.Sprintf("i<source%c b", operator))
		if operator != ';' && operator != ',' { // these may be stray characters in a tag
			stays(fmt.Sprintf("i<source%c>b", operator))
		}
		found(t, own, fmt.Sprintf("<source%c id=1>", operator))
		found(t, own, fmt.Sprintf("</source%c b", operator))
	}
	for _, operator := range ";),]}+*|&?[<" {
		stays(fmt.Sprintf("i < source %c b", operator))
		stays(fmt.Sprintf("i <\tsource\t%c b", operator))
		found(t, own, fmt.Sprintf("<\nsource %c b", operator)) // this is not code
		found(t, own, fmt.Sprintf("<source %c b", operator))
	}
}

// Text after a name and a stray operator, as in a tag and as in code.
func TestAttributesBehindAnOperator(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, s := range []string{
		"<source,>", "<source;/>", "<source; / >", "<source;id=1/>", "<source; id = 1 >", "<source. id=''>",
		"<source; data-id=1>", "<source; doc_id=1>", "<source; xml:id=1>", "<source; ⓘⓓ=1>", "<source; id=ab>", "<source; id=a-b>", "<source; id=1.5>", "<source& id=1>", "<source&i=1>",
		"<source;a=" + long[:255], "<source;" + long + "x", "<source; id='" + long,
	} {
		found(t, own, s)
	}
	for _, s := range []string{
		"i<source,=1>b", "f(i<source, b+1>c)", "i<source; \"" + long, "i<source;a=" + long[:254], "i<source;" + long, "i<source; a=1", "i<source; a='b', c",
	} {
		if n := own.Count(s); n != 0 {
			t.Errorf("Count(%q) = %d, want 0", s, n)
		}
	}
}

// At the end of a text a name is taken for a tag even if it might be code.
func TestTagsAtTheEndOfAText(t *testing.T) {
	for _, s := range []string{"< source", "< source ", "<\tsource \t", "<source;/>", "< source id"} {
		found(t, own, s)
	}
	for _, s := range []string{"<", "</", "< ", "<s", "<sourc", "a < s", "</ compo"} {
		if n := own.Count(s); n != 0 {
			t.Errorf("Count(%q) = %d, want 0", s, n)
		}
	}
}

// References are read as in HTML, and nothing else is a reference.
func TestReferences(t *testing.T) {
	for _, s := range []string{
		"<&emsp13;source>", "<&zwnj;source>", "<&ZeroWidthSpace;source>", "<sourc&eacute>", "<s&oslashurce>", "<&NegativeVeryThinSpace;source>",
		"&#\u200b60;source", "&#\u200bx3c;source", "&\u200b#60;source", "<&#x200b;source>", "<&#xa0;source>", "<&#xAD;source>", "<co&#x6d;po&#x6e;e&#x6E;t>", "<&#9;source>", "<&#83;ource>", "&#8249;source",
	} {
		found(t, own, s)
	}
	for _, s := range []string{
		"&l t;source", "&#6 0;source", "&" + strings.Repeat("a", 40) + ";source", "<&nosuch;source>", "<&xsource>", "<&frasl source>", "<&fraslsource>", "<&;source>", "<&#;source>", "<&#source>", "<&#x;source>",
		"&#5a;source", "&#5:;source", "<&#52/;source>", "<&#x1g;source>", "<&#x@;source>", "<&#128;source>", "<&#159;source>", "&#x3;source",
	} {
		if n := own.Count(s); n != 0 {
			t.Errorf("Count(%q) = %d, want 0", s, n)
		}
	}
}

// A template's tag name may be of any script and begin or end with any letter; only what reads
// like it is found.
func TestNamesOfAnyLetters(t *testing.T) {
	v := tags.NewVocabulary("alpha", "zoo", "контекст", "a`{b", "h1", "kontext-é")
	for _, s := range []string{
		"<\u0430lpha>", "<ALPHA>", "<\u01b6oo>", "<Zoo>", "<контекст>", "</КОНТЕКСТ>", "<контекст id=1>", "<a`{b>", "<kontext-e>", "<sourcё>", "<sоurсe>", "<alph\u0251>",
	} {
		found(t, v, s)
	}
	for _, s := range []string{"<контакты>", "<文字文字文字文字>", "<a-{b>", "<a`.b>", "<h2>", "<kontext_é>", "<kontext-ö>", "<beta>", "<0>"} {
		if n := v.Count(s); n != 0 {
			t.Errorf("Count(%q) = %d, want 0", s, n)
		}
	}
}

// Only the bracket of a look-alike is replaced.
func TestWhatIsReplaced(t *testing.T) {
	for _, c := range []struct{ text, span, want string }{
		{"a </source> b", "</source", "a [/source> b"},
		{"&#60\u200bsource>", "&#60\u200bsource", "[\u200bsource>"},
		{"&lt\u200bsource>", "&lt\u200bsource", "[\u200bsource>"},
		{"&lt\u200b;source>", "&lt\u200b;source", "[source>"},
		{"&amp;#x3C;\tso\u0301urces>", "&amp;#x3C;\tso\u0301urces", "[\tso\u0301urces>"},
		{"i < <source", "<source", "i < [source"},
	} {
		spans := own.Scan(c.text)
		if len(spans) != 1 || c.text[spans[0].Start:spans[0].End] != c.span {
			t.Errorf("Scan(%q) = %v, want %q", c.text, spans, c.span)
		}
		if got, _ := own.Neutralise(c.text, false); got != c.want {
			t.Errorf("Neutralise(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// With all, each '<' is escaped, also at the start of a text; a text without '<' is not copied.
func TestEveryBracketGoes(t *testing.T) {
	for text, want := range map[string]string{"<div>": "&lt;div>", "a<": "a&lt;", "<<": "&lt;&lt;", "<source><": "[source>&lt;", "a > b": "a > b"} {
		if got, _ := own.Neutralise(text, true); got != want {
			t.Errorf("Neutralise(%q, all) = %q, want %q", text, got, want)
		}
	}
	text := strings.Repeat("naïve 中文 &amp; i > source\n", 100)
	if n := testing.AllocsPerRun(10, func() { own.Neutralise(text, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Attributes are on one line, cut by characters, and as safe as a body.
func TestAttributesOnOneLine(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"a\x00b", "a b"}, {"a\u0085\u2028b", "a b"}, {"a \u202e b", "a b"}, {"\u200ea\u200f", "a"}, {"~!", "~!"}, {"a\x7fb", "a b"},
		{strings.Repeat("中", 200), strings.Repeat("中", 200)}, {strings.Repeat("中", 199) + " \u200f", strings.Repeat("中", 199)},
		{strings.Repeat("é", 150) + strings.Repeat(" x", 25), strings.Repeat("é", 150) + strings.Repeat(" x", 25)},
		{strings.Repeat("\u202ex", 200), strings.Repeat("x", 200)},
	} {
		if got := string(own.AppendAttr(nil, "n", c.value)); got != ` n="`+c.want+`"` {
			t.Errorf("AppendAttr(%q) = %s, want %s", c.value, got, c.want)
		}
	}
	if got := string(own.AppendOpen(nil, tags.Source{ID: 120}, nil)); got != `<source id="120">` {
		t.Errorf("a third digit: %s", got)
	}
}
