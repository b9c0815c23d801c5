package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
)

// deadline exceeds the duration of any search, so that none is cut short.
const searchDeadline = time.Minute

// An evalSubject is what the queries search, without caches.
type evalSubject struct {
	Bases     []string // empty: only the documents of the collection
	Documents []eval.Document
	Engines   []*engine.Base // bases that one engine has; Documents has only those of their documents that find found
	Held      int            // documents in them
	Chunks    int
	Index     time.Duration // time to index them; 0 if they were not indexed
	Settings  retrieval.Settings

	Policy  string             // whose stages answer; "" for the defaults
	Vectors int                // chunks that have one
	Embeds  bool               // whether all chunks should have one
	Tokens  int                // of all chunks, approximately, if they are embedded
	Weights map[string]float64 // weights of vectors, by base that has some
	Stages  []string
	Used    *evalUsage // nil without a policy

	query            retrieval.Query
	ranking, request retrieval.Retriever
	alone            []eval.Stage // all Stages but the last, which is ranking
	planning         func(said []string) *retrieval.Planning
	reranking        func() *retrieval.Reranking
	grading          func() *retrieval.Grading
}

// scratchBase is the id of the base of a collection's documents.
const scratchBase = "eval"

// scratchSubject indexes the documents of a collection in memory, as serve indexes a folder. They are
// searched as by requests of the default policy.
func scratchSubject(ctx context.Context, documents []eval.Document, show *terminal.Progress) (*evalSubject, error) {
	start := time.Now()
	reader, err := server.NewReader("")
	if err != nil {
		return nil, err
	}
	content, err := indexDocuments(ctx, documents, reader, show)
	if err != nil {
		return nil, err
	}
	base := knowledge.New(scratchBase)
	base.Swap(content)
	analysed := new(analysis.Recent)
	prepared := func(next retrieval.Retriever) retrieval.Retriever {
		ref := func(id string) (retrieval.Ref, bool) { return base.Ref(), id == scratchBase }
		return &retrieval.Prepare{Next: next, Ref: ref, HasTerms: analysed.HasTerms, Join: followup.Join}
	}
	s := &evalSubject{
		Documents: documents, Chunks: content.Chunks(), Index: time.Since(start), Settings: retrieval.DefaultSettings(),
		ranking: prepared(base),
		request: prepared(&retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return base }, Terms: analysed.Terms}),
	}
	s.ask(retrieval.Query{Bases: []retrieval.Ref{{Knowledge: scratchBase}}})
	return s, nil
}

// indexDocuments indexes documents in memory.
func indexDocuments(ctx context.Context, documents []eval.Document, reader *server.Reader, show *terminal.Progress) (*knowledge.Content, error) {
	all := make([]chunk.Document, len(documents))
	for i, d := range documents {
		// BEIR searches title and text as one, so a document without text is found by its title.
		all[i] = chunk.Document{ID: d.ID, Name: d.Title, Text: cmp.Or(d.Text, d.Title)}
	}
	deps := reader.Deps()
	deps.Progress = func(p folder.Progress) {
		show.Show(terminal.Work{Name: "indexing", Done: p.Done, Total: p.Files, Unit: "documents", Note: terminal.Plural(p.Chunks, "chunk")})
	}
	content, _, err := knowledge.FromDocuments(ctx, all, deps)
	if ctx.Err() != nil {
		return nil, errors.New("stopped while the documents were being indexed")
	}
	return content, err
}

// subjectOfBases returns the bases of a policy in e as a subject. They are searched as by the policy's
// requests; model stands for the request's model if the planner uses that. Bases in vector stores
// are an error, because their documents are not listed.
func subjectOfBases(ctx context.Context, e *server.Engine, policy tenant.Policy, model string, used *evalUsage) (*evalSubject, error) {
	p := policy.Rewrite
	s := &evalSubject{Bases: p.Knowledge, Settings: p.Search, Policy: policy.Name, Used: used}
	q := retrieval.Query{Tenant: p.Tenant, Filter: p.Filter}
	for _, id := range p.Knowledge {
		if base := e.Bases.InEngine(id); base != nil {
			if err := s.addEngineBase(ctx, e, base); err != nil {
				return nil, err
			}
			q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
			continue
		}
		content := server.Content(e, id)
		if content == nil {
			return nil, fmt.Errorf("knowledge %s: its documents are not here, so nobody can tell which are right; choose other bases by --knowledge", id)
		}
		if err := s.count(ctx, e, id, content); err != nil {
			return nil, err
		}
		for i := range content.Documents() {
			held := content.DocumentAt(i)
			s.Documents = append(s.Documents, eval.Document{ID: s.named(id, held.ID), Title: held.Name})
		}
		q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
	}
	if n := len(s.Engines); n > 0 && n < len(p.Knowledge) {
		return nil, fmt.Errorf("knowledge %s is in an engine and others are not, so they are ranked apart; choose bases of one kind by --knowledge", s.Engines[0].ID())
	}
	s.ask(q)
	return s, s.stage(e, p, model)
}

// Several reports whether there are several bases; document ids then begin with the base.
func (s *evalSubject) Several() bool { return len(s.Bases) > 1 }

// named returns the id of a document among those of all bases.
func (s *evalSubject) named(base, doc string) string {
	if s.Several() {
		return base + "/" + doc
	}
	return doc
}

// naming wraps a retriever so that its document ids are those of Documents.
func (s *evalSubject) naming(next retrieval.Retriever) retrieval.Retriever {
	if !s.Several() {
		return next
	}
	return retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		res, err := next.Retrieve(ctx, q)
		found := res.Sources
		res.Sources = make([]retrieval.Source, len(found)) // the found slice may be in use elsewhere
		for i, src := range found {
			src.Doc = s.named(src.Knowledge, src.Doc)
			res.Sources[i] = src
		}
		return res, err
	})
}

// ask makes q the template of all queries.
func (s *evalSubject) ask(q retrieval.Query) {
	q.Encoding, q.Settings = server.ChunkEncoding, s.Settings
	q.Settings.Deadline = searchDeadline
	s.query = q
}

// Trial returns a trial that asks the queries of a collection. It shows how many of all queries
// were asked; of is their unit.
func (s *evalSubject) Trial(show *terminal.Progress, all int, of string) eval.Trial {
	return eval.Trial{
		Engine: s.ranking, Request: s.request, Query: s.query, Stages: s.alone, Planning: s.planning, Reranking: s.reranking, Grading: s.grading,
		Progress: func(done int) {
			show.Show(terminal.Work{Name: "asking", Done: done, Total: all, Unit: of})
		},
	}
}

// String lists the bases.
func (s *evalSubject) String() string { return strings.Join(s.Bases, ", ") }
