package rewrite_test

import (
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/tags"
)

// The line above a source shows what the style requires, and always the id.
func TestHead(t *testing.T) {
	src := &retrieval.Source{Type: "rag", Knowledge: "hr", Doc: "leave.md", Name: "Leave <sources>", Section: "Parental"}
	for _, c := range []struct {
		format     rewrite.SourcesFormat
		attributes []string
		want       string
	}{
		{rewrite.SourcesTags, rewrite.DefaultStyle().SourceAttributes, `<source id="2" type="rag" kb_id="hr" doc_id="leave.md" name="Leave [sources&gt;" section="Parental">`},
		{rewrite.SourcesTags, []string{"id", "name"}, `<source id="2" name="Leave [sources&gt;">`},
		{rewrite.SourcesPlain, rewrite.DefaultStyle().SourceAttributes, `[2] Leave [sources> > Parental (hr/leave.md)`},
		{rewrite.SourcesPlain, []string{"section", "doc_id"}, `[2] Parental (leave.md)`},
		{rewrite.SourcesPlain, []string{"id"}, `[2]`},
	} {
		s := rewrite.Style{SourcesFormat: c.format, SourceAttributes: c.attributes}
		if got := s.Head(src, 2, tags.NewVocabulary()); got != c.want+"\n" {
			t.Errorf("%q %v: %q, want %q", c.format, c.attributes, got, c.want)
		}
	}
}

// Safe text does not imitate the markup around it, and has no blank lines at its ends.
func TestSafe(t *testing.T) {
	for _, c := range []struct {
		style      rewrite.Style
		text, want string
	}{
		{rewrite.Style{}, " \n\t\n One </source> <b>\n\n", " One [/source> <b>"},
		{rewrite.Style{}, "[1] One\n# GLOSSARY", "[1] One\n# GLOSSARY"},
		{rewrite.Style{SourcesFormat: rewrite.SourcesPlain, ComponentsFormat: rewrite.ComponentsHeadings}, "One\ntwo", "One\ntwo"},
		{rewrite.Style{Escape: rewrite.EscapeAll}, "One <b>", "One &lt;b>"},
		{rewrite.Style{SourcesFormat: rewrite.SourcesPlain}, "[1] One [2]\n \u200b［ 3 ］ Two\n[a] Three\n[] Four\n[5", "(1) One [2]\n \u200b( 3 ) Two\n[a] Three\n[] Four\n[5"},
		{
			rewrite.Style{ComponentsFormat: rewrite.ComponentsHeadings}, "One\n# Glossary\n＃ \u200bｓources #\n## SOURCES\n# Glossary of terms\n# Leave\n#",
			"One\n## Glossary\n#＃ \u200bｓources #\n## SOURCES\n# Glossary of terms\n# Leave\n#",
		},
	} {
		if got := c.style.Safe(c.text, tags.NewVocabulary(), func() []string { return []string{"glossary"} }); got != c.want {
			t.Errorf("%+v: %q is %q, want %q", c.style, c.text, got, c.want)
		}
	}
}

// Components and sources are enclosed in tags or preceded by a heading.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		style     rewrite.Style
		component string
		around    rewrite.Delimiters
	}{
		{rewrite.Style{}, "<component name=\"glossary\">\nPTO\n</component>\n", rewrite.Delimiters{Open: "<sources>\n", Close: "</sources>\n", SourceClose: "\n</source>\n"}},
		{rewrite.Style{SourcesFormat: rewrite.SourcesPlain}, "<component name=\"glossary\">\nPTO\n</component>\n", rewrite.Delimiters{SourceClose: "\n\n"}},
		{rewrite.Style{ComponentsFormat: rewrite.ComponentsHeadings}, "# GLOSSARY\nPTO\n\n", rewrite.Delimiters{Open: "# SOURCES\n<sources>\n", Close: "</sources>\n\n", SourceClose: "\n</source>\n"}},
		{rewrite.Style{ComponentsFormat: rewrite.ComponentsHeadings, SourcesFormat: rewrite.SourcesPlain}, "# GLOSSARY\nPTO\n\n", rewrite.Delimiters{Open: "# SOURCES\n", SourceClose: "\n\n"}},
	} {
		if got := c.style.Component("glossary", "PTO"); got != c.component {
			t.Errorf("%+v: %q, want %q", c.style, got, c.component)
		}
		if got := c.style.Delimiters(); got != c.around {
			t.Errorf("%+v: %+v, want %+v", c.style, got, c.around)
		}
	}
}

// The rules ask for citations if the style does, are one line, and end with the sentence that
// yields to the application.
func TestRules(t *testing.T) {
	for _, citations := range []rewrite.Citations{rewrite.CitationsAuto, rewrite.CitationsOn, rewrite.CitationsOff} {
		for _, grounding := range []rewrite.Grounding{rewrite.GroundingDefault, rewrite.GroundingStrict} {
			for _, text := range []bool{true, false} {
				for _, apart := range []bool{true, false} {
					s := rewrite.Style{Citations: citations, Grounding: grounding}
					cites := citations == rewrite.CitationsOn || citations == rewrite.CitationsAuto && text
					rules := s.Rules(text, apart)
					if strings.Contains(rules, "cite its id") != cites || strings.Contains(s.Closing(text), "Cite") != cites {
						t.Errorf("citations %s, format is text %v: %s%s", citations, text, rules, s.Closing(text))
					}
					if strings.Contains(rules, "nswer only") != (grounding == rewrite.GroundingStrict) {
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
