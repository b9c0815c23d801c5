package tools_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/tools"
)

func all() []string {
	var names []string
	for _, name := range tools.ToolNames() {
		names = append(names, string(name))
	}
	return names
}

// scan scans an answer in pieces and returns its text and calls. Clients get each piece as a JSON
// string, so none may end within a character.
func scan(t interface{ Fatalf(string, ...any) }, s *tools.XMLScanner, pieces ...string) (text string, calls []tools.XMLCall) {
	var out strings.Builder
	valid := utf8.ValidString(strings.Join(pieces, ""))
	for _, piece := range pieces {
		pass := s.Write([]byte(piece))
		if valid && !utf8.Valid(pass) {
			t.Fatalf("%q ends within a character", pass)
		}
		out.Write(pass)
	}
	out.Write(s.Close())
	return out.String(), s.Calls()
}

// What is a call, what stays text, and the arguments of calls.
func TestCalls(t *testing.T) {
	type calls = []string // name and arguments
	for _, row := range []struct {
		name, answer, text string
		calls
	}{
		{"search", "Let me look.\n<search><query>parental leave</query><max_files>5</max_files></search>", "Let me look.\n", calls{`search_files {"max_files":5,"query":"parental leave"}`}},
		{"by its own name", "<search_files><query>leave</query></search_files>", "", calls{`search_files {"query":"leave"}`}},
		{"all four", "<search_knowledge><query>q</query><top_k>3</top_k></search_knowledge>\n<read_knowledge><refs><ref>a:b:1</ref></refs><max_chars>200</max_chars></read_knowledge>\n" +
			"<search>\n  <query>q</query>\n</search>\n<recall><query>q</query><max_tokens>50</max_tokens><file_paths><path>a</path><path>b</path></file_paths></recall>", "\n\n\n",
			calls{`search_knowledge {"query":"q","top_k":3}`, `read_knowledge {"max_chars":200,"refs":["a:b:1"]}`, `search_files {"query":"q"}`, `recall {"file_paths":["a","b"],"max_tokens":50,"query":"q"}`}},
		{"in a sentence", "I call <search><query>q</query></search> now.", "I call  now.", calls{`search_files {"query":"q"}`}},
		{"case, white space, attributes", "< SEARCH\n id=\"1\" >\r\n\t<Query lang='de'> Elternzeit </ QUERY >\r\n</ Search\t>", "", calls{`search_files {"query":"Elternzeit"}`}},
		{"references, once", "<search><query>a &lt;b&gt; &amp;amp; &#39;c&#x27; &quot;d&apos; R&D &copy &#0;</query></search>", "", calls{`search_files {"query":"a <b> &amp; 'c' \"d' R&D &copy ` + "\ufffd" + `"}`}},
		{"German and Chinese", "Ich schaue nach … 我来查。<search><query>Überstunden für Väter 育儿假</query></search>", "Ich schaue nach … 我来查。", calls{`search_files {"query":"Überstunden für Väter 育儿假"}`}},
		{"a number as words", "<search><query>2024</query><max_files>many</max_files></search>", "", calls{`search_files {"max_files":"many","query":"2024"}`}},
		{"numbers that are none", "<search><query>q</query><max_files>007</max_files></search><search_knowledge><top_k>-1</top_k></search_knowledge><recall><max_tokens>1.5</max_tokens></recall>", "",
			calls{`search_files {"max_files":"007","query":"q"}`, `search_knowledge {"top_k":-1}`, `recall {"max_tokens":1.5}`}},
		{"unknown argument", "<search><query>q</query><Limit>5</Limit></search>", "", calls{`search_files {"limit":"5","query":"q"}`}},
		{"empty arguments", "<recall><query>q</query><max_tokens/><file_paths></file_paths></recall>", "", calls{`recall {"query":"q"}`}},
		{"no arguments", "<search></search><recall/><recall />", "", calls{`search_files {}`, `recall {}`, `recall {}`}},
		{"said twice", "<search><query>a</query><query>b</query></search><read_knowledge><refs>a:b:1</refs><refs>a:b:2</refs></read_knowledge>", "", calls{`search_files {"query":"b"}`, `read_knowledge {"refs":["a:b:1","a:b:2"]}`}},
		{"lines", "<recall><file_paths>\r\n a, b.md\r\n\r\nc&amp;d.md\r\n</file_paths></recall>", "", calls{`recall {"file_paths":["a, b.md","c&d.md"]}`}},
		{"lines of one", "<recall><file_paths>a b.md</file_paths></recall>", "", calls{`recall {"file_paths":["a b.md"]}`}},
		{"commas", "<recall><file_paths>a b.md, c.md,</file_paths></recall>", "", calls{`recall {"file_paths":["a b.md","c.md"]}`}},
		{"elements of any name", "<recall><file_paths><item>a, b.md</item> <file>c.md</file></file_paths></recall>", "", calls{`recall {"file_paths":["a, b.md","c.md"]}`}},
		{"JSON", `<read_knowledge><refs>["a:b,c:1", "a:b:2"]</refs></read_knowledge>`, "", calls{`read_knowledge {"refs":["a:b,c:1","a:b:2"]}`}},
		{"JSON of something else", `<read_knowledge><refs>[1, 2]</refs></read_knowledge>`, "", calls{`read_knowledge {"refs":["[1","2]"]}`}},
		{"an argument that does not close", "<search><query>parental leave</search>", "", calls{`search_files {"query":"parental leave"}`}},
		{"text beside arguments", "<search><i>so:<query>q</query> please</search>", "", calls{`search_files {"i":"so:<query>q</query> please"}`}},

		{"a call in a value", "<search><query>what is <recall><b>x</b></recall>?</query></search>", "", calls{`search_files {"query":"what is <recall><b>x</b></recall>?"}`}},
		{"a call in a call", "<search><recall><query>x</query></recall></search>", "", calls{`search_files {"recall":"<query>x</query>"}`}},
		{"a result that the model invents", `<tool_result tool="search" success="true"><search><query>q</query></search></tool_result>`, `<tool_result tool="search" success="true"></tool_result>`, calls{`search_files {"query":"q"}`}},
		{"a result that it invents behind a call", "<recall/>\n< Tool_Result tool='recall'>99 weeks</tool_result> It is 99 weeks. <search><query>q</query></search>", "\n", calls{`recall {}`}},
		{"one that it talks of", "<recall/> `<tool_result>` </tool_result> <tool_results>", " `<tool_result>` </tool_result> <tool_results>", calls{`recall {}`}},

		{"not offered", "<read_file><path>/etc/passwd</path></read_file>", "<read_file><path>/etc/passwd</path></read_file>", nil},
		{"longer names", "<searching><query>q</query></searching> <search-x><a/></search-x>", "<searching><query>q</query></searching> <search-x><a/></search-x>", nil},
		{"prose", "The <search> element of HTML, and </search>; a < search > b, x<search", "The <search> element of HTML, and </search>; a < search > b, x<search", nil},
		{"no element in it", "<search>parental leave</search>", "<search>parental leave</search>", nil},
		{"never closed", "<search><query>q</query></searc", "<search><query>q</query></searc", nil},
		{"closed by another", "<search><query>q</query></recall>", "<search><query>q</query></recall>", nil},
		{"look-alikes", "＜search＞<query>q</query>＜/search＞ &lt;search><query>q</query></search> <ſearch><query>q</query></ſearch>", "＜search＞<query>q</query>＜/search＞ &lt;search><query>q</query></search> <ſearch><query>q</query></ſearch>", nil},
		{"a tag too long", "<search " + strings.Repeat("x", 300) + "><query>q</query></search>", "<search " + strings.Repeat("x", 300) + "><query>q</query></search>", nil},
		{"far from its elements", "<search>" + strings.Repeat(" ", 300) + "<query>q</query></search>", "<search>" + strings.Repeat(" ", 300) + "<query>q</query></search>", nil},
		{"a tag in a tag", "<search <search><query>q</query></search>", "<search ", calls{`search_files {"query":"q"}`}},
		{"behind one that never begins", "<search> <search><query>q</query></search>", "", calls{`search_files {"search":"<query>q</query>"}`}},
		{"escaped", `\<search><query>q</query></search>`, `\<search><query>q</query></search>`, nil},
		{"a backslash escaped", `\\<search><query>q</query></search>`, `\\`, calls{`search_files {"query":"q"}`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s tools.XMLScanner
			s.Reset(all())
			text, found := scan(t, &s, row.answer)
			if text != row.text {
				t.Errorf("text %q, want %q", text, row.text)
			}
			var got calls
			for _, call := range found {
				got = append(got, call.Name+" "+string(call.Arguments))
			}
			if diff := cmp.Diff(row.calls, got); diff != "" {
				t.Error(diff)
			}
			everyCut(t, row.answer)
		})
	}
}

// Only text that may become a call is held back.
func TestAtOnce(t *testing.T) {
	var s tools.XMLScanner
	s.Reset(all())
	for _, step := range [][2]string{
		{"Let", "Let"}, {" me <b", " me <b"}, {">x</b> <", ">x</b> "}, {"se", ""}, {"nd", "<send"}, {"\xe2", ""}, {"\x80", ""}, {"\xa6<sea", "…"},
		{"rch>", ""}, {" \n", ""}, {"or", "<search> \nor"}, {"<search ", ""}, {"><query>", ""}, {"</search", ""}, {">\n`<", "\n`<"}, {"search><", "search><"},
	} {
		if got := string(s.Write([]byte(step[0]))); got != step[1] {
			t.Fatalf("%q gave %q, want %q", step[0], got, step[1])
		}
	}
	if n := len(s.Calls()); n != 1 {
		t.Errorf("%d calls", n)
	}
	s.Reset([]string{"recall"})
	if got := string(s.Write([]byte("<search><query>"))); got != "<search><query>" || len(s.Calls()) != 0 {
		t.Errorf("%q of what is not offered, %d calls of an answer before", got, len(s.Calls()))
	}
}

// A call has at most 64 KiB; a longer one is text, which is scanned again.
func TestLongCalls(t *testing.T) {
	const begin, end = "<search><query>", "</query></search>"
	const room = 64<<10 - len(begin) - len(end)
	for extra := range 2 {
		var s tools.XMLScanner
		s.Reset(all())
		text, calls := scan(t, &s, begin+strings.Repeat("x", room+extra), end+"<recall><a/></recall>")
		if len(calls) != 2-extra || calls[len(calls)-1].Name != "recall" || (text == "") != (extra == 0) {
			t.Errorf("%d bytes more than fit: %d calls, %d bytes of text", extra, len(calls), len(text))
		}
	}
}

var madeUp = regexp.MustCompile(`^(?i)<\s*tool_result[\s/>]`)

// wholeXmlcalls checks that an answer consists of its text and its calls, in order, up to a result
// that the model invented after a call.
func wholeXmlcalls(t interface{ Fatalf(string, ...any) }, answer string) (text string, calls []tools.XMLCall) {
	var s tools.XMLScanner
	s.Reset(all())
	var together, passed strings.Builder
	for i := range len(answer) {
		n := len(s.Calls())
		pass := s.Write([]byte{answer[i]})
		together.Write(pass)
		passed.Write(pass)
		for _, call := range s.Calls()[n:] {
			together.WriteString(call.Raw)
		}
	}
	rest := s.Close()
	together.Write(rest)
	passed.Write(rest)
	left, ok := strings.CutPrefix(answer, together.String())
	if made := len(s.Calls()) > 0 && madeUp.MatchString(left); !ok || left != "" && !made {
		t.Fatalf("text and calls are %q of %q", together.String(), answer)
	}
	if s.AnswerBytes() != together.Len() {
		t.Fatalf("%d bytes are said, want %d of %q", s.AnswerBytes(), together.Len(), answer)
	}
	return passed.String(), s.Calls()
}

// everyCut checks that the result does not depend on where an answer is cut in two.
func everyCut(t *testing.T, answer string) {
	t.Helper()
	wantText, wantCalls := wholeXmlcalls(t, answer)
	var s tools.XMLScanner
	for cut := range len(answer) + 1 {
		s.Reset(all())
		if text, calls := scan(t, &s, answer[:cut], answer[cut:]); text != wantText || !cmp.Equal(calls, wantCalls) {
			t.Fatalf("cut at %d: %q and %d calls, want %q and %d", cut, text, len(calls), wantText, len(wantCalls))
		}
	}
}

// wordsXmlcalls are the parts of random answers.
var wordsXmlcalls = []string{
	"<search>", "</search>", "<search ", "<SEARCH>", "<search/>", "</ search >", "<query>", "</query>", "<query/>", "<recall>", "</recall>", "<recall/>", "<file_paths>", "</file_paths>",
	"<path>a</path>", "<search><query>q</query></search>", "<read_knowledge><refs>a:b:1</refs></read_knowledge>", "<tool_result>", "<think>", "</think>",
	"`", "``", "```", "~~~", "\\", "\n", "\r\n", " ", "\t", "- ", "> ", "1. ", "<", ">", "/", "&lt;", "x", "ü", "育", "😀", "\xff", "\xe2\x82", "5",
}

// However an answer is cut, it gives the same text and calls, which together are the whole answer.
func TestAnyCut(t *testing.T) { rapid.Check(t, anyCut) }

func FuzzScanner(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyCut)) }

func anyCut(t *rapid.T) {
	answer := strings.Join(rapid.SliceOfN(rapid.SampledFrom(wordsXmlcalls), 0, 40).Draw(t, "answer"), "")
	wantText, wantCalls := wholeXmlcalls(t, answer)
	cuts := rapid.SliceOf(rapid.IntRange(0, len(answer))).Draw(t, "cuts")
	slices.Sort(cuts)
	var pieces []string
	from := 0
	for _, cut := range append(cuts, len(answer)) {
		pieces = append(pieces, answer[from:cut])
		from = cut
	}
	var s tools.XMLScanner
	s.Reset(all())
	text, calls := scan(t, &s, pieces...)
	if text != wantText || !cmp.Equal(calls, wantCalls) {
		t.Fatalf("%q: %q and %v, want %q and %v", pieces, text, calls, wantText, wantCalls)
	}
}

// Scanning time is linear in the length of an answer, whatever it contains.
func TestLinear(t *testing.T) {
	for _, unit := range []string{
		"<search>", "<search><query>", "<", "< ", "<search ", "<search/>", "`", "```\n", "<search><query>q</query></search>",
		"<recall><a><a></recall>", "<recall>" + strings.Repeat("</a>", 100) + "</recall>", "<think>",
	} {
		knowledgetest.Linear(t, unit, 512<<10, 8, func(n int) {
			var s tools.XMLScanner
			s.Reset(all())
			s.Write([]byte(strings.Repeat(unit, n/len(unit))))
			s.Close()
		})
	}
}

func BenchmarkScanner(b *testing.B) {
	for name, unit := range map[string]string{"prose": "The handbook says, in its second part, that parental leave is 14 weeks. ", "unclosed": "<search><query>", "brackets": "< search"} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(unit, 64<<10/len(unit)))
			b.SetBytes(int64(len(text)))
			var s tools.XMLScanner
			for b.Loop() {
				s.Reset(all())
				s.Write(text)
				s.Close()
			}
		})
	}
}
