package explain

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// Limits of a single read.
const (
	defaultReadTokens, minReadTokens, MaxReadTokens = 4000, 50, 32_000
	maxReadChunks                                   = 1000
	maxFirst                                        = 1 << 30 // index of a chunk
)

// A ReadPassage selects a document, or a part of it. It is the body of POST /v1/read.
type ReadPassage struct {
	Knowledge string `json:"knowledge"`
	Document  string `json:"document"`
	First     int    `json:"first"`      // first chunk, from 0
	Chunks    *int   `json:"chunks"`     // maximum number; nil: as many as fit
	MaxTokens *int   `json:"max_tokens"` // for all texts together; nil means 4,000
}

// A Reading is the part of a document that was read.
type Reading struct {
	Object     string           `json:"object"` // "knowledge.reading"
	Knowledge  string           `json:"kb_id"`
	Doc        string           `json:"doc_id"`
	Name       string           `json:"name"`
	Attributes map[string]any   `json:"attributes,omitempty"`
	Total      int              `json:"total_chunks,omitempty"` // 0 if the base does not list its documents
	Data       []KnowledgeChunk `json:"data"`
	Tokens     int              `json:"tokens"` // of all texts
	Next       *int             `json:"next"`   // index of the next chunk; null at the end
}

// A KnowledgeChunk is a chunk of a document.
type KnowledgeChunk struct {
	Chunk   int    `json:"chunk"` // its index in the document
	Section string `json:"section,omitempty"`
	Text    string `json:"text"`
	Tokens  int    `json:"tokens"`
	Cut     bool   `json:"cut,omitempty"` // only the beginning fits
}

// Read returns consecutive chunks of a document, as many as fit; of the first one at least the
// beginning. Tokens are counted as by model m. Errors are *tenant.APIError; for a document that
// does not exist or that the viewer may not see, it wraps retrieval.ErrNoHit.
func (k *Knowledge) Read(ctx context.Context, who Viewer, m model.Model, r *ReadPassage) (Reading, error) {
	room, chunks, err := r.check(&who)
	if err != nil {
		return Reading{}, err
	}
	q := retrieval.Query{Tenant: who.Tenant, Filter: who.Filter, Encoding: m.Encoding, Bases: []retrieval.Ref{{Knowledge: r.Knowledge}}}
	list, err := k.Reader.Passage(ctx, q, retrieval.Passage{Knowledge: r.Knowledge, Doc: r.Document, First: r.First, End: r.First + chunks + 1})
	switch {
	case errors.Is(err, retrieval.ErrNoHit):
		return Reading{}, r.missing(err)
	case err != nil:
		return Reading{}, &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: "The document cannot be read.", Err: err}
	}
	out := Reading{Object: "knowledge.reading", Knowledge: r.Knowledge, Doc: r.Document, Data: []KnowledgeChunk{}}
	if k.Stores != nil {
		if s, ok := k.Stores.Store(r.Knowledge); ok {
			f, _ := s.Find(r.Document)
			out.Attributes, out.Total = f.Attributes, f.Chunks
		}
	}
	for i := range list {
		out.Name = list[i].Name
		c := chunkOf(&list[i], m.Counter)
		if i == 0 && c.Tokens > room {
			c.shorten(room, m.Counter)
		}
		if i == chunks || out.Tokens+c.Tokens > room {
			out.Next = &c.Chunk
			break
		}
		out.Data, out.Tokens = append(out.Data, c), out.Tokens+c.Tokens
	}
	return out, nil
}

// check validates r and returns its limits.
func (r *ReadPassage) check(who *Viewer) (tokens, chunks int, err error) {
	if r.Knowledge == "" {
		return 0, 0, optionError("knowledge", "knowledge is missing; name one of %s.", strings.Join(who.Bases, ", "))
	}
	if err := who.mayAsk(r.Knowledge); err != nil {
		return 0, 0, err
	}
	if r.Document == "" {
		return 0, 0, optionError("document", "document is missing; it is the doc_id that a search gives.")
	}
	if r.First < 0 || r.First > maxFirst {
		return 0, 0, optionError("first", "first is %d; it goes from 0 to %d.", r.First, maxFirst)
	}
	if chunks, err = limit("chunks", r.Chunks, maxReadChunks, 1, maxReadChunks); err != nil {
		return 0, 0, err
	}
	tokens, err = limit("max_tokens", r.MaxTokens, defaultReadTokens, minReadTokens, MaxReadTokens)
	return tokens, chunks, err
}

func limit(name string, value *int, otherwise, least, most int) (int, error) {
	if value == nil {
		return otherwise, nil
	}
	if *value < least || *value > most {
		return 0, optionError(name, "%s is %d; it goes from %d to %d.", name, *value, least, most)
	}
	return *value, nil
}

// missing returns the error for a document or chunk that does not exist. It is the same for one
// that the viewer may not see.
func (r *ReadPassage) missing(err error) error {
	e := &tenant.APIError{Reason: rewrite.ReasonOption, Err: err}
	if r.First > 0 {
		e.Param, e.Message = "first", "There is no document of that id in the knowledge base, or it has no such chunk."
	} else {
		e.Param, e.Message = "document", "There is no document of that id in the knowledge base."
	}
	return e
}

func chunkOf(s *retrieval.Source, counter retrieval.Counter) KnowledgeChunk {
	c := KnowledgeChunk{Chunk: s.Chunk, Section: s.Section, Text: s.Text, Tokens: s.Tokens}
	if c.Tokens == 0 {
		c.Tokens, _ = counter.Count(c.Text)
	}
	return c
}

// shorten cuts the text to at most tokens.
func (c *KnowledgeChunk) shorten(tokens int, counter retrieval.Counter) {
	for c.Cut = true; c.Tokens > tokens && c.Text != ""; c.Tokens, _ = counter.Count(c.Text) {
		end := len(c.Text) * 3 / 4
		for end > 0 && !utf8.RuneStart(c.Text[end]) {
			end--
		}
		c.Text = c.Text[:end]
	}
}
