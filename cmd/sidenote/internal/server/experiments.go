package server

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/experiment"
)

// experimentsFolder is the subfolder of the state folder that holds the outcomes of experiments.
const experimentsFolder = "experiments"

// openExperiments opens the outcomes of experiments. They are kept in the state folder, unless nothing
// is kept there; as long as another process keeps its own there, they are in memory. If there is Redis,
// replicas share which turns are of which conversation.
func (e *Engine) openExperiments(keep bool) {
	dir := ""
	if state := e.Config.State; keep && state.Path != config.StateMemory && !state.Follow {
		dir = filepath.Join(state.Path, experimentsFolder)
	}
	e.experiments = experiment.New(dir, func(line string) { e.monitor.Log(slog.LevelWarn, line) })
	all := e.Config.Experiments()
	if e.caches.DB != nil {
		units := sharedUnits{sync.OnceValue(e.caches.Units)}
		if len(all) > 0 {
			units.open() // Redis is used once it has answered
		}
		e.experiments.Conversations.Shared = units
	}
	e.experiments.Configure(all)
	e.tasks.Start(e.experiments.Run)
}

// sharedUnits is an experiment.Shared that is opened by its first use, as most configurations have no
// experiment.
type sharedUnits struct {
	open func() *cache.History[experiment.Key]
}

// Each implements experiment.Shared.
func (s sharedUnits) Each(ctx context.Context, tenant, access string, ids []string, do func(i int, unit experiment.Key) bool) {
	s.open().Each(ctx, tenant, access, ids, do)
}

// Keep implements experiment.Shared.
func (s sharedUnits) Keep(ctx context.Context, tenant, access, id string, unit experiment.Key) {
	s.open().Keep(ctx, tenant, access, id, unit)
}

// experimentNames lists the experiments of a configuration.
func experimentNames(cfg *config.Config) (names []string) {
	for _, of := range cfg.Experiments() {
		names = append(names, of.Name)
	}
	return names
}
