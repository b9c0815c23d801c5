package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/admin"
	"sidenote/proxy/audit"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
)

// A Reloader reloads a configuration. Set its fields before calling its methods. It is safe for
// concurrent use.
type Reloader struct {
	// Load reads the configuration. seen is called with each file and pattern before it is read.
	Load func(seen func(path string)) (*config.Config, error)
	// Check returns an error if a configuration does not fit the open ports of this process.
	Check func(context.Context, *config.Config) error
	// Running returns the running configuration, and Apply replaces it by one that differs in
	// nothing that needs a restart.
	Running func() *config.Config
	Apply   func(context.Context, *config.Config) error
	Log     func(level slog.Level, line string)
	// Record gets the reloads that no request asked for; it may be nil.
	Record func(audit.Event)
	// Panicked handles a panic during a reload; it may be nil.
	Panicked panics.Handler

	reading sync.Mutex // held during a reload
	loaded  uint64     // digest of the files when they were read; guarded by reading

	mu     sync.Mutex // guards the following
	files  []string   // files and patterns of the last reading
	list   int        // incremented when files is replaced
	failed error      // why the last reading changed nothing; nil if it succeeded
	since  time.Time  // when it failed
	good   time.Time  // last success
}

// What caused a reload. A watcher may see a file that is half written.
const (
	byCommand = "asked over the admin port"
	byHangup  = "SIGHUP"
	byWatcher = "a file has changed"
)

// Start reads the configuration for the first time.
func (r *Reloader) Start() (*config.Config, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	cfg, digest, err := r.load()
	r.loaded = digest
	r.note(err)
	return cfg, err
}

// Reload reads the configuration again and returns what has changed. Its error is a
// config.Problems, or says why this process cannot use the configuration; then nothing has
// changed.
func (r *Reloader) Reload(ctx context.Context) (admin.Reloaded, error) {
	return r.reload(ctx, byCommand)
}

func (r *Reloader) reload(ctx context.Context, why string) (admin.Reloaded, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	changed, err := r.read(ctx, why)
	again := r.note(err)
	if r.Record != nil && why != byCommand && (err != nil || why != byWatcher || !none(changed)) {
		e := admin.ReloadEvent(changed, err)
		if e.By = why; err != nil {
			e.Reason = oneLine(err)
		}
		r.Record(e)
	}
	switch {
	case err != nil:
		r.Log(slog.LevelError, fmt.Sprintf("configuration: reload failed (%s), the running one stays in use: %s", why, oneLine(err)))
	case why != byWatcher || again || !none(changed):
		r.Log(slog.LevelInfo, fmt.Sprintf("configuration: read again (%s): %s", why, Summary(changed)))
		for _, p := range r.Running().Expired(time.Now()) {
			r.Log(slog.LevelWarn, p.String())
		}
	}
	return changed, err
}

// errPanic stands for a panic, whose text is only shown in the log.
var errPanic = errors.New("a bug in Sidenote: it panicked; see the log")

// read reads the configuration again and applies it. A panic becomes an error.
func (r *Reloader) read(ctx context.Context, why string) (changed admin.Reloaded, err error) {
	defer panics.Recover(r.Panicked, func() { err = errPanic })
	fresh, digest, err := r.load()
	r.loaded = digest
	if err != nil {
		return admin.Reloaded{}, err
	}
	return r.apply(ctx, fresh, why)
}

// load reads the configuration and records its files.
func (r *Reloader) load() (*config.Config, uint64, error) {
	if path := r.pipe(); path != "" {
		return nil, r.loaded, fmt.Errorf("%s is a pipe, which can be read once only", path)
	}
	var files []string
	read := newDigest() // of each file before it is read, so that a change meanwhile is noticed
	cfg, err := r.Load(func(path string) {
		files = append(files, path)
		read.add(path)
	})
	if len(files) == 0 {
		return cfg, r.digest(), err
	}
	r.mu.Lock()
	r.files = files
	r.list++
	r.mu.Unlock()
	return cfg, read.sum(), err
}

// pipe returns a file of the last reading that is now a pipe, or "".
func (r *Reloader) pipe() string {
	for _, path := range r.seen() {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			return path
		}
	}
	return ""
}

// apply applies a configuration, except what needs a restart.
func (r *Reloader) apply(ctx context.Context, fresh *config.Config, why string) (admin.Reloaded, error) {
	old := r.Running()
	changed, next := changes(old, fresh), config.Running(old, fresh)
	if problems := notYet(next, fresh); len(problems) > 0 {
		return admin.Reloaded{}, problems
	}
	was := func(base config.Name) bool { _, there := old.Knowledge[base]; return there }
	if err := next.CheckFolders(was); err != nil {
		return admin.Reloaded{}, err
	}
	if why == byWatcher && keyed(old) && !keyed(fresh) {
		return admin.Reloaded{}, errors.New("callers without a key would be let in, as by a file that is half written; if that is meant, run sidenote reload")
	}
	if err := r.Check(ctx, next); err != nil {
		return admin.Reloaded{}, err
	}
	return changed, r.Apply(ctx, next)
}

// keyed reports whether every caller needs a key.
func keyed(c *config.Config) bool { return c.Proxy().Tenants.Unknown == nil }

// note records the result of a reading, and reports whether the previous one failed.
func (r *Reloader) note(err error) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	again, r.failed = r.failed != nil, err
	if err != nil {
		r.since = time.Now()
	} else {
		r.good = time.Now()
	}
	return again
}

// Problem says why the last reading changed nothing; "" if it succeeded.
func (r *Reloader) Problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		return ""
	}
	return fmt.Sprintf("configuration: could not be read again at %s, the one from before goes on: %s", r.since.Format(time.DateTime), oneLine(r.failed))
}

// maxShown limits the problems in a line.
const maxShown = 3

// oneLine formats an error on one line, with its first problems only.
func oneLine(err error) string {
	problems, ok := errors.AsType[strictyaml.Problems](err)
	if !ok {
		return strings.Join(strings.Fields(err.Error()), " ")
	}
	var lines []string
	for _, p := range problems[:min(len(problems), maxShown)] {
		lines = append(lines, p.String())
	}
	if more := len(problems) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

func none(c admin.Reloaded) bool { return len(c.Tenants)+len(c.Keys)+len(c.Restart) == 0 }

// maxNamed limits the tenants of each kind that a summary names.
const maxNamed = 10

// Summary describes the changes of a reload on one line.
func Summary(c admin.Reloaded) string {
	var parts []string
	for _, how := range []string{"added", "removed", "changed"} {
		var names []string
		n := 0
		for _, t := range c.Tenants {
			if t.Change != how {
				continue
			}
			if n++; n > maxNamed {
				continue
			}
			name := t.Tenant
			if len(t.Keys) > 0 {
				name += " (" + strings.Join(t.Keys, ", ") + ")"
			}
			names = append(names, name)
		}
		if n > maxNamed {
			names = append(names, fmt.Sprintf("and %d more", n-maxNamed))
		}
		if n > 0 {
			parts = append(parts, "tenants "+how+": "+strings.Join(names, ", "))
		}
	}
	if len(c.Keys) > 0 {
		parts = append(parts, "changed: "+strings.Join(c.Keys, ", "))
	}
	if len(c.Restart) > 0 {
		parts = append(parts, "needs a restart and stays as it was: "+strings.Join(c.Restart, ", "))
	}
	if len(parts) == 0 {
		return "nothing has changed"
	}
	return strings.Join(parts, "; ")
}

// Show adds the result of the last reading to the metrics.
func (r *Reloader) Show(m *report.Metrics) {
	m.Watch("config_last_reload_successful", "1 if the configuration was good when it was read for the last time; 0 while an older one goes on.", nil, false, r.Successful)
	m.Watch("config_last_reload_success_timestamp_seconds", "When the configuration was good for the last time, Unix time.", nil, false, r.LastGood)
}

// Successful returns 1 if the last reading succeeded, else 0.
func (r *Reloader) Successful() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return 0
	}
	return 1
}

// LastGood returns the time of the last success, in Unix seconds.
func (r *Reloader) LastGood() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.good.UnixMilli()) / 1e3
}

// Serve reloads the configuration on each signal from hangups and when one of its files changes,
// until ctx ends.
func (r *Reloader) Serve(ctx context.Context, hangups <-chan os.Signal) {
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx) })
	defer watching.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-hangups:
			if !ok {
				hangups = nil
				continue
			}
			_, _ = r.reload(ctx, byHangup) // errors are logged
		}
	}
}
