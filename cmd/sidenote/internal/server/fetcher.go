package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/remote"
)

// A Fetcher keeps the mirror of a base that is fetched from elsewhere the same as its source.
type Fetcher struct {
	id      string
	source  config.RemoteSource
	dir     string                 // of the mirror
	instead func() (string, error) // a temporary folder, if dir cannot be written; nil for none
	monitor Monitor

	turn sync.Mutex // held by a fetch

	mu        sync.Mutex // guards the following
	mirror    *remote.Mirror
	open      bool   // the mirror is open; a closed one still has its addresses
	temporary string // the folder to remove at the end; "" for none
	fetching
}

// fetching is the progress of the current fetch and the result of the last one.
type fetching struct {
	running  bool
	runs     int // that have ended
	progress remote.Progress
	report   remote.Report // of the last fetch
	err      error         // of the last fetch
	failed   int           // fetches that failed in a row
	at       time.Time     // when the source was last listed in full; zero for never
	shown    time.Time     // when readable last returned true during a fetch
}

// The waits of a fetcher.
const (
	fetchRetry   = 30 * time.Second // after a failed fetch, doubled after each further one
	readMeantime = time.Minute      // between readings of a mirror that is being filled
)

// NewFetcher returns the fetcher of a base, or nil if it is not fetched from elsewhere.
func NewFetcher(cfg *config.Config, name config.Name, monitor Monitor) *Fetcher {
	source, ok := cfg.RemoteSource(name)
	if !ok {
		return nil
	}
	f := &Fetcher{id: string(name), source: source, dir: cfg.MirrorFolder(name), monitor: monitor}
	if cfg.State.Default || cfg.State.Path == config.StateMemory {
		f.instead = config.TemporaryMirrors
	}
	if cfg.State.Path == config.StateMemory {
		f.dir = ""
	}
	return f
}

// Folder returns the folder of the base with the mirror as its path. It opens the mirror.
func (f *Fetcher) Folder(of folder.Folder) (folder.Folder, error) {
	m, err := f.opened()
	if err != nil {
		return of, err
	}
	of.Path = m.Path()
	if of.Address != nil {
		of.Address = f.address
	}
	return of, nil
}

// address returns the address of a file in the mirror.
func (f *Fetcher) address(file string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mirror.Address(file)
}

// opened returns the mirror, which it opens if that has not been done.
func (f *Fetcher) opened() (*remote.Mirror, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open {
		return f.mirror, nil
	}
	m, err := f.openMirror()
	if err != nil {
		return nil, fmt.Errorf("knowledge %s: %w", f.id, err)
	}
	f.mirror, f.open, f.at = m, true, m.Fetched()
	return m, nil
}

func (f *Fetcher) openMirror() (*remote.Mirror, error) {
	err := error(fs.ErrPermission)
	if f.dir != "" {
		var m *remote.Mirror
		if m, err = remote.OpenMirror(f.dir, f.source.String()); err == nil {
			return m, nil
		}
	}
	if f.instead == nil || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return nil, err
	}
	dir, err := f.instead()
	if err != nil {
		return nil, err
	}
	f.dir, f.temporary = filepath.Join(dir, f.id), dir
	return remote.OpenMirror(f.dir, f.source.String())
}

// Close closes the mirror until the next fetch.
func (f *Fetcher) Close() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open {
		return nil
	}
	f.open = false
	return f.mirror.Close()
}

// remove closes the mirror for good, and removes a temporary one.
func (f *Fetcher) remove() error {
	err := f.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.temporary != "" {
		err = errors.Join(err, os.RemoveAll(f.temporary))
	}
	return err
}

// Problem returns what went wrong in the last fetch, or "".
func (f *Fetcher) Problem() string { return f.state().problem(f.id) }

// Notes lists what the last fetch left out.
func (f *Fetcher) Notes() []string { return f.state().report.Notes }

// Started reports whether there is anything to read: a fetch has ended, or some files were fetched.
func (f *Fetcher) Started() bool {
	m, err := f.opened()
	return err == nil && (!m.Fetched().IsZero() || m.Files() > 0)
}

// readable reports whether the mirror should be read now. While it is fetched, that is once in a while.
func (f *Fetcher) readable() bool {
	if !f.Started() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); !f.running || now.Sub(f.shown) >= readMeantime {
		f.shown = now
		return true
	}
	return false
}

// state returns a copy of the current state.
func (f *Fetcher) state() fetching {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fetching
}

// Fetch fetches what is new. told, which may be nil, gets the progress.
func (f *Fetcher) Fetch(ctx context.Context, told func(remote.Progress)) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	m, err := f.opened()
	if err != nil {
		f.ended(ctx, remote.Report{}, err, time.Time{})
		return err
	}
	f.mu.Lock()
	f.running, f.progress, f.shown = true, remote.Progress{}, time.Now()
	f.mu.Unlock()
	report, err := f.source.Fetch(ctx, m, func(p remote.Progress) {
		f.mu.Lock()
		f.progress = p
		f.mu.Unlock()
		if told != nil {
			told(p)
		}
	})
	if err != nil {
		err = fmt.Errorf("knowledge %s: %s cannot be fetched: %w", f.id, f.source, err)
	}
	f.ended(ctx, report, err, m.Fetched())
	return err
}

// ended notes the result of a fetch, and logs it if that is another one than before.
func (f *Fetcher) ended(ctx context.Context, report remote.Report, err error, at time.Time) {
	f.mu.Lock()
	before := f.fetching
	f.running, f.report, f.err = false, report, err
	if !at.IsZero() {
		f.at = at
	}
	if ctx.Err() != nil {
		f.err = nil // it was stopped, which is not the fault of the source
	} else {
		f.runs++
	}
	if f.failed++; f.err == nil {
		f.failed = 0
	}
	now := f.fetching
	f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	f.monitor.fetched(f.id, now)
	switch was, is := before.problem(f.id), now.problem(f.id); {
	case is != "" && is != was:
		f.monitor.Log(slog.LevelWarn, is)
	case is == "" && was != "":
		f.monitor.Log(slog.LevelInfo, fmt.Sprintf("knowledge %s: %s can be fetched again", f.id, f.source))
	}
}

// problem returns what went wrong in the last fetch, or "".
func (s fetching) problem(id string) string {
	switch failed := s.report.Problem(); {
	case s.err != nil:
		return s.err.Error() + "; what was fetched before stays"
	case failed != "":
		return "knowledge " + id + ": " + failed + "; they stay as they were"
	}
	return ""
}

// run fetches at intervals until ctx ends, and calls changed after each fetch.
func (f *Fetcher) run(ctx context.Context, changed func()) {
	defer func() {
		if err := f.Close(); err != nil {
			f.monitor.Log(slog.LevelWarn, fmt.Sprintf("knowledge %s: %v", f.id, err))
		}
	}()
	for {
		timer := time.NewTimer(f.due(time.Now()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		_ = f.Fetch(ctx, nil) // it was logged
		changed()
	}
}

// due returns the time until the next fetch.
func (f *Fetcher) due(now time.Time) time.Duration {
	m, err := f.opened()
	state := f.state()
	switch {
	case state.failed > 0:
		return min(f.source.Every, fetchRetry<<min(state.failed-1, 10))
	case err != nil || m.Fetched().IsZero():
		return 0
	}
	return max(0, f.source.Every-now.Sub(m.Begun()))
}

// text describes the state for people: "last read 3 min ago; 2 of 812 failed: …".
func (s fetching) text(now time.Time) string {
	line := "never read"
	if !s.at.IsZero() {
		line = "last read " + age(now.Sub(s.at))
	}
	if s.running {
		line = fmt.Sprintf("being fetched, %s of %s", terminal.Thousands(s.progress.Done), terminal.Plural(s.progress.Files, "file")) + "; " + line
	}
	if s.err != nil {
		line += "; " + s.err.Error()
	} else if failed := s.report.Problem(); failed != "" {
		line += "; " + failed
	}
	return line
}

// age formats the time since something happened.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// wire converts the state for the admin port.
func (f *Fetcher) wire() *explain.Source {
	s := f.state()
	r := s.report
	out := &explain.Source{
		Running: s.running, Done: s.progress.Done, Files: s.progress.Files, Bytes: s.progress.Bytes, FetchedAt: admin.Unix(s.at), Text: s.text(time.Now()),
		Commit: r.Commit, Listed: r.Listed, Fetched: r.Fetched, Removed: r.Removed, Failed: r.Failed, Failures: []explain.SourceFailure{}, Notes: append([]string{}, r.Notes...),
	}
	for _, failure := range r.Failures {
		out.Failures = append(out.Failures, explain.SourceFailure(failure))
	}
	if s.err != nil {
		out.Error = s.err.Error()
	}
	return out
}
