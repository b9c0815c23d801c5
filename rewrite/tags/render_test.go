package tags_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/rewrite/tags"
	"sidenote/rewrite/tags/tagstest"
)

var all = []string{"id", "type", "kb_id", "doc_id", "name", "section"}

func TestAppendOpen(t *testing.T) {
	s := tags.Source{ID: 1, Type: "rag", KB: "handbook", Doc: "leave.md", Name: "Leave policy", Section: "Parental leave"}
	f := func(s tags.Source, attributes []string, want string) {
		t.Helper()
		if got := string(own.AppendOpen(nil, s, attributes)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f(s, all, `<source id="1" type="rag" kb_id="handbook" doc_id="leave.md" name="Leave policy" section="Parental leave">`)
	f(s, []string{"section", "name"}, `<source id="1" name="Leave policy" section="Parental leave">`)
	f(s, nil, `<source id="1">`)
	s.Section, s.Name = "", ""
	f(s, all, `<source id="1" type="rag" kb_id="handbook" doc_id="leave.md" name="">`)
	if got := string(tags.AppendComponentOpen(nil, "rules")); got != `<component name="rules">` {
		t.Errorf("component: %s", got)
	}
}

func TestAppendAttr(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		if got := string(own.AppendAttr(nil, "n", value)); got != ` n="`+want+`"` {
			t.Errorf("AppendAttr(%q) = %s, want %s", value, got, want)
		}
	}
	f("", "")
	f("Leave policy", "Leave policy")
	f(" a\n\tb\r\n\x00c  d ", "a b c d")
	f(" a", "a")
	f("a ", "a")
	f("a  b", "a b")
	f("a\tb", "a b")
	f("a b", "a b")
	f(`R&D "x" <y> é`, "R&amp;D &quot;x&quot; &lt;y&gt; é")
	f("a\u202eb\U000e0041c", "abc")
	f(`"></source>`, `&quot;&gt;[/source&gt;`)
	f("&lt;source", "[source")
	f("＜source", "[source")
	f("a\xffb", "a\ufffdb")
	f(strings.Repeat("x", 200), strings.Repeat("x", 200))
	f(strings.Repeat("x", 201), strings.Repeat("x", 199)+"…")
	f(strings.Repeat("中", 201), strings.Repeat("中", 199)+"…")
	f(strings.Repeat("x", 192)+"<sourceful house", strings.Repeat("x", 192)+"[source…")
}

// render renders sources and bodies as a rewrite does.
func render(sources []tags.Source, bodies []string, attributes []string) string {
	out := []byte(tags.SourcesOpen + "Cite ids like [1].\n")
	for i, s := range sources {
		out = own.AppendOpen(out, s, attributes)
		out = append(out, '\n')
		body, _ := own.Neutralise(bodies[i], false)
		out = append(out, body...)
		out = append(out, '\n')
		out = append(out, tags.SourceClose...)
	}
	return string(append(out, tags.SourcesClose...))
}

// T01: whatever documents contain, parsing the block back yields the input: the same sources, ids
// in order and bodies, and no other tag.
func TestNoDocumentForgesATag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			n := rapid.IntRange(0, 4).Draw(t, "n")
			sources, bodies := make([]tags.Source, n), make([]string, n)
			for i := range n {
				sources[i] = tags.Source{
					ID: i + 1, Type: "rag", KB: hostile(4).Draw(t, "kb"), Doc: hostile(6).Draw(t, "doc"),
					Name: hostile(8).Draw(t, "name"), Section: hostile(8).Draw(t, "section"),
				}
				bodies[i] = hostile(12).Draw(t, "body")
			}
			block := render(sources, bodies, all)
			got, err := tagstest.ParseSources(block)
			if err != nil || len(got) != n {
				t.Fatalf("read %d of %d sources, %v, from\n%q", len(got), n, err, block)
			}
			for i, s := range got {
				if want, _ := own.Neutralise(bodies[i], false); s.ID != i+1 || s.Body != want {
					t.Fatalf("source %d is %+v, want body %q", i+1, s, want)
				}
			}
			if spans := own.Scan(block); len(spans) != 2*n+2 {
				t.Fatalf("%d tags for %d sources in\n%q", len(spans), n, block)
			}
		}
	})
}

func TestParseSources(t *testing.T) {
	want := []tagstest.Parsed{
		{Source: tags.Source{ID: 1, Type: "rag", KB: "handbook", Doc: "a&b.md", Name: `the "plan"`, Section: "x > y"}, Body: "Take 16 weeks.\n\nOr more."},
		{Source: tags.Source{ID: 2, Type: "rag", KB: "handbook", Doc: "b.md"}, Body: ""},
	}
	block := render([]tags.Source{want[0].Source, want[1].Source}, []string{want[0].Body, ""}, all)
	got, err := tagstest.ParseSources(block)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestParseSourcesRefuses(t *testing.T) {
	for _, s := range []string{
		"", "<sources>", "<sources>\n", "x<sources>\n</sources>\n", "<sources>\n</sources>\nx", "<sources>\n</sources>",
		"<sources>\n<source>\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"0\">\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"01\">\n\n</source>\n</sources>\n",
		"<sources>\n<source id='1'>\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"1\" name=\"a\" type=\"b\">\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"1\" x=\"a\">\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"1\" name=\"a<b\">\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"1\" name=\"a & b\">\n\n</source>\n</sources>\n",
		"<sources>\n<source id=\"1\">\nbody</source>\n</sources>\n",
		"<sources>\n<source id=\"1\">\n</SOURCE>\n</source>\n</sources>\n",
		"<sources>\n<source id=\"1\">\n<source id=\"2\">\n\n</source>\n</sources>\n",
		"<sources>\n</source>\n</sources>\n",
		"<sources>\n<Source id=\"1\">\n</sources>\n",
	} {
		if got, err := tagstest.ParseSources(s); err == nil {
			t.Errorf("ParseSources(%q) = %v", s, got)
		}
	}
}

func FuzzParseSources(f *testing.F) {
	f.Add(render([]tags.Source{{ID: 1, Type: "rag", Name: "a & b"}}, []string{"x < y"}, all))
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tagstest.ParseSources(s)
		if err == nil && own.Count(s) != 2*len(got)+2 {
			t.Errorf("%d sources, %d tags in %q", len(got), own.Count(s), s)
		}
	})
}

func BenchmarkAppendOpen(b *testing.B) {
	s := tags.Source{ID: 1, Type: "rag", KB: "handbook", Doc: "leave.md", Name: "Leave policy", Section: "Parental leave"}
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		own.AppendOpen(dst, s, all)
	}
}
