package server

import (
	"log/slog"
	"path/filepath"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/experiment"
)

// experimentsFolder is the subfolder of the state folder that holds the outcomes of experiments.
const experimentsFolder = "experiments"

// openExperiments opens the outcomes of experiments. They are kept in the state folder, unless nothing
// is kept there or another process already does; then they end with this process. If there is Redis,
// replicas share which turns are of which conversation.
func (e *Engine) openExperiments(keep bool) {
	dir := ""
	if state := e.Config.State; keep && state.Path != config.StateMemory && !state.Follow {
		dir = filepath.Join(state.Path, experimentsFolder)
	}
	e.experiments = experiment.New(dir, func(line string) { e.monitor.Log(slog.LevelWarn, line) })
	e.experiments.Conversations.Shared = e.caches.Units()
	e.experiments.Configure(e.Config.Experiments())
	e.tasks.Start(e.experiments.Run)
}

// experimentNames lists the experiments of a configuration.
func experimentNames(cfg *config.Config) (names []string) {
	for _, of := range cfg.Experiments() {
		names = append(names, of.Name)
	}
	return names
}
