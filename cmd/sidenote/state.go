package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
)

// A home says what a stack does with the state folder. The zero home reads folders
// into memory, and bases without one from the state folder as it is: that is for
// commands that look at knowledge and change nothing.
type home struct {
	keep    bool   // bases are kept in the state folder, or followed there
	address string // of the admin port, for others that want to write the folder
}

// openState opens the state folder if there is something in it that is needed. Who keeps
// bases there goes on without, where it cannot be opened.
func (s *stack) openState(ctx context.Context, h home) error {
	state := s.cfg.State
	if !h.keep && len(s.held()) == 0 {
		return nil
	}
	options := knowledge.LibraryOptions{Address: h.address, Changed: s.noteChange, Trouble: s.noteTrouble, Wanted: s.own}
	deps, err := s.readingFor(h.keep && !state.Follow)
	if err != nil {
		return err
	}
	if s.kept, err = knowledge.NewLibrary(ctx, state.Path, deps, options); err != nil {
		return err
	}
	s.bases.kept = s.kept
	if !h.keep {
		return stateError(s.kept.Open(ctx, false), state, false)
	}
	s.enter(ctx)
	why := s.amiss.why()
	if s.kept.Standing() != knowledge.Apart || !state.Usual || state.Follow || !errors.Is(why, fs.ErrPermission) && !readOnlyDisk(why) {
		return nil
	}
	s.tell(slog.LevelWarn, fmt.Sprintf("nothing is kept over a restart: %v; choose a folder by --state", why))
	inMemory, err := knowledge.OpenLibrary(ctx, store.Memory, deps, options)
	if err != nil {
		return err
	}
	s.amiss.set(nil)
	err = s.kept.Close()
	s.kept, s.bases.kept = inMemory, inMemory
	return err
}

// stateError adds what to do about it.
func stateError(err error, state config.State, keep bool) error {
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

// held lists the embedded bases without a folder.
func (s *stack) held() (ids []string) {
	for _, name := range s.cfg.KnowledgeNames() {
		if k := s.cfg.Knowledge[name]; k.Engine == config.EngineEmbedded && k.Path == "" {
			ids = append(ids, string(name))
		}
	}
	return ids
}

// embed returns the base of an id that is searched in this process.
func (s *stack) embed(id, path string) *knowledge.Base {
	if s.kept != nil && (s.home.keep || path == "") {
		return s.kept.Base(id)
	}
	return knowledge.New(id)
}

// own tells whether a base may be answered from as the state folder has it: not what
// was read from another folder, or by other rules, than the configuration has.
func (s *stack) own(b store.Base) bool {
	k := s.cfg.Knowledge[config.Name(b.ID)]
	folder, settled, _ := store.ReadOrigin(b.Origin)
	return k.Path == "" || s.cfg.State.Follow || settled && folder == s.cfg.Folder(config.Name(b.ID)).Origin()
}

// load lets the bases of the configuration answer from what the state folder holds of
// them. Those that were read from another folder, or by other rules, wait until they
// are read again. Who keeps bases says what is wrong, and goes on.
func (s *stack) load(ctx context.Context) error {
	if s.kept.Standing() == knowledge.Apart {
		return nil
	}
	err := s.kept.Load(ctx, func(b store.Base) bool {
		_, named := s.cfg.Knowledge[config.Name(b.ID)]
		return named
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, id := range s.held() {
		missing := s.loadHeld(ctx, id)
		if why := cmp.Or(s.kept.Wrong(id), err, missing); why != nil && !s.home.keep && s.kept.Base(id).Content() == nil {
			return fmt.Errorf("state: %w", why)
		}
		err = errors.Join(err, missing)
	}
	if err == nil || !s.home.keep {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		s.tell(slog.LevelWarn, "state: "+strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// loadHeld sees to a base without a folder that is not in the state folder.
func (s *stack) loadHeld(ctx context.Context, id string) error {
	switch {
	case s.kept.Base(id).Content() != nil:
		return nil
	case s.cfg.Knowledge[config.Name(id)].Held:
		return fmt.Errorf("%s holds no base %s%s; for a folder of that name write --knowledge ./%s", s.cfg.State.Path, id, s.thereAre(ctx), id)
	case s.kept.Standing() == knowledge.Writing:
		return s.kept.CreateBase(ctx, id)
	}
	return nil
}

// thereAre lists what the state folder holds, for an error.
func (s *stack) thereAre(ctx context.Context) string {
	bases, err := s.kept.StoredBases(ctx)
	if err != nil || len(bases) == 0 {
		return ""
	}
	var ids []string
	for _, b := range bases {
		ids = append(ids, b.ID)
	}
	return "; there are " + strings.Join(ids, ", ")
}

// loadOthers lets the bases answer that the configuration does not name: they were
// made over the admin port, or are of another configuration. Nobody waits for them.
func (s *stack) loadOthers(ctx context.Context) error {
	err := s.kept.Load(ctx, func(b store.Base) bool { return s.cfg.Knowledge[config.Name(b.ID)].Engine == "" })
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// noteChange notes that a base answers from something else.
func (s *stack) noteChange(id string) {
	base := s.kept.Base(id)
	s.library.noteChange(id)
	if _, named := s.cfg.Knowledge[config.Name(id)]; !named {
		return // metrics know the names of the configuration only
	}
	if c := base.Content(); c != nil {
		s.metrics.Knowledge(id, c.Documents(), c.Chunks(), c.Bytes(), time.Now())
	}
}

// noteTrouble warns of what was wrong with a base and did not stop anything.
func (s *stack) noteTrouble(t knowledge.Trouble) {
	line := "state: " + t.Err.Error()
	if t.Knowledge != "" && !strings.Contains(line, t.Knowledge) {
		line = fmt.Sprintf("state: knowledge %s: %v", t.Knowledge, t.Err)
	}
	s.tell(slog.LevelWarn, line)
}
