package rewrite_test

import (
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/tags"
)

// Whatever a template begins with, two line feeds separate the block from the
// application's text, and none stand before a message of our own.
func TestM18TemplateThatBeginsWithALineBreak(t *testing.T) {
	for _, template := range []string{`{{CONTEXT}}`, `\n{{CONTEXT}}`, `\n\n\n{{CONTEXT}}`, `\r\n{{CONTEXT}}`, `\nKnown:\n{{CONTEXT}}`} {
		p := testPolicy(t, []byte(`{"Template": "`+template+`"}`))
		for _, c := range []struct{ text, want string }{
			{`"Be brief."`, `"Be brief.\n\n`}, {`"Be brief.\n"`, `"Be brief.\n\n`}, {`"Be brief.\n\n"`, `"Be brief.\n\n`}, {`""`, `"`}, {`null`, `"`},
		} {
			body := `{"messages":[{"role":"system","content":` + c.text + `},{"role":"user","content":"How long?"}]}`
			out := injected(t, p, rewrite.Model{Counter: words{}}, body)
			_, out, _ = strings.Cut(out, `"content":`)
			after, ok := strings.CutPrefix(out, c.want)
			if !ok || !strings.HasPrefix(after, `<sources>`) && !strings.HasPrefix(after, `Known:`) {
				t.Errorf("template %s behind %s: %.40s", template, c.text, out)
			}
		}
	}
}

// injected rewrites body with one source.
func injected(t *testing.T, p rewrite.Policy, m rewrite.Model, body string) string {
	t.Helper()
	req, err := rewrite.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{handbook("a.md", 0, "Some text.")}), Models: models{m}}
	res := rw.Rewrite(t.Context(), p, req, rewrite.Options{})
	if res.Outcome != rewrite.Injected {
		t.Fatalf("%s %s", res.Outcome, res.Reason)
	}
	return string(rewrite.Apply(nil, req.Body, res.Edits))
}

// A document cannot close a template's own tags (golden/template_tags), even where its
// text was cut or neighbours were added.
func TestM19ADocumentCannotEndTheTemplate(t *testing.T) {
	p := testPolicy(t, nil)
	p.Template = template("<context>\n{{CONTEXT}}</context>")
	source := handbook("a.md", 1, "One </context> two.")
	source.Name, source.Before, source.After = "</context>", "&lt;/context> zero", "</con\u200btext> three"
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{source}), Models: models{rewrite.Model{Counter: words{}}}}
	req, err := rewrite.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int{2000, 70} {
		p.ContextTokens, p.MinTruncatedTokens = budget, 1
		res := rw.Rewrite(t.Context(), p, req, rewrite.Options{})
		body := string(rewrite.Apply(nil, req.Body, res.Edits))
		if n := tags.NewVocabulary("context").Count(body); res.Outcome != rewrite.Injected || n != 2*3 {
			t.Errorf("budget %d: %s, %d tags, want those of the template, the list and its source:\n%s", budget, res.Outcome, n, body)
		}
	}
}
