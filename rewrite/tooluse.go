package rewrite

import (
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/model"
)

// SourceBlocks renders sources as in a prompt, with ids counting from first, for a model that
// searched by a tool call. It returns whole lines with no other tags than the sources' own.
func (p *Policy) SourceBlocks(sources []retrieval.Source, first int) string {
	var b strings.Builder
	for i := range sources {
		block := newBlock(&sources[i], first+i, p)
		b.WriteString(block.head)
		b.WriteString(block.body)
		b.WriteString(p.Delimiters().SourceClose)
	}
	return b.String()
}

// Protecting returns the policy with more tag names that documents, questions and components must
// not imitate: those of the model's tool call syntax.
func (p Policy) Protecting(names []string) Policy {
	p.Template = p.Template.Protecting(names)
	if p.Digest != "" {
		p.Digest += "+" + strings.Join(names, "+")
	}
	return p
}

// Query returns a query with the policy's settings for a model, without a text.
func (p *Policy) Query(m model.Model) retrieval.Query {
	q := retrieval.Query{Tenant: p.Tenant, Filter: p.Filter, Encoding: m.Encoding, Settings: p.Search, Bases: make([]retrieval.Ref, len(p.Knowledge))}
	for i, id := range p.Knowledge {
		q.Bases[i].Knowledge = id
	}
	return q
}
