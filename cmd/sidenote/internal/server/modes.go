package server

import (
	"fmt"
	"log/slog"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/knowledge/store"
)

// openModes opens the kill switch. Its modes are kept in the state folder, unless this process may
// not write there.
func (e *Engine) openModes() {
	dir, keeper := e.Config.State.Path, (*tenant.SwitchStore)(nil)
	if dir != config.StateMemory && !e.Config.State.Follow {
		keeper = &tenant.SwitchStore{
			Read:  func() ([]byte, error) { return store.ReadModes(dir) },
			Write: func(data []byte) error { return store.WriteModes(dir, data) },
		}
	}
	modes, err := tenant.NewSwitch(keeper, func(line string) { e.monitor.Log(slog.LevelWarn, line) })
	if err != nil {
		e.lostModes = err
		failed := store.SetModesAside(dir)
		if e.modesAside = failed == nil; failed != nil {
			e.lostModes = fmt.Errorf("%w; %w", err, failed)
		}
	}
	e.modes = modes
	if line := e.lost(); line != "" {
		e.monitor.Log(slog.LevelWarn, line)
	}
	e.tasks.Start(modes.Run)
	e.Metrics.WatchTenants("mode_switched", "1 while the kill switch holds the mode of a tenant below that of its policy.", func(tenant string) float64 {
		p, ok := e.Running().Tenant(config.Name(tenant))
		if !ok {
			return 0
		}
		if _, from := p.Limited(modes, time.Now()); from == "" {
			return 0
		}
		return 1
	})
}

// lost reports that modes set before a start could not be read, until the damaged file is removed;
// "" if none are lost.
func (e *Engine) lost() string {
	const line = "mode: what was set before the start is lost, so the policies decide"
	dir := e.Config.State.Path
	if dir == config.StateMemory || e.Config.State.Follow {
		return ""
	}
	aside := store.ModesAside(dir)
	switch {
	case aside != "" && e.lostModes != nil:
		return fmt.Sprintf("%s: %v; the file is kept as %s: remove it when the modes are set again", line, e.lostModes, aside)
	case aside != "":
		return fmt.Sprintf("%s: %s is damaged; remove it when the modes are set again", line, aside)
	case e.lostModes == nil || e.modesAside:
		return ""
	}
	if data, err := store.ReadModes(dir); err != nil || data != nil { // the folder may have been replaced
		return fmt.Sprintf("%s: %v", line, e.lostModes)
	}
	return ""
}

// switched lists the modes set by the kill switch, a line each.
func (e *Engine) switched() (lines []string) {
	if e.modes == nil {
		return nil
	}
	if line := e.lost(); line != "" {
		lines = append(lines, line)
	}
	for _, entry := range e.modes.Entries(time.Now()) {
		lines = append(lines, "mode: "+entry.String())
	}
	if err := e.modes.PersistError(); err != nil {
		lines = append(lines, "mode: what is set ends with this process: "+err.Error())
	}
	return lines
}
