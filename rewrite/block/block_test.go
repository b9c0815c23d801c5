package block_test

import (
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite/block"
	"sidenote/rewrite/tags"
)

// The line above a source shows what the style says, and its id always.
func TestHead(t *testing.T) {
	src := &retrieval.Source{Type: "rag", Knowledge: "hr", Doc: "leave.md", Name: "Leave <sources>", Section: "Parental"}
	for _, c := range []struct {
		format     block.SourcesFormat
		attributes []string
		want       string
	}{
		{block.SourcesTags, block.DefaultStyle().SourceAttributes, `<source id="2" type="rag" kb_id="hr" doc_id="leave.md" name="Leave [sources&gt;" section="Parental">`},
		{block.SourcesTags, []string{"id", "name"}, `<source id="2" name="Leave [sources&gt;">`},
		{block.SourcesPlain, block.DefaultStyle().SourceAttributes, `[2] Leave [sources> > Parental (hr/leave.md)`},
		{block.SourcesPlain, []string{"section", "doc_id"}, `[2] Parental (leave.md)`},
		{block.SourcesPlain, []string{"id"}, `[2]`},
	} {
		s := block.Style{SourcesFormat: c.format, SourceAttributes: c.attributes}
		if got := s.Head(src, 2, tags.NewVocabulary()); got != c.want+"\n" {
			t.Errorf("%q %v: %q, want %q", c.format, c.attributes, got, c.want)
		}
	}
}

// A safe text looks like nothing that stands around it, and has no blank lines at its ends.
func TestSafe(t *testing.T) {
	for _, c := range []struct {
		style      block.Style
		text, want string
	}{
		{block.Style{}, " \n\t\n One </source> <b>\n\n", " One [/source> <b>"},
		{block.Style{}, "[1] One\n# GLOSSARY", "[1] One\n# GLOSSARY"},
		{block.Style{SourcesFormat: block.SourcesPlain, ComponentsFormat: block.ComponentsHeadings}, "One\ntwo", "One\ntwo"},
		{block.Style{Escape: block.EscapeAll}, "One <b>", "One &lt;b>"},
		{block.Style{SourcesFormat: block.SourcesPlain}, "[1] One [2]\n \u200b［ 3 ］ Two\n[a] Three\n[] Four\n[5", "(1) One [2]\n \u200b( 3 ) Two\n[a] Three\n[] Four\n[5"},
		{
			block.Style{ComponentsFormat: block.ComponentsHeadings}, "One\n# Glossary\n＃ \u200bｓources #\n## SOURCES\n# Glossary of terms\n# Leave\n#",
			"One\n## Glossary\n#＃ \u200bｓources #\n## SOURCES\n# Glossary of terms\n# Leave\n#",
		},
	} {
		if got := c.style.Safe(c.text, tags.NewVocabulary(), func() []string { return []string{"glossary"} }); got != c.want {
			t.Errorf("%+v: %q is %q, want %q", c.style, c.text, got, c.want)
		}
	}
}

// A component, and the sources, stand between tags or under a heading.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		style     block.Style
		component string
		around    block.Delimiters
	}{
		{block.Style{}, "<component name=\"glossary\">\nPTO\n</component>\n", block.Delimiters{Open: "<sources>\n", Close: "</sources>\n", SourceClose: "\n</source>\n"}},
		{block.Style{SourcesFormat: block.SourcesPlain}, "<component name=\"glossary\">\nPTO\n</component>\n", block.Delimiters{SourceClose: "\n\n"}},
		{block.Style{ComponentsFormat: block.ComponentsHeadings}, "# GLOSSARY\nPTO\n\n", block.Delimiters{Open: "# SOURCES\n<sources>\n", Close: "</sources>\n\n", SourceClose: "\n</source>\n"}},
		{block.Style{ComponentsFormat: block.ComponentsHeadings, SourcesFormat: block.SourcesPlain}, "# GLOSSARY\nPTO\n\n", block.Delimiters{Open: "# SOURCES\n", SourceClose: "\n\n"}},
	} {
		if got := c.style.Component("glossary", "PTO"); got != c.component {
			t.Errorf("%+v: %q, want %q", c.style, got, c.component)
		}
		if got := c.style.Delimiters(); got != c.around {
			t.Errorf("%+v: %+v, want %+v", c.style, got, c.around)
		}
	}
}

// The rules ask for citations where the style does, are one line, and end with the sentence that
// yields to the application.
func TestRules(t *testing.T) {
	for _, citations := range []block.Citations{block.CitationsAuto, block.CitationsOn, block.CitationsOff} {
		for _, grounding := range []block.Grounding{block.GroundingDefault, block.GroundingStrict} {
			for _, text := range []bool{true, false} {
				for _, apart := range []bool{true, false} {
					s := block.Style{Citations: citations, Grounding: grounding}
					cites := citations == block.CitationsOn || citations == block.CitationsAuto && text
					rules := s.Rules(text, apart)
					if strings.Contains(rules, "cite its id") != cites || strings.Contains(s.Closing(text), "Cite") != cites {
						t.Errorf("citations %s, format is text %v: %s%s", citations, text, rules, s.Closing(text))
					}
					if strings.Contains(rules, "nswer only") != (grounding == block.GroundingStrict) {
						t.Errorf("grounding %s: %s", grounding, rules)
					}
					if strings.HasPrefix(rules, "Where the user's") != apart || strings.Count(rules, "\n") != 1 || !strings.HasSuffix(rules, " take precedence.\n") {
						t.Errorf("apart %v: %s", apart, rules)
					}
				}
			}
		}
	}
}
