package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
)

// Limits of what an engine returns, in bytes.
const (
	mostText       = 64 << 10
	mostAttributes = 4 << 10 // passed on to tell versions; filters see all
)

// source returns a chunk as a source. Everything from an engine is untrusted: others may write there.
func (e *Engine) source(base string, c *Chunk, encoding string) retrieval.Source {
	src := retrieval.Source{
		Type: "rag", Knowledge: base, Doc: c.Doc, Chunk: c.Ordinal, Name: cmp.Or(retrieval.Line(c.Name), retrieval.Line(c.Doc)), Section: retrieval.Line(c.Section),
		Text: e.text(base, c.Text), Before: e.text(base, c.Before), After: e.text(base, c.After),
	}
	if src.Text == c.Text { // otherwise it was neutralised here, and its tokens were not counted
		src.Tokens = TokensBy(c.Tokens, chunk.CounterName(e.options.Version, encoding))
	}
	if len(c.Sketch) == retrieval.SketchBytes {
		src.Sketch = string(c.Sketch)
	}
	if len(c.Attributes) <= mostAttributes && c.Attributes != "{}" {
		src.Attributes = c.Attributes
	}
	return src
}

// text returns a text as models read it.
func (e *Engine) text(base, text string) string {
	if text == "" {
		return ""
	}
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "")
	}
	return retrieval.TrimLines(e.options.Neutralise(base, strings.ToValidUTF8(text, "�")))
}

// Passage implements retrieval.Reader: the chunks of a document, if the filter lets it pass.
func (e *Engine) Passage(ctx context.Context, q retrieval.Query, p retrieval.Passage) ([]retrieval.Source, error) {
	missing := fmt.Errorf("%s/%s#%d: %w", p.Knowledge, p.Doc, p.First, retrieval.ErrNoHit)
	if e.bases[p.Knowledge] == nil || !slices.Contains(idsOf(q.Bases), p.Knowledge) || p.First < 0 || p.End <= p.First {
		return nil, missing
	}
	if err := e.options.Server.Filterable(p.Knowledge, q.Filter); err != nil {
		return nil, fmt.Errorf("read knowledge %s: %w: %w", p.Knowledge, retrieval.ErrUnavailable, err)
	}
	var chunks []Chunk
	err := e.call(ctx, func(ctx context.Context) (err error) {
		chunks, err = e.options.Server.Passage(ctx, p.Knowledge, p.Doc, p.First, p.End, q.Filter, q.Tenant)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read knowledge %s: %w: %w", p.Knowledge, retrieval.ErrUnavailable, err)
	}
	var list []retrieval.Source
	for i := range chunks {
		c := &chunks[i]
		if c.Doc != p.Doc || !passes(q.Filter, c.Attributes) {
			return nil, missing
		}
		c.Before, c.After = "", ""
		src := e.source(p.Knowledge, c, q.Encoding)
		src.Sketch, src.Attributes = "", ""
		list = append(list, src)
	}
	if len(list) == 0 {
		return nil, missing
	}
	return list, nil
}

// Passage implements retrieval.Reader.
func (b *Base) Passage(ctx context.Context, q retrieval.Query, p retrieval.Passage) ([]retrieval.Source, error) {
	return b.engine.Passage(ctx, q, p)
}

// Explain returns how the result of Retrieve comes about.
func (e *Engine) Explain(ctx context.Context, q retrieval.Query) (retrieval.Explained, error) {
	s := e.begin(&q)
	var err error
	if s.terms, err = e.vocabulary(s.bases).Terms(ctx, &q, e.options.Analysed); err == nil && len(s.terms) > 0 {
		err = s.ask(ctx)
	}
	if err != nil || len(s.terms) == 0 {
		return retrieval.Explained{}, err
	}
	return knowledge.ExplainRank(ctx, &q, s.terms, &s.corpus, s.list, s.request.Vector != nil)
}
