package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/eval"
)

// addEngineBase adds a base in an engine to the subject. The engine does not list its documents, see
// find.
func (s *evalSubject) addEngineBase(ctx context.Context, e *server.Engine, base *engine.Base) error {
	if len(s.Engines) > 0 && s.Engines[0].Engine() != base.Engine() {
		return fmt.Errorf("knowledge %s and %s are in different engines, which are ranked apart; choose bases of one by --knowledge", s.Engines[0].ID(), base.ID())
	}
	if err := base.Refresh(ctx); err != nil {
		return fmt.Errorf("knowledge %s: %w", base.ID(), err)
	}
	state := base.State()
	if state.Generation == "" {
		return e.Bases.WhyUnavailable([]string{base.ID()}, fmt.Errorf("knowledge %s: %w", base.ID(), retrieval.ErrUnavailable))
	}
	s.Engines = append(s.Engines, base)
	s.Held, s.Chunks = s.Held+state.Documents, s.Chunks+state.Chunks
	if slices.Contains(config.QuestionsEmbedded(e.Config), config.Name(base.ID())) {
		s.Embeds, s.Vectors = true, s.Vectors+state.Embedded
	}
	return nil
}

// find adds the documents with some ids to those of the subject, as far as engines have them.
func (s *evalSubject) find(ctx context.Context, ids []string) error {
	if len(s.Engines) == 0 {
		return nil
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	seen := map[string]bool{}
	for _, id := range slices.Compact(ids) {
		if eval.IsPattern(id) {
			return usageError{fmt.Errorf("%q is a pattern, but engines do not list the documents of %s; write ids, a row each", id, s)}
		}
		for _, base := range s.Engines {
			doc := id
			if s.Several() {
				doc = strings.TrimPrefix(id, base.ID()+"/")
			}
			if named := s.named(base.ID(), doc); !seen[named] {
				seen[named] = true
				if err := s.findOne(ctx, base, doc); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// findOne adds a document of a base, if it has it.
func (s *evalSubject) findOne(ctx context.Context, base *engine.Base, doc string) error {
	q := retrieval.Query{Tenant: s.query.Tenant, Encoding: s.query.Encoding, Bases: []retrieval.Ref{{Knowledge: base.ID()}}}
	chunks, err := base.Passage(ctx, q, retrieval.Passage{Knowledge: base.ID(), Doc: doc, First: 0, End: 1})
	if errors.Is(err, retrieval.ErrNoHit) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Documents = append(s.Documents, eval.Document{ID: s.named(base.ID(), doc), Title: chunks[0].Name})
	return nil
}
