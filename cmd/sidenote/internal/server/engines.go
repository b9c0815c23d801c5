package server

import (
	"fmt"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/engine"
)

// An engineOpener opens an engine with the mappings of its bases, by their ids. It does not
// connect.
type engineOpener func(engine.Connection, map[string]engine.Mapping) (engine.Server, error)

// engineOpeners returns the engines that are part of the program, by their names in a
// configuration.
func engineOpeners() map[string]engineOpener {
	return map[string]engineOpener{}
}

// OpenEngine opens the engine of a base, for all bases that share it. It does not connect.
func OpenEngine(cfg *config.Config, name config.Name) (engine.Server, error) {
	kind := cfg.Knowledge[name].Engine
	open, ok := engineOpeners()[kind]
	if !ok {
		return nil, fmt.Errorf("knowledge %s: engine %q is not part of this program", name, kind)
	}
	mappings := map[string]engine.Mapping{}
	for _, base := range cfg.Engines(name) {
		if m, ok := cfg.EngineMapping(base); ok {
			mappings[string(base)] = m
		}
	}
	server, err := open(cfg.EngineConnection(name), mappings)
	if err != nil {
		return nil, fmt.Errorf("knowledge %s: %w", name, err)
	}
	return server, nil
}
