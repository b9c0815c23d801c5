package rewrite

import (
	"strings"

	"sidenote/retrieval"
)

// SourceBlocks renders sources as they stand in a prompt, under ids from first on, for a model
// that asked for them. They are whole lines; nothing in them looks like a tag but their own.
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

// Protecting returns the policy with more tags that no text of a document, a question or a
// component may look like: those in which a model calls tools.
func (p Policy) Protecting(names []string) Policy {
	p.Template = p.Template.Protecting(names)
	if p.Digest != "" {
		p.Digest += "+" + strings.Join(names, "+")
	}
	return p
}

// Query is what somebody asks under the policy for a model, without a text.
func (p *Policy) Query(m Model) retrieval.Query {
	q := retrieval.Query{Tenant: p.Tenant, Filter: p.Filter, Encoding: m.Encoding, Settings: p.Search, Bases: make([]retrieval.Ref, len(p.Knowledge))}
	for i, id := range p.Knowledge {
		q.Bases[i].Knowledge = id
	}
	return q
}
