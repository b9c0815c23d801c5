package main

import (
	"context"
	"fmt"
	"slices"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// PartialFailures lists tenants whose requests are refused if some bases fail but relayed if all
// do.
func partialFailureWarnings(cfg *config.Config) (list strictyaml.Problems) {
	for _, name := range cfg.TenantNames() {
		if p, _ := cfg.Tenant(name); p.Rewrite.RefuseOnPartial && !p.Rewrite.RefuseOnFailure {
			list = append(list, strictyaml.Problem{Reason: fmt.Sprintf("tenant %s: on_failure.partial refuses where some bases fail, on_failure.retrieval passes where all do; set retrieval: refuse too", name)})
		}
	}
	return list
}

// Embeddings warns of an embedding service that no base uses, and of embeddings that are paid for
// at each start.
func embeddingWarnings(cfg *config.Config) (list strictyaml.Problems) {
	_, there := config.EmbeddingsUpstream(cfg)
	warn := func(key, reason string) {
		list = append(list, strictyaml.Problem{Place: cfg.Place(key), Key: key, Reason: reason})
	}
	switch embedded := len(config.Embedded(cfg)); {
	case there && len(config.QuestionsEmbedded(cfg)) == 0:
		warn("embeddings", "no base says embed: true, so nothing is embedded")
	case embedded > 0 && cfg.State.Path == config.StateMemory:
		warn("state", "is in memory, so all that is embedded is sent again at each start")
	}
	return list
}

// unknownAttributes lists attributes in filters that no document has. It reads the documents if
// there are filters.
func unknownAttributes(ctx context.Context, cfg *config.Config) (list strictyaml.Problems) {
	if !hasFilters(cfg) {
		return nil
	}
	unread := func(err error) strictyaml.Problem {
		return strictyaml.Problem{Reason: fmt.Sprintf("filters are not compared with documents: %v", err)}
	}
	local := *cfg
	local.Redis = config.Redis{}
	e, err := server.New(ctx, &local, server.Options{})
	if err != nil {
		return strictyaml.Problems{unread(err)}
	}
	defer func() { _ = e.Close() }()
	if err := e.Bases.Index(ctx, nil); err != nil {
		list = append(list, unread(err))
	}
	for _, line := range e.Bases.UnknownAttributes() {
		list = append(list, strictyaml.Problem{Reason: line})
	}
	return list
}

// filters reports whether any tenant has filters.
func hasFilters(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.TenantNames(), func(name config.Name) bool {
		p, _ := cfg.Tenant(name)
		for one := range p.All {
			if one.Rewrite.Filter != nil {
				return true
			}
		}
		return false
	})
}
