package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
)

// An amiss is what keeps a process from writing its state folder, or from opening it.
type amiss struct {
	mu  sync.Mutex
	err error
}

func (a *amiss) set(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// why is nil where nothing does.
func (a *amiss) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// locked tells whether it is another process that writes the folder.
func (a *amiss) locked() bool {
	var locked *store.LockedError
	return errors.As(a.why(), &locked)
}

// enter opens the state folder as well as can be, unless it is, and tells whether that
// made a difference.
func (s *stack) enter(ctx context.Context) bool {
	before := s.kept.Standing()
	if before == knowledge.Writing || before == knowledge.Following && s.cfg.State.Follow {
		return false
	}
	if before == knowledge.Following && !s.amiss.locked() {
		s.leave(ctx) // SQLite writes nothing that the process has open on a disk that took no writes
	}
	var err error
	if !s.cfg.State.Follow {
		err = s.kept.Open(ctx, true)
	}
	if s.kept.Standing() == knowledge.Apart {
		reading := s.kept.Open(ctx, false)
		if err == nil {
			err = reading
		}
	}
	s.amiss.set(err)
	return s.kept.Standing() != before
}

// leave ends the use of the state folder for a moment.
func (s *stack) leave(ctx context.Context) {
	if err := s.kept.Leave(ctx); err != nil {
		s.tell(slog.LevelWarn, "state: "+err.Error())
	}
}

// exchanged tells whether a damaged database that this process writes was put right, by
// moving it away or bringing back a backup.
func (s *stack) exchanged(ctx context.Context) bool {
	return s.kept.Standing() == knowledge.Writing && len(s.kept.Troubled()) > 0 && s.kept.Replaced(ctx)
}

// stateEvery is how long a state folder that cannot be used is left alone at most; one
// that another process writes is looked at every lockEvery.
const stateEvery = 10 * time.Second

// awaitChange returns when this process stands otherwise to the state folder than before,
// or should open it anew.
func (s *stack) awaitChange(ctx context.Context) {
	for wait := lockEvery; pause(ctx, wait) == nil && !s.exchanged(ctx) && !s.enter(ctx); {
		if s.amiss.locked() {
			continue
		}
		wait = min(2*wait, stateEvery)
		if line := s.stateLine(); line != "" {
			s.tell(slog.LevelWarn, line)
		}
	}
}

// keepKnowledge lets the bases answer, and keeps them as their folders are, until ctx
// ends. What is wrong with the state folder, or with a base, is said and tried again; it
// keeps nobody from being served.
func (s *stack) keepKnowledge(ctx context.Context, out *output) {
	for first := true; ctx.Err() == nil; first = false {
		s.tellStanding(first)
		if err := s.index(ctx, out.indexed); err != nil && ctx.Err() == nil {
			s.tell(slog.LevelWarn, err.Error())
		}
		if first && ctx.Err() == nil {
			s.lookAtStores(ctx, out.indexed)
			for _, line := range s.unknownAttributes() {
				s.tell(slog.LevelWarn, line)
			}
			out.announceLimits(ctx, s)
		}
		phase, end := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { s.watch(phase) })
		s.awaitChange(ctx)
		end()
		watching.Wait()
		if s.exchanged(ctx) {
			s.leave(ctx)
			s.enter(ctx)
		}
	}
}

// tellStanding says how this process stands to the state folder.
func (s *stack) tellStanding(first bool) {
	switch why := s.stateLine(); {
	case s.amiss.locked() && s.kept.Standing() == knowledge.Following:
		s.tell(slog.LevelInfo, why)
	case why != "":
		s.tell(slog.LevelWarn, why)
	case !first:
		s.tell(slog.LevelInfo, "state: this process writes "+s.cfg.State.Path+" now")
	}
}

// stateLine says what is the matter with the state folder; "" for nothing.
func (s *stack) stateLine() string {
	err := stateError(s.amiss.why(), s.cfg.State, true)
	switch {
	case err == nil:
		return ""
	case s.kept.Standing() == knowledge.Following && !s.amiss.locked():
		return err.Error() + "; what it holds is answered from, and no folder is read"
	}
	return err.Error()
}

// trouble says what does not work at present, a line each.
func (s *stack) trouble() []string {
	lines := append(s.stateTrouble(), s.shared.trouble()...)
	configured := s.bases.configured()
	for _, id := range configured {
		lines = append(lines, s.baseTrouble(id)...)
	}
	if s.kept == nil {
		return lines
	}
	for _, id := range s.kept.Troubled() {
		if !slices.Contains(configured, id) {
			lines = append(lines, ofBase(id, s.kept.Wrong(id).Error()))
		}
	}
	return lines
}

func (s *stack) stateTrouble() []string {
	if s.kept == nil {
		return nil
	}
	if err := s.kept.Wrong(""); err != nil {
		return []string{"state: " + err.Error()}
	}
	line := s.stateLine()
	if line == "" || s.amiss.locked() && s.kept.Standing() == knowledge.Following {
		return nil
	}
	return []string{line}
}

// baseTrouble says why a base of the configuration does not answer, or not as it should.
func (s *stack) baseTrouble(id string) []string {
	base := s.embedded[id]
	if base == nil {
		return s.remoteTrouble(id)
	}
	if k := s.keepers[id]; k != nil && s.kept.Standing() == knowledge.Writing {
		if why := k.status().trouble(); why != "" {
			return []string{ofBase(id, why)}
		}
	}
	if s.kept != nil && s.kept.Wrong(id) != nil {
		return []string{ofBase(id, s.kept.Wrong(id).Error())}
	}
	if base.Content() == nil {
		return []string{"knowledge " + id + ": " + s.waitsFor(id)}
	}
	return s.partly([]string{id})
}

func (s *stack) remoteTrouble(id string) []string {
	lines := s.remote[id].Trouble()
	if len(lines) == 0 && s.remote[id].Ref().Generation == "" {
		return []string{"knowledge " + id + ": indexing"}
	}
	return lines
}

// waitsFor says what a base waits for that has nothing to answer from.
func (s *stack) waitsFor(id string) string {
	if s.kept == nil || s.kept.Standing() == knowledge.Writing {
		return "indexing"
	}
	if s.kept.Standing() == knowledge.Apart {
		return "waits for the state folder"
	}
	if s.keepers[id] != nil {
		return "is not in the state folder as it is configured here, and is read when this process writes it"
	}
	return "is not in the state folder yet"
}

// ofBase lets a line name the base that it is about, first.
func ofBase(id, line string) string {
	name := "knowledge " + id + ": "
	return name + strings.TrimPrefix(line, name)
}

// checkStart refuses what is most likely a slip of who starts this process: a folder that
// is not there and was never read, a base that the state folder does not hold.
func (s *stack) checkStart(ctx context.Context) error {
	if s.cfg.State.Follow || s.kept.Standing() == knowledge.Apart { // the folders are somewhere else, perhaps, or were read
		return nil
	}
	stored, err := s.kept.StoredBases(ctx)
	if err != nil {
		return nil // it is said when they are loaded
	}
	read := map[config.Name]bool{}
	for _, b := range stored {
		path, _ := splitOrigin(b.Origin)
		own, _ := splitOrigin(s.cfg.Folder(config.Name(b.ID)).Origin())
		read[config.Name(b.ID)] = path == own
	}
	if err := s.cfg.CheckFolders(func(name config.Name) bool { return read[name] }); err != nil {
		return err
	}
	for _, id := range s.held() {
		_, there := read[config.Name(id)]
		if s.cfg.Knowledge[config.Name(id)].Held && !there && s.kept.Standing() == knowledge.Writing {
			return fmt.Errorf("state: %w", s.loadHeld(ctx, id))
		}
	}
	return nil
}
