package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A stateFolder is a process's access to its state folder. A process that serves goes on without
// the folder if it cannot be opened.
type stateFolder struct {
	cfg      *atomic.Pointer[config.Config] // the running configuration
	options  Options
	reader   *Reader
	library  *library.Library // the bases in it; nil if not needed
	obstacle obstacle         // why it cannot be written
	view     *storeView
	group    *knowledge.Group // of the bases that are searched
	monitor  Monitor

	embedding *EmbeddingService // nil without embeddings
}

// open opens the state folder if it is needed.
func (s *stateFolder) open(ctx context.Context) error {
	state := s.cfg.Load().State
	if !s.options.Keep && len(s.folderless()) == 0 && s.embedding == nil {
		return nil
	}
	options := library.Options{Address: s.options.Address, Changed: s.noteChange, Trouble: s.noteTrouble, Wanted: s.asConfigured}
	if s.embedding != nil {
		options.Space, options.Questions = s.embedding.Space, s.embedding.Client
	}
	deps, err := s.reader.stateDeps(s.options.Keep && !state.Follow)
	if err != nil {
		return err
	}
	deps.Workers = (runtime.GOMAXPROCS(0) + 1) / 2 // the others are for requests
	if s.library, err = library.New(ctx, state.Path, deps, options); err != nil {
		return err
	}
	if !s.options.Keep {
		err := s.library.Open(ctx, s.options.Vectors)
		if s.options.Vectors {
			if err != nil {
				return fmt.Errorf("state: %w", err)
			}
			return nil
		}
		err = StateError(err, state, false)
		if err != nil && len(s.folderless()) == 0 { // it would only supply vectors
			s.monitor.Log(slog.LevelWarn, err.Error())
			return nil
		}
		return err
	}
	s.improve(ctx)
	why := s.obstacle.why()
	if newer := (*store.SchemaError)(nil); errors.As(why, &newer) && newer.Have > newer.Know && !state.Follow {
		return s.openBeside(ctx, fmt.Sprintf("%s-schema%d", state.Path, newer.Know), deps, options)
	}
	if s.library.Standing() != library.NotOpen || !state.Default || state.Follow || !errors.Is(why, fs.ErrPermission) && !errors.Is(why, syscall.EROFS) {
		return nil
	}
	s.monitor.Log(slog.LevelWarn, fmt.Sprintf("knowledge is kept in memory only and lost at a restart: %v; choose a folder with --state", why))
	inMemory, err := library.Open(ctx, store.Memory, deps, options)
	if err != nil {
		return err
	}
	s.obstacle.set(nil)
	err = s.library.Close()
	s.library = inMemory
	return err
}

// openBeside opens another folder, as a newer release wrote the configured one: after a downgrade
// folders of documents are read again, and what was put over the admin port is missing.
func (s *stateFolder) openBeside(ctx context.Context, dir string, deps knowledge.Deps, options library.Options) error {
	s.monitor.Log(slog.LevelWarn, fmt.Sprintf("state: %v; until then knowledge is in %s", s.obstacle.why(), dir))
	beside, err := library.New(ctx, dir, deps, options)
	if err != nil {
		return err
	}
	err = s.library.Close()
	s.library = beside
	s.improve(ctx)
	return err
}

// StateError adds advice to an error of a state folder. keep says whether the process serves bases
// from the folder.
func StateError(err error, state config.State, keep bool) error {
	var locked *store.LockedError
	var damaged *store.CorruptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damaged) && keep:
		return fmt.Errorf("state: %w; bring a backup back, or move the folder away: folders of documents are then read again, only what was put over the admin port is lost", err)
	case errors.As(err, &locked):
		return fmt.Errorf("state: %w; this one follows it and takes over when it has ended", err)
	case errors.Is(err, fs.ErrNotExist) && keep:
		return fmt.Errorf("state: %s: there is nothing to follow yet; start the one that writes it first", state.Path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("state: %s holds no knowledge yet; for a folder of documents write --knowledge ./PATH", state.Path)
	}
	return fmt.Errorf("state: %w", err)
}

// folderless lists the configured embedded bases without a folder of documents.
func (s *stateFolder) folderless() (ids []string) {
	for _, name := range s.cfg.Load().KnowledgeNames() {
		if k := s.cfg.Load().Knowledge[name]; k.Engine == config.EngineEmbedded && k.Path == "" {
			ids = append(ids, string(name))
		}
	}
	return ids
}

// base returns the base that this process searches under an id.
func (s *stateFolder) base(id, path string) *knowledge.Base {
	if s.library != nil && (s.options.Keep || path == "") {
		return s.library.Base(id)
	}
	return knowledge.New(id)
}

// asConfigured reports whether the stored content of a base was read from the configured folder
// and by the configured rules. Other content is not searched.
func (s *stateFolder) asConfigured(b store.Base) bool {
	k := s.cfg.Load().Knowledge[config.Name(b.ID)]
	folder, settled, _ := store.ReadOrigin(b.Origin)
	return k.Path == "" || s.cfg.Load().State.Follow || settled && folder == s.cfg.Load().Folder(config.Name(b.ID)).Origin()
}

// load makes the configured bases answer from the state folder. Bases that were read from another
// folder, or by other rules, wait until they are read again. In a process that serves, problems
// are logged and are not errors.
func (s *stateFolder) load(ctx context.Context) error {
	if s.library.Standing() == library.NotOpen {
		return nil
	}
	err := s.library.Load(ctx, func(b store.Base) bool {
		_, named := s.cfg.Load().Knowledge[config.Name(b.ID)]
		return named
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, id := range s.folderless() {
		missing := s.loadFolderless(ctx, id)
		if why := cmp.Or(s.library.BaseError(id), err, missing); why != nil && !s.options.Keep && s.library.Base(id).Content() == nil {
			return fmt.Errorf("state: %w", why)
		}
		err = errors.Join(err, missing)
	}
	if err == nil || !s.options.Keep {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		s.monitor.Log(slog.LevelWarn, "state: "+strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// loadFolderless creates a base without a folder if the state folder lacks it, or returns an error
// if it must exist.
func (s *stateFolder) loadFolderless(ctx context.Context, id string) error {
	switch {
	case s.library.Base(id).Content() != nil:
		return nil
	case s.cfg.Load().Knowledge[config.Name(id)].MustExist:
		return fmt.Errorf("%s holds no base %s%s; for a folder of that name write --knowledge ./%s", s.cfg.Load().State.Path, id, s.others(ctx), id)
	case s.library.Standing() == library.Writing:
		return s.library.CreateBase(ctx, id)
	}
	return nil
}

// others lists the bases in the state folder, for an error message.
func (s *stateFolder) others(ctx context.Context) string {
	bases, err := s.library.StoredBases(ctx)
	if err != nil || len(bases) == 0 {
		return ""
	}
	var ids []string
	for _, b := range bases {
		ids = append(ids, b.ID)
	}
	return "; there are " + strings.Join(ids, ", ")
}

// loadOthers loads the bases that are not in the configuration: created over the admin port, or of
// another configuration. Start-up does not wait for them.
func (s *stateFolder) loadOthers(ctx context.Context) error {
	err := s.library.Load(ctx, func(b store.Base) bool { return s.cfg.Load().Knowledge[config.Name(b.ID)].Engine == "" })
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// noteChange records that the content of a base has changed.
func (s *stateFolder) noteChange(id string) {
	base := s.library.Base(id)
	s.view.noteChange(id)
	s.group.Changed(id)
	if _, named := s.cfg.Load().Knowledge[config.Name(id)]; !named {
		return // metrics only have names of the configuration
	}
	if c := base.Content(); c != nil {
		s.monitor.Metrics.Knowledge(id, c.Documents(), c.Chunks(), c.Bytes(), time.Now())
		if _, ok := s.embedding.Space(id); ok {
			embedded, _ := c.Embedded()
			s.monitor.Metrics.Embedded(id, embedded)
		}
	}
	s.embedding.Changed(id)
}

// noteTrouble warns of a problem with a base that stopped nothing.
func (s *stateFolder) noteTrouble(t library.Trouble) {
	line := "state: " + t.Err.Error()
	if t.Knowledge != "" && !strings.Contains(line, t.Knowledge) {
		line = fmt.Sprintf("state: knowledge %s: %v", t.Knowledge, t.Err)
	}
	s.monitor.Log(slog.LevelWarn, line)
}

// checkStart returns an error for what is most likely a mistake in the command line or
// configuration: a missing folder that was never read, or a base that the state folder lacks.
func (s *stateFolder) checkStart(ctx context.Context) error {
	if s.cfg.Load().State.Follow || s.library.Standing() == library.NotOpen { // a follower's folders may be on another machine
		return nil
	}
	stored, err := s.library.StoredBases(ctx)
	if err != nil {
		return nil // reported when they are loaded
	}
	read := map[config.Name]bool{}
	for _, b := range stored {
		path, _ := SplitOrigin(b.Origin)
		configured, _ := SplitOrigin(s.cfg.Load().Folder(config.Name(b.ID)).Origin())
		read[config.Name(b.ID)] = path == configured
	}
	if err := s.cfg.Load().CheckFolders(func(name config.Name) bool { return read[name] }); err != nil {
		return err
	}
	for _, id := range s.folderless() {
		_, there := read[config.Name(id)]
		if s.cfg.Load().Knowledge[config.Name(id)].MustExist && !there && s.library.Standing() == library.Writing {
			return fmt.Errorf("state: %w", s.loadFolderless(ctx, id))
		}
	}
	return nil
}

// SplitOrigin returns the folder in a base's origin and the digest of the rules by which it was
// read; both are "" without a folder.
func SplitOrigin(origin string) (path, rules string) {
	folder, _, _ := store.ReadOrigin(origin)
	if end := strings.LastIndexByte(folder, ' '); end > 0 {
		return folder[:end], folder[end+1:]
	}
	return "", ""
}
